"""Checkpoint files: written whole or not at all, and read without running code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ckcnn.files import replacing


def save(checkpoint: dict[str, Any], path: Path) -> None:
    """Writes a checkpoint; whatever happens, `path` holds the old content or the whole new one."""
    with replacing(path) as file:
        torch.save(checkpoint, file)


def load(path: Path) -> dict[str, Any]:
    """Reads a checkpoint onto the CPU; one of an earlier version of ckcnn as this version would have written it.

    Raises:
        ValueError: if there is none, or it is broken; the message names the newest other one that is whole.
    """
    if not path.is_file():
        raise ValueError(f"there is no checkpoint {path}")
    if (content := _read(path)) is not None:
        return _upgraded(content)
    others = sorted(path.parent.glob("*.ckpt"), key=lambda other: other.stat().st_mtime_ns, reverse=True)
    good = next((other for other in others if other != path and _read(other) is not None), None)
    advice = f"the newest whole one is {good}" if good else "there is no other one beside it"
    raise ValueError(f"{path} is not a whole checkpoint of ckcnn (truncated, or another kind of file); {advice}")


def is_finished(content: Mapping[str, Any]) -> bool:
    """Tell whether the run of a checkpoint had stopped because it was good enough, or no longer improved."""
    return bool(content.get("callbacks", {}).get("KeepCheckpoints", {}).get("finished", False))


def _upgraded(content: dict[str, Any]) -> dict[str, Any]:
    """Turn the checkpoint of an earlier version into one of this version."""
    return _with_loader_position(_with_divided_callbacks(content))


def _with_loader_position(content: dict[str, Any]) -> dict[str, Any]:
    """Take the position in the epoch out of the loops: the data module keeps it now, not the loader."""
    loop = content.get("loops", {}).get("fit_loop", {})
    states = loop.get("state_dict", {}).get("combined_loader")
    if not states:
        return content
    over = loop.get("epoch_loop.batch_progress", {}).get("is_last_batch", False)
    loop["state_dict"]["combined_loader"] = []
    return {**content, "loader_position": {"given": 0 if over else states[0]["given"]}}


def _with_divided_callbacks(content: dict[str, Any]) -> dict[str, Any]:
    """Divide the state of the one callback of earlier versions among those that do its work now."""
    callbacks = dict(content.get("callbacks", {}))
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


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # torch raises whatever its archive reader and its unpickler raise
        return None
    return content if isinstance(content, dict) and {"state_dict", "model_class"} <= content.keys() else None
