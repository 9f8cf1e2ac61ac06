"""The sparse matrix between samples with real-valued stamps and a grid."""

# B batch, T time, P cells of the window, M cells of the grid

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ckcnn.nn.positions import Memory
from ckcnn.nn.window import Window

if TYPE_CHECKING:
    from ckcnn.nn.time_grid import TimeGrid

_GRID_FACTOR = 8  # the grid may be this many times longer than the samples; what lies beyond is left to pairs


class Spreading:
    """The sparse matrix that spreads samples over a grid, and its transpose, for all sequences of a batch.

    Attributes:
        cells: cells of the grid of one sequence, M.
        inside: which samples lie on the grid, ``(B, T)``; the others are so far away that it would be too long.
        outside_from: the first step at which some sample does not, or T.
    """

    def __init__(self, grid: TimeGrid, memory: Memory, sigma: float, window: Window) -> None:
        positions = grid.positions(memory)
        limit = float(_GRID_FACTOR * grid.length + memory.horizon)
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
        """Sum over samples, one for each cell, and sum over cells, one for each sample."""
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
