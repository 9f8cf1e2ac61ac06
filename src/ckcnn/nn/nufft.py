"""Convolution of samples with real-valued stamps by a non-uniform FFT (see `window` for the idea)."""

# B batch, O out channels, I in channels, T time, K basis functions, D lags on the grid, M cells, Q terms, X tiles

from __future__ import annotations

import math
from dataclasses import dataclass
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

_VECTOR = 8  # channels that a processor works on at once


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
    parts = _kernel_parts(kernel, sigma, window)
    y = kernel.convolve(cells, parts.basis.to(x.dtype), parts.ahead)  # (B, O, M)
    y = y.mT.reshape(batch * spreading.cells, -1)
    y = _SparseSum.apply(y, read, spread)  # type: ignore[no-untyped-call]  # (B T, O)
    ends = ((parts.first, False), (window.edge, True))
    pairs = [grid.near(memory, sigma, end, old, x.dtype) for end, old in ends]
    y = _NearSum.apply(y, rows, pairs, parts.first_weight, parts.last_weight)  # type: ignore[no-untyped-call]
    y = y.view(batch, length, -1).mT
    return y if parts.now is None else y + kernel.apply(parts.now, x * grid.newest.to(x.dtype)[:, None])


@dataclass(frozen=True)
class _KernelParts:
    """What is needed of a kernel.

    Attributes:
        basis: of the discrete kernel, ``(K, D)``, in float64.
        ahead: how many of its lags look ahead.
        first: the newest end.
        first_weight: the coefficients of the terms near the newest end, ``(Q, I, O)``.
        last_weight: the same for the oldest end.
        now: the basis at lag 0 of a causal kernel, ``(K,)``.
    """

    basis: Tensor
    ahead: int
    first: End
    first_weight: Tensor
    last_weight: Tensor
    now: Tensor | None


def _kernel_parts(kernel: ContinuousKernel, sigma: float, window: Window) -> _KernelParts:
    """Calls the kernel net once, at all the lags at which it is needed."""
    memory = kernel.memory
    ahead = 0 if memory.causal else math.ceil(sigma * memory.future)
    last = sigma * (memory.past + memory.future)  # in cells, the first lag being 0
    count = (math.floor(last) + 1) if memory.causal else 2 * ahead + 1
    cells = (torch.arange(count, dtype=torch.float64) - ahead) / sigma
    first, edge = window.present if memory.causal else window.edge, window.edge
    newest, oldest = first.nodes / sigma - memory.future, memory.past - edge.nodes / sigma
    now = torch.zeros(int(memory.causal), dtype=torch.float64)
    lags = torch.cat([cells.clamp(-memory.future, memory.past), newest, oldest, now])
    values = kernel.basis(lags)
    near, far, present = count, count + len(newest), len(lags) - len(now)  # where each begins
    cut = window.grid_cut_off(ahead, count, sigma * memory.future, last)
    basis, ahead = _discrete(values[:, :near].double() * cut.to(values.device), memory.causal, ahead, window)
    first_weight = _near_weight(kernel, values[:, near:far], first)
    last_weight = _near_weight(kernel, values[:, far:present], edge)
    return _KernelParts(basis, ahead, first, first_weight, last_weight, values[:, present] if len(now) else None)


def _discrete(samples: Tensor, causal: bool, ahead: int, window: Window) -> tuple[Tensor, int]:
    """The discrete kernel of faded samples ``(K, D)``, and how many of its lags look ahead."""
    count = samples.shape[1]
    size = 2 * -(-(count + 8 * window.width) // 2)
    g = window.grid_kernel(torch.nn.functional.pad(samples, (0, size - count)), causal)
    tail = 2 * window.width
    if causal:
        return g[:, : count + tail], 0
    return torch.cat([g[:, size - tail :], g[:, : count + tail]], dim=1), ahead + tail


def _near_weight(kernel: ContinuousKernel, values: Tensor, end: End) -> Tensor:
    """The coefficients of the terms near one end ``(Q, I, O)``, from the basis at its nodes ``(K, N)``."""
    terms = (values.double() @ end.projection.to(values.device)).to(kernel.dtype)  # (K, Q)
    return kernel.matrices(terms).permute(2, 1, 0)


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
        y: ``(B T, O)`` to add to, in place.
        x: ``(B T, I)``.
        pairs: the tiles near either end.
        weights: for each end ``(Q, I, O)``.
    """

    @staticmethod
    def forward(ctx: Any, y: Tensor, x: Tensor, pairs: list[NearPairs], *weights: Tensor) -> Tensor:
        ctx.save_for_backward(x, *weights)
        ctx.pairs = pairs
        ctx.mark_dirty(y)
        signal = _wide(x)
        for end, weight in zip(pairs, weights, strict=True):
            read_out = _wide(weight, 1, 2).flatten(0, 1)
            for part in end.chunks(signal.shape[1]):
                product = _seen(signal, end, part) @ read_out
                y.index_add_(0, end.rows[part].flatten(), product[:, : y.shape[1]])
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, *weights = ctx.saved_tensors
        signal, wide_grad = _wide(x), _wide(grad)
        grad_x = torch.zeros_like(signal) if ctx.needs_input_grad[1] else None
        grad_weights = []
        for end, weight, needed in zip(ctx.pairs, weights, ctx.needs_input_grad[3:], strict=True):
            read_out = _wide(weight, 1, 2)
            grad_weight = torch.zeros_like(read_out) if needed else None
            _near_gradients(signal, wide_grad, end, read_out.flatten(0, 1), grad_x, grad_weight)
            grad_weights.append(None if grad_weight is None else grad_weight[:, : weight.shape[1], : weight.shape[2]])
        return grad, None if grad_x is None else grad_x[:, : x.shape[1]], None, *grad_weights


def _near_gradients(
    x: Tensor, grad: Tensor, pairs: NearPairs, weight: Tensor, grad_x: Tensor | None, grad_weight: Tensor | None
) -> None:
    """Adds to the gradients of a signal ``(B T, I)`` and of coefficients ``(Q, I, O)``, as far as they are wanted."""
    for part in pairs.chunks(x.shape[1]):
        columns = pairs.columns[part]
        some = grad[pairs.rows[part].flatten()]  # (X R, O)
        if grad_weight is not None:
            grad_weight.flatten(0, 1).addmm_(_seen(x, pairs, part).T, some)
        if grad_x is not None:
            back = (some @ weight.T).view(len(columns), -1, x.shape[1])  # (X, R Q, I)
            back = pairs.weights(part).mT @ back  # (X, S, I)
            grad_x.index_add_(0, columns.flatten(), back.flatten(0, 1))


def _wide(x: Tensor, *axes: int) -> Tensor:
    """Zeros after the channels, so that they fill the vectors of a processor: products take half the time."""
    padding: list[int] = []
    for axis in reversed(range(x.dim())):
        padding += [0, -x.shape[axis] % _VECTOR if axis in (axes or (1,)) else 0]
    return torch.nn.functional.pad(x, padding)


def _seen(x: Tensor, pairs: NearPairs, part: slice) -> Tensor:
    """What each row of a chunk of tiles sees of the signal, by term: ``(X R, Q I)``."""
    columns = pairs.columns[part]
    seen = pairs.weights(part) @ x[columns.flatten()].view(*columns.shape, -1)  # (X, R Q, I)
    return seen.view(columns.shape[0] * pairs.rows.shape[1], -1)
