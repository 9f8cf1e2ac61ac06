"""Pure functions on signals ``(B, C, T)``: dropping observations, padding, standardising, resampling."""

# B batch, C channels, T time, R remaining steps

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import conv1d, pad

DROP_SEED = 56789  # the authors' seed
_LOBES = 8  # half of the length of a low-pass filter, in samples of the result
_CUTOFF = 0.8  # of the highest frequency that the result can hold
STD_EPSILON = 1e-5  # the authors add it to every standard deviation


def drop_count(length: int, rate: float) -> int:
    """How many of `length` steps are dropped, in percent as the authors count, so that 0.7 of 16000 is not 11199.

    Example:
        >>> [drop_count(182, rate) for rate in (0.3, 0.5, 0.7)], drop_count(16000, 0.7)
        ([54, 91, 127], 11200)
    """
    return int(length * round(100 * rate, 9) / 100)


def kept_steps(count: int, length: int, rate: float, seed: int = 0) -> NDArray[np.uint8]:
    """Which steps of each sequence remain when a fraction is dropped, the authors' way.

    One generator for all sequences, one permutation each, in file order.

    Returns:
        One bit per step, ``(count, ceil(length / 8))``, as `numpy.packbits` packs them: 35,000 clips of 16,000 samples
        take 70 MB.
    """
    generator = torch.Generator().manual_seed(DROP_SEED + seed)
    dropped = drop_count(length, rate)
    packed = np.empty((count, math.ceil(length / 8)), dtype=np.uint8)
    for row in packed:
        kept = np.ones(length, dtype=bool)
        kept[torch.randperm(length, generator=generator)[:dropped].numpy()] = False
        row[:] = np.packbits(kept)
    return packed


def unpack_steps(packed: NDArray[np.uint8], length: int) -> Tensor:
    """The bits of `kept_steps` as booleans ``(B, length)``."""
    return torch.from_numpy(np.unpackbits(packed, axis=1, count=length)).bool()


def valid_steps(lengths: Tensor, time: int) -> Tensor:
    """Which steps lie before the end of each sequence, ``(B, T)``."""
    return torch.arange(time) < lengths[:, None]


def repeat_last(values: Tensor, lengths: Tensor) -> Tensor:
    """Replace what comes after the end of each sequence by its last value; time is the last axis.

    Example:
        >>> repeat_last(torch.tensor([[1, 2, 3, 4]]), torch.tensor([2]))
        tensor([[1, 2, 2, 2]])
    """
    last = torch.minimum(torch.arange(values.shape[-1]), lengths[:, None] - 1)  # (B, T)
    return values.gather(-1, last if values.dim() == 2 else last[:, None].expand_as(values))


def remaining(keep: Tensor) -> tuple[Tensor, Tensor]:
    """The positions where `keep` ``(B, T)`` holds, ``(B, R)``, and their number ``(B,)``.

    Rows with fewer than ``R`` of them repeat their last position, and a row without any has its first step.

    Example:
        >>> remaining(torch.tensor([[True, False, True], [False, True, False]]))
        (tensor([[0, 2],
                [1, 1]]), tensor([2, 1]))
    """
    keep = keep.clone()
    keep[:, 0] |= ~keep.any(1)
    lengths = keep.sum(1)
    width = int(lengths.max())
    slot = torch.where(keep, keep.cumsum(1) - 1, width)  # what is not kept goes to a column that is cut off
    steps = torch.arange(keep.shape[1]).expand_as(keep)
    index = torch.zeros(len(keep), width + 1, dtype=torch.int64).scatter_(1, slot, steps)[:, :width]
    return repeat_last(index, lengths), lengths


