"""Checkpoint files: written whole or not at all, checked bit by bit, and read without running code."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ckcnn.files import replacing
from ckcnn.files.archives import check_archive, sealed
from ckcnn.runs.checkpoint_structure import check_structure


def save(checkpoint: dict[str, Any], path: Path) -> None:
    """Write a checkpoint; whatever happens, `path` holds the old content or the whole new one.

    It is put together in memory: the archive writer of torch ends the process if the disk is full.
    """
    archive = io.BytesIO()
    torch.save(checkpoint, archive)
    with replacing(path) as file:
        file.write(sealed(archive.getvalue()))


def load(path: Path) -> dict[str, Any]:
    """Load a checkpoint onto the CPU, converted to the current format if an earlier version wrote it.

    Raises:
        ValueError: if there is none, or it is broken; the message names the newest other one that is whole.
    """
    if not path.is_file():
        raise ValueError(f"there is no checkpoint {path}")
    if (content := _read(path)) is not None:
        check_structure(content, path)
        return _upgraded(content)
    others = sorted(path.parent.glob("*.ckpt"), key=lambda other: other.stat().st_mtime_ns, reverse=True)
    good = next((other for other in others if other != path and _read(other) is not None), None)
    advice = f"the newest whole one is {good}" if good else "there is no other checkpoint beside it"
    raise ValueError(f"{path} is not a whole checkpoint of ckcnn (damaged, or another kind of file); {advice}")


def why_finished(content: Mapping[str, Any], max_epochs: int | None, max_steps: int) -> str | None:
    """Return why a run of this many epochs or steps at most has nothing left to do; None if it can be resumed.

    Args:
        content: of its last checkpoint.
        max_epochs: as the trainer knows it, -1 or None for any number.
        max_steps: as the trainer knows it, -1 for any number.
    """
    if content.get("callbacks", {}).get("KeepCheckpoints", {}).get("finished", False):
        return "it stopped because it was good enough or no longer improved"
    loop = content.get("loops", {}).get("fit_loop", {})
    epochs = loop.get("epoch_progress", {}).get("current", {}).get("processed", 0)  # also during `on_train_epoch_end`
    if max_epochs is not None and 0 <= max_epochs <= epochs:
        return f"it has {epochs} epochs, and --trainer.max_epochs is {max_epochs}"
    steps = content.get("global_step", 0)
    return f"it has {steps} steps, and --trainer.max_steps is {max_steps}" if 0 <= max_steps <= steps else None


def _upgraded(content: dict[str, Any]) -> dict[str, Any]:
    """Turn the checkpoint of an earlier version into one of this version."""
    return _with_loader_position(_with_divided_callbacks(content))


def _with_loader_position(content: dict[str, Any]) -> dict[str, Any]:
    """Take the position in the epoch out of the loops: the data module keeps it now, not the loader."""
    loop = _mapping(_mapping(content.get("loops")).get("fit_loop"))
    states = _mapping(loop.get("state_dict")).get("combined_loader")
    if not states:
        return content
    over = _mapping(loop.get("epoch_loop.batch_progress")).get("is_last_batch", False)
    loop["state_dict"]["combined_loader"] = []
    return {**content, "loader_position": {"given": 0 if over else states[0]["given"]}}


def _with_divided_callbacks(content: dict[str, Any]) -> dict[str, Any]:
    """Divide the state of the one callback of earlier versions among those that do its work now."""
    callbacks = dict(_mapping(content.get("callbacks")))
    old = callbacks.pop("RunKeeper", None)
    if old is None:
        return content
    callbacks["BestEpoch"] = {
        new: old[name]
        for new, name in {"epoch": "best_epoch", "value": "best_score", "loss": "best_loss"}.items()
        if name in old
    }
    callbacks["KeepCheckpoints"] = {"finished": old.get("finished", False)}
    callbacks["EpochClock"] = {"spent": old.get("spent", 0.0)}
    return {**content, "callbacks": callbacks}


def _mapping(value: Any) -> Mapping[str, Any]:
    """Return the value if it is a mapping, else an empty one; whoever uses it checks it."""
    return value if isinstance(value, Mapping) else {}


def _read(path: Path) -> dict[str, Any] | None:
    archive = path.read_bytes()
    try:
        check_archive(archive)
        content = torch.load(io.BytesIO(archive), map_location="cpu", weights_only=True)
    except Exception:  # torch raises whatever its archive reader and its unpickler raise
        return None
    return content if isinstance(content, dict) and {"state_dict", "model_class"} <= content.keys() else None
