"""How Lightning writes and reads the checkpoints of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytorch_lightning.plugins.io import TorchCheckpointIO

from ckcnn.runs import checkpoints


class SafeCheckpointIO(TorchCheckpointIO):
    """Writes a checkpoint under another name, and renames it when it is safe on the disk; reads plain data only."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        checkpoints.save(checkpoint, Path(path))

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        return checkpoints.load(Path(path))
