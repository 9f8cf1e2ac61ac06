"""Time stamps, looked at once for all layers of a network."""

# B batch, T time, P cells of the window, M cells of the grid, R rows and S columns of a tile, Q terms, X tiles

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ckcnn.nn.checks import check_times
from ckcnn.nn.positions import Memory, cell_widths, newest_widths
from ckcnn.nn.window import End, Window

_TILE_ROWS = 8  # outputs that share one dense block of near samples
_KEEP_ELEMENTS = 1 << 26  # weights of near pairs that are kept for the next layer; more are made again
_CHUNK_ELEMENTS = 1 << 18  # weights, or products with them, that exist at once
_BEYOND = 32  # samples: a gap longer than the memory counts as the memory and this much
GRID_FACTOR = 32  # whole-number stamps go by FFT unless their grid is this many times longer than the samples
REAL_FACTOR = 8  # the same for real-valued stamps, whose grid is finer


class TimeGrid:
    """What all layers of a network need to know about the stamps of a batch.

    Making one checks the stamps and waits for their values once; a network makes one per call and hands it to its
    layers in place of `times`. What depends on the horizon or on the grid is made when first asked for, then shared.

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
        self.step = regular_step(times)
        whole = self.stamps == self.stamps.round()
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
        assert isinstance(times, Tensor)
        return cls(times, x)

    @property
    def length(self) -> int:
        """Samples of each sequence."""
        return self.stamps.shape[-1]

    @cached_property
    def widths(self) -> Tensor:
        """The stretch of time that each sample stands for once the next stamp is known, ``(B, T)``."""
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
    return step if step > 0 and float(off) <= slack + 1e-12 * float(grid[-1]) else None


class Spreading:
    """The sparse matrix that spreads samples over a grid, and its transpose, for all sequences of a batch.

    Attributes:
        cells: cells of the grid of one sequence, M.
        inside: which samples lie on the grid, ``(B, T)``; the others are so far away that it would be too long.
        outside_from: the first step at which some sample does not, or T.
    """

    def __init__(self, grid: TimeGrid, memory: Memory, sigma: float, window: Window) -> None:
        positions = grid.positions(memory)
        limit = float(REAL_FACTOR * grid.length + memory.horizon)
        self.inside = positions <= limit
        batch, length = positions.shape
        self.outside_from = int(self.inside.sum(1).min())
        places = sigma * positions.clamp_max(limit)  # in cells
        first = (places - window.width / 2).ceil()
        offset = torch.arange(window.width, device=places.device)
        weights = window.values(places[..., None] - first[..., None] - offset) * self.inside[..., None]  # (B, T, P)
        first = first.long() + window.width  # no cell is negative
        self.cells = int(first.max()) + window.width
        start = self.cells * torch.arange(batch, device=places.device)[:, None]
        cells = (first + start)[..., None] + offset  # (B, T, P)
        self._weights, self._cells, self._width = weights.flatten(), cells.flatten(), window.width
        self._by_dtype: dict[torch.dtype, tuple[Bags, Bags]] = {}
        self._rows = batch * length

    def bags(self, dtype: torch.dtype, cells: int) -> tuple[Bags, Bags]:
        """Sums over samples, one for each cell, and sums over cells, one for each sample."""
        if dtype not in self._by_dtype:
            weights = self._weights.to(dtype)
            order = self._cells.argsort(stable=True)
            counts = torch.bincount(self._cells, minlength=cells)
            offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
            spread = Bags(order // self._width, weights[order], offsets)
            ends = torch.arange(0, len(weights) + 1, self._width, device=weights.device)
            self._by_dtype[dtype] = spread, Bags(self._cells, weights, ends)
        return self._by_dtype[dtype]


@dataclass(frozen=True)
class Bags:
    """A sparse matrix by rows: which rows of the other side each sum takes, how much of them, and where it starts."""

    index: Tensor
    weights: Tensor
    offsets: Tensor

    def sums(self, rows: Tensor) -> Tensor:
        """The product with ``(rows, C)``."""
        return torch.nn.functional.embedding_bag(
            self.index, rows, self.offsets, mode="sum", per_sample_weights=self.weights, include_last_offset=True
        )


class NearPairs:
    """All pairs near one end of the memory, in dense tiles of a few consecutive outputs by a few consecutive samples.

    Attributes:
        rows: output of each row of a tile, ``(X, R)``, counted through the batch.
        columns: sample of each column, ``(X, S)``.
    """

    def __init__(self, grid: TimeGrid, memory: Memory, sigma: float, end: End, old: bool, dtype: torch.dtype) -> None:
        self.grid, self.memory, self.sigma, self.end, self.old, self.dtype = grid, memory, sigma, end, old, dtype
        stamps = grid.stamps
        batch, length = stamps.shape
        device = stamps.device
        blocks = -(-length // _TILE_ROWS)
        top = torch.arange(blocks, device=device) * _TILE_ROWS  # first row of each block
        bottom = (top + _TILE_ROWS - 1).clamp_max(length - 1)
        low, high = self._lags()
        slack = 1e-5 * memory.horizon  # more than the slack of the memory
        begin = torch.searchsorted(stamps, (stamps[:, top] - high - slack).contiguous())  # (B, blocks)
        stop = torch.searchsorted(stamps, (stamps[:, bottom] - low + slack).contiguous(), right=True)
        if memory.causal:
            stop = torch.minimum(stop, bottom + 1)
        needed = (stop - begin).clamp_min(0)
        live = needed[needed > 0]
        typical = int(torch.quantile(live[:: max(1, len(live) // 4096)].double(), 0.9)) if len(live) else 8
        size = min(64, 8 * -(-typical // 8))
        tiles = -(-needed // size)  # (B, blocks)
        flat = tiles.flatten()
        block = torch.repeat_interleave(torch.arange(len(flat), device=device), flat)
        number = torch.arange(len(block), device=device) - (flat.cumsum(0) - flat)[block]
        sequence, which = block // blocks, block % blocks
        column = begin.flatten()[block, None] + number[:, None] * size + torch.arange(size, device=device)
        row = top[which, None] + torch.arange(_TILE_ROWS, device=device)
        shift = (sequence * length)[:, None]
        self._valid_columns = column < stop.flatten()[block, None]
        self._valid_rows = row < length
        self.rows = row.clamp_max(length - 1) + shift
        self.columns = column.clamp_max(length - 1) + shift
        self.terms = end.table.shape[1]
        self._kept: Tensor | None = None
        if self.elements(1) * len(self) <= _KEEP_ELEMENTS and len(self):
            self._kept = torch.cat([self._make(part) for part in self.chunks(0)])

    def __len__(self) -> int:
        return len(self.rows)

    def elements(self, tiles: int) -> int:
        """Weights of so many tiles."""
        return tiles * self.rows.shape[1] * self.columns.shape[1] * self.terms

    def chunks(self, channels: int) -> list[slice]:
        """The tiles in groups that need a bounded memory."""
        size = self.rows.shape[1] * self.terms * max(channels, self.columns.shape[1])
        step = max(1, _CHUNK_ELEMENTS // size)
        return [slice(start, min(start + step, len(self))) for start in range(0, len(self), step)]

    def weights(self, part: slice) -> Tensor:
        """For each tile the terms of all its pairs times the stretch of the sample, ``(X, R Q, S)``."""
        return self._make(part) if self._kept is None else self._kept[part]

    def _lags(self) -> tuple[float, float]:
        """The lags that lie near this end."""
        reach = self.end.reach / self.sigma
        if self.old:
            return self.memory.past - reach, self.memory.past
        return -self.memory.future, reach - self.memory.future

    def _make(self, part: slice) -> Tensor:
        stamps, widths = self.grid.stamps.flatten(), self.grid.widths.flatten()
        rows, columns = self.rows[part], self.columns[part]
        lags = stamps[rows][:, :, None] - stamps[columns][:, None]  # (X, R, S)
        live = self._valid_rows[part][:, :, None] & self._valid_columns[part][:, None] & self.memory.sees(lags)
        if self.memory.causal:
            live &= rows[:, :, None] > columns[:, None]  # of equal stamps those before; not the sample itself
        distances = self.sigma * (self.memory.past - lags if self.old else lags + self.memory.future)
        live &= distances <= self.end.reach
        terms = self.end.terms(distances, self.dtype)  # (X, R, S, Q)
        stretch = torch.where(live, widths[columns][:, None], 0.0).to(self.dtype)  # (X, R, S)
        weights = terms.mT * stretch[:, :, None]  # (X, R, Q, S)
        return weights.reshape(len(rows), -1, columns.shape[1])
