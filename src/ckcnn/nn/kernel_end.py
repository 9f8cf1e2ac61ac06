"""What a grid cannot carry near the end of a kernel, as a few terms (see `window`)."""

# N nodes, Q terms, U lags of a table

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ckcnn.nn.quadrature import lagrange

TABLE_STEPS = 64  # entries of a table per cell


@dataclass(frozen=True)
class End:
    """What is left to do near one end of a kernel.

    Attributes:
        reach: in cells; pairs further away from the end need nothing.
        nodes: distances from the end ``(N,)`` at which the kernel is read.
        projection: ``(N, Q)``, from kernel values to coefficients.
        table: ``(U, Q)``, the terms at distances ``(row - margin) / 64``.
        order: points of the interpolation in the table.
    """

    reach: float
    nodes: Tensor
    projection: Tensor
    table: Tensor
    order: int

    def terms(self, distances: Tensor, dtype: torch.dtype) -> Tensor:
        """The terms ``(..., Q)`` at distances in cells from the end; zero beyond the reach."""
        position = distances.clamp(0, self.reach) * TABLE_STEPS + self.order
        first = position.floor() - (self.order // 2 - 1)
        weights = lagrange((position - first).to(dtype), self.order)  # (..., order)
        rows = first.long()[..., None] + torch.arange(self.order, device=distances.device)
        offsets = torch.arange(0, rows.numel(), self.order, device=distances.device)
        terms = torch.nn.functional.embedding_bag(
            rows.flatten(),
            self.table.to(distances.device, dtype),
            offsets,
            mode="sum",
            per_sample_weights=weights.flatten(),
        )
        return terms.view(*distances.shape, -1)
