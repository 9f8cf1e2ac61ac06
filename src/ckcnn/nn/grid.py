"""The kernel coordinates of a regular grid of lags, made on the device that needs them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ckcnn.nn.positions import _ROUNDING, Memory, smaller


def coordinate_grid(memory: Memory, length: int, dt: float, like: Tensor) -> tuple[Tensor, int]:
    """Return the coordinates of the lags of `Memory.grid`, without a copy from host to device.

    Computed in float64, because neighbouring lags of a long memory differ by less than float32 resolves in a product.

    Returns:
        Coordinates ``(L,)`` in the type and on the device of `like`, newest lag first, and how many lags lie ahead.
    """
    slack = _ROUNDING * memory.horizon
    back = smaller(length - 1, math.floor((memory.past + slack) / dt))
    ahead = 0
    if not memory.causal:
        ahead = smaller(length - 1, math.floor((memory.future + slack) / dt))
    steps = torch.arange(-ahead, back + 1, dtype=torch.float64, device=like.device)
    p = torch.rsub(steps, float(memory.causal), alpha=2 * dt / (memory.horizon - 1))
    return p.to(like.dtype), ahead
