"""What bad input gets: one ValueError that says what was expected, what was given and what to do."""

from __future__ import annotations

import numbers

import torch
from torch import Tensor

from ckcnn.checks import is_number

RADII = (1e-4, 1.0)  # of the points of a kernel, as fractions of half of the memory
FINEST, COARSEST = 1e-30, 1e30  # steps and stamps beyond which products of them overflow


def check_signal(x: Tensor, channels: int, dtype: torch.dtype) -> None:
    """`x` must be a non-empty real signal ``(batch, channels, time)`` that fits parameters of type `dtype`."""
    if not isinstance(x, Tensor):
        raise ValueError(f"x must be a tensor (batch, {channels}, time), got a {type(x).__name__}; use torch.tensor(x)")
    if x.dim() != 3:
        raise ValueError(f"x must have shape (batch, {channels}, time), got {tuple(x.shape)}")
    if x.shape[1] != channels:
        raise ValueError(
            f"x must have {channels} channels in shape (batch, channels, time), got {x.shape[1]} in {tuple(x.shape)}"
        )
    if x.shape[0] == 0 or x.shape[2] == 0:
        raise ValueError(f"x must hold at least one sequence of at least one sample, got shape {tuple(x.shape)}")
    if not x.is_floating_point():
        raise ValueError(f"x must be a real floating-point tensor, got {x.dtype}; convert it with x.float()")
    if x.dtype == torch.float64 and dtype != torch.float64:
        raise ValueError(f"x is {x.dtype} but the parameters are {dtype}; use x.float(), or double() the module")


def check_dt(dt: float) -> None:
    """`dt` must be a positive, finite step."""
    if isinstance(dt, bool) or not isinstance(dt, numbers.Real) or not FINEST <= dt <= COARSEST:
        raise ValueError(
            "dt must be a positive number up to 1e30, the sampling step in training samples (2 = half the rate), "
            f"got {dt!r}"
        )


def check_times(times: Tensor, x: Tensor) -> None:
    """`times` must be one finite, non-decreasing stamp for each sample of `x`."""
    expected = (x.shape[0], x.shape[2])
    if tuple(times.shape) != expected:
        raise ValueError(f"times must have one stamp per sample, shape {expected} for this x, got {tuple(times.shape)}")
    if times.dtype == torch.bool or times.is_complex():
        raise ValueError(f"times must be real numbers in training samples, got {times.dtype}")
    if times.device != x.device:
        raise ValueError(f"times must be on the device of x, {x.device}, got {times.device}")
    if not bool((times.abs() <= COARSEST).all()):
        raise ValueError(
            "times must be finite, got NaN, infinity or more than 1e30; give padding the stamp of the last real sample"
        )
    backwards = (times.diff() < 0).nonzero()
    if len(backwards):
        row, step = backwards[0].tolist()
        a, b = times[row, step].item(), times[row, step + 1].item()
        raise ValueError(
            f"times must not go backwards, got {a:g} then {b:g} at steps {step} and {step + 1} of sequence {row}; "
            "sort the samples by time"
        )


def check_sigma(sigma_0: float) -> None:
    """`sigma_0` must be a width that a window over the memory can have."""
    if not is_number(sigma_0) or not 1e-4 <= sigma_0 <= 1e4:
        raise ValueError(
            f"sigma_0 must be a positive number from 1e-4 to 1e4, the width of the window in halves of the horizon, "
            f"got {sigma_0!r}"
        )


def check_radius(radius: float) -> None:
    """`radius` must be one that the points of a kernel are kept in."""
    if not is_number(radius) or not RADII[0] <= radius <= RADII[1]:
        raise ValueError(f"radius must lie in [{RADII[0]:g}, {RADII[1]:g}], got {radius!r}")


def check_horizon(horizon: int) -> None:
    """`horizon` must be a length over which a lag can be measured."""
    if isinstance(horizon, bool) or not isinstance(horizon, int) or horizon < 2:
        raise ValueError(
            f"horizon must be a whole number of at least 2, the length of a training sequence, got {horizon!r}"
        )
