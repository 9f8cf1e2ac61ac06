"""Time stamps, checked once for all layers of a network."""

# B batch, T time

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property

import torch
from torch import Tensor

from ckcnn.nn.checks import FINEST, check_dt, check_times
from ckcnn.nn.kernel_end import End
from ckcnn.nn.near_pairs import NearPairs
from ckcnn.nn.positions import Memory, cell_widths, newest_widths
from ckcnn.nn.spreading import Spreading
from ckcnn.nn.window import Window

_BEYOND = 32  # samples: a gap longer than the memory counts as the memory and this much
GRID_FACTOR = 32  # whole-number stamps go by FFT unless their grid is this many times longer than the samples


class TimeGrid:
    """What all layers of a network need to know about the stamps of a batch.

    Making one checks the stamps and waits for their values once; a network makes one per call and hands it to its
    layers in place of `times`. What depends on the horizon or on the grid is made on first use, then shared.

    Args:
        times: stamps ``(B, T)`` in training samples that do not decrease; padding repeats the last one.
        x: the signal that they belong to, ``(B, C, T)``.
    """

    def __init__(self, times: Tensor, x: Tensor) -> None:
        check_times(times, x)
        self.times = times
        start = times[:, :1]
        stamps = times - start if not times.is_floating_point() else times.double() - start.double()
        self.stamps = stamps.double()
        # A grid has no gradient in its stamps, so those that need one are summed pair by pair.
        self.step = None if times.requires_grad else regular_step(times)
        whole = (self.stamps == self.stamps.round()) & (not times.requires_grad)
        prefix = whole.long().cumprod(1).sum(1)
        gaps = self.stamps.diff()
        facts = torch.stack([prefix.min(), prefix.max(), (gaps == 0).any().long()]).tolist()
        self.whole: bool = facts[0] == self.length
        self.longest_prefix: int = facts[1]
        self.repeats: bool = bool(facts[2])
        self.prefix = prefix  # (B,) stamps before the first that is no whole number
        self._made: dict[Hashable, object] = {}

    @classmethod
    def of(cls, times: Tensor | TimeGrid | None, x: Tensor) -> TimeGrid | None:
        """A grid of stamps that may be one already; one for another signal is refused."""
        if times is None:
            return None
        if isinstance(times, cls):
            if times.times.shape != (x.shape[0], x.shape[2]):
                expected = (x.shape[0], x.shape[2])
                raise ValueError(
                    f"the TimeGrid must have one stamp per sample, shape {expected} for this x, "
                    f"got {tuple(times.times.shape)}; make one with TimeGrid(times, x)"
                )
            return times
        if not isinstance(times, Tensor):
            raise ValueError(
                f"times must be a tensor with one stamp per sample, shape {(x.shape[0], x.shape[2])} for this x, "
                f"got a {type(times).__name__}; convert it with torch.tensor(times)"
            )
        return cls(times, x)

    @property
    def length(self) -> int:
        """Samples of each sequence."""
        return self.stamps.shape[-1]

    @cached_property
    def widths(self) -> Tensor:
        """The time that each sample represents once the next stamp is known, ``(B, T)``."""
        return cell_widths(self.stamps)

    @cached_property
    def newest(self) -> Tensor:
        """The same while it is the newest sample."""
        return newest_widths(self.stamps)

    def far_widths(self, memory: Memory) -> Tensor:
        """The stretch of each sample, ``(B, T)``; in a causal layer none for those that no later sample sees.

        They would only add the rounding errors of what may be a very long stretch.
        """
        if not memory.causal:
            return self.widths
        forgotten = torch.ones_like(self.stamps, dtype=torch.bool)
        forgotten[:, :-1] = self.stamps.diff() > memory.horizon
        return self.widths.masked_fill(forgotten, 0.0)

    def positions(self, memory: Memory) -> Tensor:
        """Stamps ``(B, T)`` in which gaps that nothing is remembered across are shortened; depends on the past only."""
        longest = memory.horizon + _BEYOND
        gaps = self.stamps.diff().clamp_max(longest)
        return torch.cat([torch.zeros_like(self.stamps[:, :1]), gaps.cumsum(1)], dim=1)

    def span(self, memory: Memory) -> float:
        """The last of the positions, in training samples."""
        return self._once(("span", memory), lambda: float(self.positions(memory)[:, -1].max()))

    def spreading(self, memory: Memory, sigma: float, window: Window) -> Spreading:
        """How samples meet the grid with `sigma` cells per training sample."""
        return self._once(("spreading", memory, sigma, window), lambda: Spreading(self, memory, sigma, window))

    def near(self, memory: Memory, sigma: float, end: End, old: bool, dtype: torch.dtype) -> NearPairs:
        """The pairs whose lag lies near one end of the memory."""
        key = ("near", memory, sigma, id(end), old, dtype)
        return self._once(key, lambda: NearPairs(self, memory, sigma, end, old, dtype))

    def _once(self, key: Hashable, make):  # type: ignore[no-untyped-def]
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]


def sampling(times: Tensor | TimeGrid | None, dt: float, x: Tensor) -> tuple[TimeGrid | None, float]:
    """Return the stamps of a call of a layer if they need a path of their own, else None, and the sampling step.

    Raises:
        ValueError: if stamps and a step are given, or one of them does not fit.
    """
    check_dt(dt)
    grid = TimeGrid.of(times, x)
    if grid is None:
        return None, dt
    if dt != 1.0:
        raise ValueError(f"times already hold the sampling step, leave dt at 1.0 (got {dt})")
    return (grid, dt) if grid.step is None else (None, grid.step)


def regular_step(times: Tensor) -> float | None:
    """The common step of all stamps ``(B, T)``, up to the rounding of their type, or None if there is none."""
    length = times.shape[-1]
    if length == 1:
        return 1.0
    stamps = times - times[:, :1]
    step = float(stamps[0, -1]) / (length - 1)
    grid = step * torch.arange(length, dtype=torch.float64)
    slack = 4 * torch.finfo(times.dtype).eps * float(times.abs().max()) if times.is_floating_point() else 0.0
    off = (stamps.cpu().double() - grid).abs().max()
    return step if step >= FINEST and float(off) <= slack + 1e-12 * float(grid[-1]) else None
