"""Convolution of samples taken at arbitrary times (paper, Appx. A.1).

    y[i] = sum over j of  kernel(t_i - t_j) @ x[j] * width_ij,   t_i - t_j within the memory, j <= i if causal

``width_ij`` is the time that sample ``j`` represents: from halfway to one neighbour to halfway to the other. A causal
layer takes it as known when sample ``i`` arrives, the last gap for the newest sample. So no output depends on a later
stamp: when the next measurement is taken can give away what it will show.
"""

# B batch, O out channels, I in channels, T time, L lags, K basis functions, R rows (outputs) of one block

from __future__ import annotations

import warnings
from dataclasses import replace

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ckcnn.nn.band import choose_sigma
from ckcnn.nn.continuous_kernel import ContinuousKernel
from ckcnn.nn.functional import fft_conv
from ckcnn.nn.nufft import enough_room, spread_conv
from ckcnn.nn.time_grid import GRID_FACTOR, TimeGrid
from ckcnn.nn.window import Window, window

_BLOCK_ELEMENTS = 1 << 22  # basis values held at once when every pair of stamps has a lag of its own
_FEW_SAMPLES = 32  # up to so many, pairs are as fast
_FINE = 1e-6  # a tolerance below it leaves something for rounding errors
_FINEST = 1e-12  # no window is made for less


def stamped_conv(x: Tensor, grid: TimeGrid, kernel: ContinuousKernel, bias: Tensor | None) -> Tensor:
    """Convolve samples ``(B, I, T)`` with stamps: ``(B, O, T)``.

    Which way an output is computed depends on the kernel, on the number of samples and on stamps up to its own, never
    on later ones: whole numbers exactly on the grid, then a non-uniform FFT, and pairs where the grid gets too long.
    """
    signal = x.to(kernel.dtype)
    y = _convolve(signal, grid, kernel)
    return (y if bias is None else y + bias[:, None]).to(x.dtype)


def _convolve(x: Tensor, grid: TimeGrid, kernel: ContinuousKernel) -> Tensor:
    if grid.whole and grid.span(kernel.memory) < GRID_FACTOR * grid.length:
        return _conv_on_grid(x, grid, kernel)
    if kernel.dropout is not None:
        raise ValueError("weight_dropout needs times on the training grid; round them or set weight_dropout to 0")
    plan = _plan(grid, kernel)
    if plan is None:
        return _conv_by_pairs(x, grid, kernel)
    sigma, chosen = plan
    spreading = grid.spreading(kernel.memory, sigma, chosen)
    first = spreading.outside_from
    if first == 0 or (first < grid.length and not kernel.memory.causal):
        return _conv_by_pairs(x, grid, kernel)
    y = spread_conv(x, grid, kernel, sigma, chosen)
    if first < grid.length:
        rest = _conv_by_pairs(x, grid, kernel, first)
        rest = torch.where(spreading.inside[:, None, first:], y[..., first:], rest)
        y = torch.cat([y[..., :first], rest], dim=-1)
    if kernel.memory.causal and grid.longest_prefix > 1:
        y = _exact_prefix(y, x, grid, kernel)
    return y


def _plan(grid: TimeGrid, kernel: ContinuousKernel) -> tuple[float, Window] | None:
    """The grid and the window for real-valued stamps, or None to sum pair by pair."""
    memory, tolerance = kernel.memory, kernel.tolerance
    if tolerance is None or kernel.exact_basis is None or grid.times.requires_grad:
        return None
    if grid.length <= _FEW_SAMPLES or grid.length**2 <= 4 * memory.horizon:
        return None
    goal = tolerance if tolerance >= _FINE else tolerance / 10  # where rounding errors begin to matter
    chosen = window(max(goal / 10 if goal < _FINE else goal, _FINEST))
    if not enough_room(memory, 8.0, chosen):
        return None
    dtype = kernel.dtype
    sigma = None
    if tolerance >= 8 * torch.finfo(dtype).eps:
        with torch.no_grad():
            sigma = choose_sigma(kernel.exact_basis, kernel.weight, memory, goal)
    if sigma is None:
        warnings.warn(
            f"the kernel is too fast for a relative error of {tolerance:g} in {dtype} by FFT, so real-valued stamps "
            "are summed pair by pair, which is slow; allow a larger tolerance, or use a smoother kernel net or a "
            "smaller omega_0",
            stacklevel=2,
        )
        return None
    while not enough_room(memory, sigma, chosen):
        sigma += 1.0
    return sigma, chosen


