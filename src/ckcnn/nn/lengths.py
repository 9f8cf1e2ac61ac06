"""Sequences of different lengths in one batch: how many of their steps are valid, and what is read from those."""

# B batch, C channels, T time

from __future__ import annotations

import math

import torch
from torch import Tensor

from ckcnn.compat.torch import is_fake


def check_lengths(lengths: Tensor, batch: int, time: int) -> None:
    """`lengths` must be a whole number of valid steps for each sequence.

    Values are checked on the CPU only: reading them elsewhere would wait for the device, or break a graph. What is read
    at a wrong length is NaN.
    """
    if tuple(lengths.shape) != (batch,) or lengths.is_floating_point():
        raise ValueError(
            f"lengths must be a whole number per sequence, shape ({batch},), got {lengths.dtype} {tuple(lengths.shape)}"
        )
    if lengths.device.type != "cpu" or torch.compiler.is_compiling() or is_fake(lengths):
        return
    if bool((lengths < 1).any()) or bool((lengths > time).any()):
        raise ValueError(f"lengths must lie in 1 ... {time}, got {int(lengths.min())} ... {int(lengths.max())}")


def last_valid(y: Tensor, lengths: Tensor) -> Tensor:
    """The last valid step of each sequence ``(B, C, T) -> (B, C)``."""
    rows, last = torch.arange(y.shape[0], device=y.device), (lengths - 1).clamp(0, y.shape[-1] - 1)
    return _nan_where_wrong(y[rows, :, last], lengths, y.shape[-1])


def mean_of_valid(y: Tensor, lengths: Tensor) -> Tensor:
    """The mean over the valid steps of each sequence ``(B, C, T) -> (B, C)``."""
    valid = torch.arange(y.shape[-1], device=y.device) < lengths[:, None]
    return _nan_where_wrong((y * valid[:, None]).sum(-1) / lengths[:, None], lengths, y.shape[-1])


def _nan_where_wrong(values: Tensor, lengths: Tensor, time: int) -> Tensor:
    wrong = (lengths < 1) | (lengths > time)
    return values.masked_fill(wrong[:, None], math.nan)
