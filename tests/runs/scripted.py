"""A trainer that only remembers what callbacks do with it, so that each of them can be tested alone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from ckcnn.files import replacing


class ScriptedTrainer:
    """Stands in for Lightning's trainer at the end of an epoch.

    Args:
        epoch: the number of the epoch.
        metrics: what was logged.
    """

    is_global_zero, fast_dev_run, should_stop, training, world_size = True, False, False, True, 1
    accumulate_grad_batches, is_last_batch, num_training_batches = 1, False, 100
    received_sigterm = False
    train_dataloader = SimpleNamespace(knows_its_place=True)  # as ours do

    def __init__(self, epoch: int = 0, **metrics: float) -> None:
        self.current_epoch, self.global_step = epoch, 10 * (epoch + 1)
        self.callback_metrics = {name.replace("_", "/"): torch.tensor(value) for name, value in metrics.items()}
        self.saved: list[str] = []
        self._signal_connector = SimpleNamespace()  # takes the flag for SIGTERM
        self.fit_loop = SimpleNamespace(epoch_loop=SimpleNamespace())

    def save_checkpoint(self, path: Path, weights_only: bool) -> None:
        assert not weights_only, "a run cannot be resumed from weights alone"
        with replacing(path) as file:  # as the real one does: the last checkpoint may be a link to the best one
            file.write(f"epoch {self.current_epoch}".encode())
        self.saved.append(path.name)


def trainer(epoch: int = 0, **metrics: float) -> Any:
    """Return one for mypy and for Lightning's signatures."""
    return ScriptedTrainer(epoch, **metrics)