def thinned(x: Tensor, stride: int, first: int = 0, valid: Tensor | None = None) -> Tensor:
    """Every `stride`-th sample after a low-pass filter, a windowed sinc that leaves the phase as it is.

    At the ends, and at those of the `valid` steps ``(B, T)``, the weights inside are scaled to the sum 1; what is not
    valid becomes 0. Frequencies up to 0.6 of what the result can hold pass, those that it cannot hold are damped by at
    least 40 dB.

    Example:
        >>> thinned(torch.ones(1, 1, 20), stride=4)
        tensor([[[1., 1., 1., 1., 1.]]])
    """
    reach = _LOBES * stride
    lags = torch.arange(-reach, reach + 1)
    weights = torch.sinc(_CUTOFF * lags / stride) * torch.hann_window(2 * reach + 3, periodic=False)[1:-1]
    weights = (weights / weights.sum()).to(x)[None, None]

    def smooth(values: Tensor) -> Tensor:
        flat = values.flatten(0, 1)[:, None]
        return conv1d(pad(flat, (reach - first, reach)), weights, stride=stride).view(*values.shape[:2], -1)

    inside = x.new_ones(1, 1, x.shape[-1]) if valid is None else valid[:, None].to(x)
    y = smooth(x * inside) / smooth(inside)
    return y if valid is None else torch.where(valid[:, None, first::stride], y, 0.0)


@dataclass(frozen=True)
class Statistics:
    """Mean and standard deviation, broadcastable over ``(B, C, T)``."""

    mean: Tensor
    std: Tensor

    def to(self, device: torch.device) -> Statistics:
        """The same on a device."""
        return Statistics(self.mean.to(device), self.std.to(device))

    def apply(self, x: Tensor) -> Tensor:
        """``(x - mean) / (std + 1e-5)``."""
        return (x - self.mean).div_(self.std + STD_EPSILON)

    def undo(self, x: Tensor) -> Tensor:
        """From what `apply` gives back to what it was given."""
        return x * (self.std + STD_EPSILON) + self.mean


def statistics(
    batches: Iterable[tuple[Tensor, Tensor | None]], by: Literal["channel", "step"], unscaled: int = 0
) -> Statistics:
    """Mean and unbiased standard deviation of the observed values.

    Args:
        batches: signals ``(B, C, T)``, each with where it was observed, broadcastable to it, or None for everywhere.
        by: ``"channel"``, or ``"step"``: one pair for each time index, pooled over channels, as the authors did.
        unscaled: number of last channels that stay as they are.
    """
    count = total = square = torch.zeros((), dtype=torch.float64)
    pooled = [0, 2] if by == "channel" else [0, 1]
    channels = 0
    for x, observed in batches:
        channels = x.shape[1]
        values = x[:, : channels - unscaled]
        if observed is None:
            seen = torch.full_like(values[:1], len(values), dtype=torch.float64)
        else:
            seen = observed.expand_as(x)[:, : channels - unscaled]
            values = torch.where(seen, values, 0.0)
        values = values.double()
        count = count + seen.sum(pooled, keepdim=True, dtype=torch.float64)
        total = total + values.sum(pooled, keepdim=True)
        square = square + values.square_().sum(pooled, keepdim=True)
    mean = total / count.clamp_min(1)
    variance = (square - count * mean.square()).clamp_min(0) / (count - 1).clamp_min(1)
    # The reference divides what never changes in training by 1e-5, which magnifies a new value in the test set.
    std = torch.where(variance > 1e-12 * mean.square(), variance.sqrt(), 1.0)
    return _with_unscaled(mean.float(), std.float(), channels, unscaled)


def _with_unscaled(mean: Tensor, std: Tensor, channels: int, unscaled: int) -> Statistics:
    if not unscaled:
        return Statistics(mean, std)
    mean, std = (part.expand(1, channels - unscaled, -1) for part in (mean, std))
    zero = torch.zeros(1, unscaled, mean.shape[-1])
    one = zero + (1 - STD_EPSILON)  # `apply` adds it again
    return Statistics(torch.cat([mean, zero], dim=1), torch.cat([std, one], dim=1))
