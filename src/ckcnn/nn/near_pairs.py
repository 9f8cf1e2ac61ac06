"""The pairs of samples whose lag lies near an end of the memory."""

# B batch, T time, R rows and S columns of a tile, Q terms, X tiles

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ckcnn.nn.kernel_end import End
from ckcnn.nn.positions import Memory

if TYPE_CHECKING:
    from ckcnn.nn.time_grid import TimeGrid

_TILE_ROWS = 8  # outputs that share one dense block of near samples
_KEEP_ELEMENTS = 1 << 26  # weights of near pairs that are kept for the next layer; more are made again
_CHUNK_ELEMENTS = 1 << 18  # weights, or products with them, that exist at once


class NearPairs:
    """All pairs near one end of the memory, in dense tiles of a few consecutive outputs by a few consecutive samples.

    Attributes:
        rows: output of each row of a tile, ``(X, R)``, counted through the batch.
        columns: sample of each column, ``(X, S)``.
    """

    def __init__(self, grid: TimeGrid, memory: Memory, sigma: float, end: End, old: bool, dtype: torch.dtype) -> None:
        self.grid, self.memory, self.sigma, self.end, self.old, self.dtype = grid, memory, sigma, end, old, dtype
        stamps = grid.stamps
        length = stamps.shape[-1]
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
        """Weights of this many tiles."""
        return tiles * self.rows.shape[1] * self.columns.shape[1] * self.terms

    def chunks(self, channels: int) -> list[slice]:
        """The tiles in groups that need a bounded memory."""
        size = self.rows.shape[1] * self.terms * max(channels, self.columns.shape[1])
        step = max(1, _CHUNK_ELEMENTS // size)
        return [slice(start, min(start + step, len(self))) for start in range(0, len(self), step)]

    def weights(self, part: slice) -> Tensor:
        """For each tile the terms of all its pairs times the time that the sample represents, ``(X, R Q, S)``."""
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
