"""Which lags of a long kernel are convolved in blocks of which size, when samples arrive one by one.

A block of lags can be convolved by FFT as soon as a block of samples is complete, so a block of `size` may hold lags
from `size` on. Short blocks are cheap to wait for and dear per lag, long ones the other way round; so blocks grow with
the lag (Gardner, *Efficient convolution without input-output delay*, 1995), and the newest lags are summed directly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

# Nanoseconds, measured on one core of a server. Only their ratios matter, and these roughly.
_PRODUCT = 0.06  # a real multiplication in the sum over the newest lags
_COMPLEX_PRODUCT = 1.0  # a complex one, by which a spectrum is read from memory
_TRANSFORM = 0.5  # one of the ``n log2(n)`` steps of an FFT
_CALLS = 80_000.0  # the dozen operators that a block takes
_SHORTEST = 16  # samples


@dataclass(frozen=True, order=True)
class Level:
    """The lags from `start` until before `stop`, in blocks of `size`."""

    size: int
    start: int
    stop: int

    @property
    def blocks(self) -> int:
        """How many blocks the lags fill; the last one may be filled in part."""
        return math.ceil((self.stop - self.start) / self.size)


@dataclass(frozen=True)
class Partition:
    """How a kernel is cut: `direct` lags that are summed directly, then levels of growing blocks."""

    direct: int
    levels: tuple[Level, ...]


@cache
def cheapest_partition(lags: int, in_channels: int, out_channels: int, batch: int) -> Partition:
    """Return the partition with the lowest cost per sample when samples arrive one by one.

    Sizes are powers of two. What the lags from some size on cost does not depend on how the newer ones are cut, so the
    best cut is a shortest path from lag 0 to the last lag.

    Example:
        >>> cheapest_partition(16, 30, 30, 1)
        Partition(direct=16, levels=())
        >>> [level.size for level in cheapest_partition(16_000, 30, 30, 1).levels]
        [64, 128, 256, 512, 1024, 2048, 4096, 8192]
    """
    sizes = [_SHORTEST << n for n in range(lags.bit_length()) if _SHORTEST << n < lags]

    def level_cost(level: Level) -> float:
        """The nanoseconds per sample that a level takes."""
        transforms = batch * (in_channels * level.blocks + out_channels)
        transform = 2 * level.size * math.log2(2 * level.size) * _TRANSFORM
        products = in_channels * out_channels * level.blocks * (level.size + 1) * math.sqrt(batch)
        return (_CALLS + transforms * transform + products * _COMPLEX_PRODUCT) / level.size

    paths: dict[int, tuple[float, tuple[Level, ...]]] = {lags: (0.0, ())}
    for size in reversed(sizes):
        options = [(Level(size, size, stop), cost, levels) for stop, (cost, levels) in paths.items()]
        paths[size] = min((level_cost(level) + cost, (level, *levels)) for level, cost, levels in options)
    per_lag = in_channels * out_channels * math.sqrt(batch) * _PRODUCT
    direct = min(paths, key=lambda size: size * per_lag + paths[size][0])
    return Partition(direct, paths[direct][1])
