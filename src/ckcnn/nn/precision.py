"""Where half precision ends."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch.amp.autocast_mode import is_autocast_available

_AUTOCAST_DEVICES = frozenset(
    kind for kind in ("cpu", "cuda", "xpu", "mps", "hpu", "mtia", "maia", "xla") if is_autocast_available(kind)
)  # asked once: compilers do not know the question


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """Switch autocast off: half precision is too coarse for an FFT and for the phases of a kernel net."""
    if device.type in _AUTOCAST_DEVICES and torch.is_autocast_enabled(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()
