"""Integrals and interpolation in float64 for the design of windows."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

_QUADRATURE = 80  # Gauss-Legendre nodes; all integrands are smooth on a few cells


def gauss(start: float, stop: float) -> tuple[Tensor, Tensor]:
    """Nodes and weights of Gauss and Legendre on an interval, from the eigenvalues of their recurrence."""
    nodes, weights = _legendre(_QUADRATURE)
    return start + (stop - start) / 2 * (nodes + 1), (stop - start) / 2 * weights


@lru_cache(maxsize=1)
def _legendre(count: int) -> tuple[Tensor, Tensor]:
    k = torch.arange(1, count, dtype=torch.float64)
    side = k / (4 * k.square() - 1).sqrt()
    nodes, vectors = torch.linalg.eigh(torch.diag(side, 1) + torch.diag(side, -1))
    return nodes, 2 * vectors[0].square()


def bump(x: Tensor, shape: float) -> Tensor:
    """The window of Kaiser and Bessel on [0, 1], 1 in the middle but for a constant factor."""
    return torch.special.i0e(shape * (1 - (2 * x - 1).square()).clamp_min(0).sqrt()) * torch.exp(
        shape * ((1 - (2 * x - 1).square()).clamp_min(0).sqrt() - 1)
    )


def lagrange(x: Tensor, order: int) -> Tensor:
    """Weights ``(..., order)`` of the points 0, 1, ... at a place between them."""
    weights = []
    for a in range(order):
        product = torch.ones_like(x)
        for b in range(order):
            if b != a:
                product = product * ((x - b) / (a - b))
        weights.append(product)
    return torch.stack(weights, dim=-1)
