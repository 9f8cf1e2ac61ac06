"""Checkpoint files: written whole or not at all, and read without running code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ckcnn.files import replacing


def save(checkpoint: dict[str, Any], path: Path) -> None:
    """Writes a checkpoint; whatever happens, `path` holds the old content or the whole new one."""
    with replacing(path) as file:
        torch.save(checkpoint, file)


def load(path: Path) -> dict[str, Any]:
    """Reads a checkpoint onto the CPU.

    Raises:
        ValueError: if there is none, or it is broken; the message names the newest other one that is whole.
    """
    if not path.is_file():
        raise ValueError(f"there is no checkpoint {path}")
    if (content := _read(path)) is not None:
        return content
    others = sorted(path.parent.glob("*.ckpt"), key=lambda other: other.stat().st_mtime_ns, reverse=True)
    good = next((other for other in others if other != path and _read(other) is not None), None)
    advice = f"the newest whole one is {good}" if good else "there is no other one beside it"
    raise ValueError(f"{path} is not a whole checkpoint of ckcnn (truncated, or another kind of file); {advice}")


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # torch raises whatever its archive reader and its unpickler raise
        return None
    return content if isinstance(content, dict) and {"state_dict", "model_class"} <= content.keys() else None