def _exact_prefix(y: Tensor, x: Tensor, grid: TimeGrid, kernel: ContinuousKernel) -> Tensor:
    """Take outputs whose stamps so far are whole numbers from the training grid.

    Otherwise the first stamp between two samples would change what came before it, if only by the tolerance.
    """
    count = grid.longest_prefix
    times = grid.stamps[:, :count].round()
    exact = _convolve(x[..., :count], TimeGrid(times, x[..., :count]), replace(kernel, tolerance=None))
    whole = torch.arange(count, device=y.device) < grid.prefix[:, None]  # (B, count)
    return torch.cat([torch.where(whole[:, None], exact, y[..., :count]), y[..., count:]], dim=-1)


def _conv_on_grid(x: Tensor, grid: TimeGrid, kernel: ContinuousKernel) -> Tensor:
    """Put the samples on the training grid, convolve there, and read the result where there were samples.

    In a causal layer lag 0 is a separate product, because there a sample does not count with its final width, and
    not for those that came before it with the same stamp.
    """
    batch, channels, _ = x.shape
    causal = kernel.memory.causal
    index = grid.positions(kernel.memory).round().long()
    cells = x.new_zeros(batch, channels, int(grid.span(kernel.memory)) + 1)
    far = x * grid.far_widths(kernel.memory).to(x.dtype)[:, None]
    cells = cells.scatter_add(2, index[:, None].expand_as(x), far)
    lags, ahead = kernel.memory.grid(cells.shape[-1], 1.0)
    basis = kernel.basis(lags)
    older = basis * (lags != 0).to(basis) if causal else basis
    if kernel.dropout is None:
        y = kernel.convolve(cells, older, ahead)
    else:
        sampled = kernel.dropout(kernel.matrices(basis))
        y = fft_conv(cells, sampled * (lags != 0).to(sampled) if causal else sampled, None, ahead)
    y = y.gather(2, index[:, None].expand(-1, y.shape[1], -1))
    if not causal:
        return y
    present = _at_this_stamp(x, grid)
    return y + (kernel.apply(basis[:, ahead], present) if kernel.dropout is None else sampled[..., ahead] @ present)


def _at_this_stamp(x: Tensor, grid: TimeGrid) -> Tensor:
    """The samples up to each one that have its stamp, the newest with the width known at that time: ``(B, I, T)``."""
    newest = x * grid.newest.to(x.dtype)[:, None]
    if not grid.repeats:
        return newest
    weighted = x * grid.widths.to(x.dtype)[:, None]
    first = torch.searchsorted(grid.stamps, grid.stamps.contiguous())  # of those with the same stamp
    before = torch.cat([torch.zeros_like(weighted[..., :1]), weighted.cumsum(-1)], dim=-1)
    return newest + before[..., :-1] - before.gather(2, first[:, None].expand_as(x))


def _conv_by_pairs(x: Tensor, grid: TimeGrid, kernel: ContinuousKernel, first: int = 0) -> Tensor:
    """Evaluate the kernel at the lag of every pair, a block of outputs at a time, again in the backward pass.

    Returns:
        The outputs from step `first` on, ``(B, O, T - first)``.
    """
    batch, _, length = x.shape
    now = kernel.basis(torch.zeros(1, dtype=torch.float64))[:, 0]
    rows = max(1, _BLOCK_ELEMENTS // (batch * length * len(now)))
    signal = x * grid.widths.to(x.dtype)[:, None]
    blocks = [
        checkpoint(_block, signal, grid.stamps, kernel, start, min(start + rows, length), use_reentrant=False)
        for start in range(first, length, rows)
    ]
    y = torch.cat(blocks, dim=-1)
    if not kernel.memory.causal:
        return y
    return y + kernel.apply(now, (x * grid.newest.to(x.dtype)[:, None])[..., first:])


def _block(signal: Tensor, stamps: Tensor, kernel: ContinuousKernel, start: int, stop: int) -> Tensor:
    """Outputs `start` to `stop`: ``(B, O, R)``; in a causal layer without what each sample says about itself."""
    causal = kernel.memory.causal
    seen = stop if causal else stamps.shape[-1]
    lags = (stamps[:, start:stop, None] - stamps[:, None, :seen]).to(signal.dtype)  # (B, R, T)
    live = kernel.memory.sees(lags)
    if causal:
        live = live.tril(start - 1)  # of equal stamps only those that came before
    basis = kernel.basis(lags.flatten()).view(-1, *lags.shape) * live  # (K, B, R, T)
    return kernel.see(basis, signal[..., :seen])
