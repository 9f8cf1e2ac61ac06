"""Convolution of samples with real-valued stamps by a non-uniform FFT (see `window` for the idea)."""

# B batch, O out channels, I in channels, T time, K basis functions, D lags on the grid, M cells, Q terms, X tiles

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ckcnn.nn.continuous_kernel import ContinuousKernel
from ckcnn.nn.kernel_end import End
from ckcnn.nn.near_pairs import NearPairs
from ckcnn.nn.positions import Memory
from ckcnn.nn.spreading import Bags
from ckcnn.nn.time_grid import TimeGrid
from ckcnn.nn.window import Window


def enough_room(memory: Memory, sigma: float, window: Window) -> bool:
    """Whether both ends of the memory have their own room on the grid."""
    first = window.present.reach if memory.causal else window.edge.reach
    return sigma * (memory.past + memory.future) >= first + window.edge.reach + 2 * window.width


def spread_conv(
    x: Tensor,
    grid: TimeGrid,
    kernel: ContinuousKernel,
    sigma: float,
    window: Window,
) -> Tensor:
    """Convolve samples ``(B, I, T)``: ``(B, O, T)``.

    Args:
        x: the signal, in the type of the kernel.
        grid: its stamps.
        kernel: the kernel.
        sigma: cells of the grid per training sample.
        window: carries samples to the grid and back.
    """
    batch, _, length = x.shape
    memory = kernel.memory
    rows = x.mT.reshape(batch * length, -1)  # (B T, I)
    spreading = grid.spreading(memory, sigma, window)
    spread, read = spreading.bags(x.dtype, batch * spreading.cells)
    far = rows * grid.far_widths(memory).to(x.dtype).view(-1, 1)
    cells: Tensor = _SparseSum.apply(far, spread, read)  # type: ignore[no-untyped-call]
    cells = cells.view(batch, spreading.cells, -1).mT  # (B, I, M)
    basis, advance = _grid_basis(kernel.basis, memory, sigma, window)
    y = kernel.convolve(cells, basis.to(x.dtype), advance)  # (B, O, M)
    y = y.mT.reshape(batch * spreading.cells, -1)
    y = _SparseSum.apply(y, read, spread)  # type: ignore[no-untyped-call]  # (B T, O)
    first = window.present if memory.causal else window.edge
    for end, old in ((first, False), (window.edge, True)):
        pairs = grid.near(memory, sigma, end, old, x.dtype)
        if len(pairs):
            y = _NearSum.apply(y, rows, _near_weight(kernel, sigma, end, old), pairs)  # type: ignore[no-untyped-call]
    if memory.causal:
        now = kernel.basis(torch.zeros(1, dtype=torch.float64))[:, 0]
        return y.view(batch, length, -1).mT + kernel.apply(now, x * grid.newest.to(x.dtype)[:, None])
    return y.view(batch, length, -1).mT


def _grid_basis(basis: Callable[[Tensor], Tensor], memory: Memory, sigma: float, window: Window) -> tuple[Tensor, int]:
    """The discrete kernel's basis ``(K, D)``, and how many of its lags look ahead; in float64."""
    last = sigma * (memory.past + memory.future)  # in cells, the first lag being 0
    margin = 4 * window.width
    ahead = 0 if memory.causal else math.ceil(sigma * memory.future)
    count = (math.floor(last) + 1) if memory.causal else 2 * ahead + 1
    lags = torch.arange(count, dtype=torch.float64) - ahead  # in cells
    cut = window.grid_cut_off(ahead, count, sigma * memory.future, last, memory.causal)
    low, high = -memory.future, memory.past
    samples = basis((lags / sigma).clamp(low, high)).double()
    samples = samples * cut.to(samples.device)
    size = 2 * -(-(count + 2 * margin) // 2)
    padded = torch.nn.functional.pad(samples, (0, size - count))
    g = window.grid_kernel(padded, memory.causal)
    tail = 2 * window.width
    if memory.causal:
        return g[:, : count + tail], 0
    return torch.cat([g[:, size - tail :], g[:, : count + tail]], dim=1), ahead + tail


def _near_weight(kernel: ContinuousKernel, sigma: float, end: End, old: bool) -> Tensor:
    """The coefficients of the terms near one end, ``(Q I, O)``."""
    nodes = end.nodes / sigma
    lags = kernel.memory.past - nodes if old else nodes - kernel.memory.future
    values = kernel.basis(lags)
    terms = (values.double() @ end.projection.to(values.device)).to(kernel.dtype)  # (K, Q)
    return kernel.matrices(terms).permute(2, 1, 0).flatten(0, 1)


class _SparseSum(torch.autograd.Function):
    """The product of a sparse matrix with ``(rows, C)``; `back` is its transpose."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, there: Bags, back: Bags) -> Tensor:
        ctx.back = back
        return there.sums(rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return ctx.back.sums(grad.contiguous()), None, None


class _NearSum(torch.autograd.Function):
    """``y + sum over pairs of (sum over q of  weight[q] @ x * term[q])``, tile by tile, made again when differentiated.

    Args of ``apply``:
        y: ``(B T, O)`` to add to.
        x: ``(B T, I)``.
        weight: ``(Q I, O)``.
        pairs: the tiles.
    """

    @staticmethod
    def forward(ctx: Any, y: Tensor, x: Tensor, weight: Tensor, pairs: NearPairs) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.pairs = pairs
        y = y.clone()
        for part in pairs.chunks(x.shape[1]):
            seen = _seen(x, pairs, part)
            y.index_add_(0, pairs.rows[part].flatten(), seen @ weight)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (x, weight), pairs = ctx.saved_tensors, ctx.pairs
        grad_x = torch.zeros_like(x) if ctx.needs_input_grad[1] else None
        grad_weight = torch.zeros_like(weight) if ctx.needs_input_grad[2] else None
        for part in pairs.chunks(x.shape[1]):
            rows, columns = pairs.rows[part], pairs.columns[part]
            some = grad[rows.flatten()]  # (X R, O)
            if grad_weight is not None:
                grad_weight.addmm_(_seen(x, pairs, part).T, some)
            if grad_x is not None:
                back = (some @ weight.T).view(len(rows), -1, x.shape[1])  # (X, R Q, I)
                back = pairs.weights(part).mT @ back  # (X, S, I)
                grad_x.index_add_(0, columns.flatten(), back.flatten(0, 1))
        return grad, grad_x, grad_weight, None


def _seen(x: Tensor, pairs: NearPairs, part: slice) -> Tensor:
    """What each row of a chunk of tiles sees of the signal, by term: ``(X R, Q I)``."""
    columns = pairs.columns[part]
    seen = pairs.weights(part) @ x[columns.flatten()].view(*columns.shape, -1)  # (X, R Q, I)
    return seen.view(columns.shape[0] * pairs.rows.shape[1], -1)
