"""Convolution of samples taken at arbitrary times (paper, Appx. A.1).

    y[i] = sum over j of  kernel(t_i - t_j) @ x[j] * width_ij,   t_i - t_j within the memory, j <= i if causal

``width_ij`` is the stretch of time that sample ``j`` stands for: half the way to either neighbour. A causal layer takes
it as known when sample ``i`` arrives, the last gap for the newest sample. So no output depends on a later stamp: when
the next measurement is taken can give away what it will show.
"""

# B batch, O out channels, I in channels, T time, L lags, K basis functions, R rows (outputs) of one block

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ckcnn.nn.functional import basis_conv, fft_conv
from ckcnn.nn.positions import Memory, cell_widths, newest_widths

_BLOCK_ELEMENTS = 1 << 22  # basis values held at once when every pair of stamps has a lag of its own
_GRID_FACTOR = 32  # stamps on the training grid go by FFT unless it is this many times longer than the samples


@dataclass(frozen=True)
class ContinuousKernel:
    """A kernel that can be evaluated at any lag: a read-out ``(O, I, K)`` of a basis ``(L,) -> (K, L)``."""

    memory: Memory
    basis: Callable[[Tensor], Tensor]
    weight: Tensor
    dropout: Callable[[Tensor], Tensor] | None = None


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


def stamped_conv(x: Tensor, times: Tensor, kernel: ContinuousKernel, bias: Tensor | None) -> Tensor:
    """Convolves samples ``(B, I, T)`` taken at ``times`` ``(B, T)``: ``(B, O, T)``."""
    stamps = times - times[:, :1]
    dtype = kernel.weight.dtype
    widths = cell_widths(stamps).to(dtype)[:, None]  # (B, 1, T)
    signal = x.to(dtype)
    if _on_grid(stamps):
        y, newest = _conv_on_grid(signal * widths, stamps.long(), kernel)
    elif kernel.dropout is not None:
        raise ValueError("weight_dropout needs times on the training grid; round them or set weight_dropout to 0")
    else:
        y, newest = _conv_by_pairs(signal * widths, stamps, kernel)
    if kernel.memory.causal:
        y = y + newest @ (signal * (newest_widths(stamps).to(dtype)[:, None] - widths))
    return (y if bias is None else y + bias[:, None]).to(x.dtype)


def _on_grid(stamps: Tensor) -> bool:
    """Whether all stamps are different whole numbers that do not lie too far apart."""
    span = float(stamps[:, -1].max())
    whole = bool((stamps == stamps.round()).all()) and bool((stamps.diff() > 0).all())
    return whole and span < _GRID_FACTOR * stamps.shape[-1]


def _conv_on_grid(signal: Tensor, index: Tensor, kernel: ContinuousKernel) -> tuple[Tensor, Tensor]:
    """Puts the samples on the training grid, convolves there, and reads the result where there were samples."""
    batch, channels, _ = signal.shape
    length = int(index.max()) + 1
    grid = signal.new_zeros(batch, channels, length)
    grid = grid.scatter(2, index[:, None].expand_as(signal), signal)
    lags, ahead = kernel.memory.grid(length, 1.0)
    basis = kernel.basis(lags)
    if kernel.dropout is None:
        y = basis_conv(grid, basis, kernel.weight, None, ahead)
        newest = kernel.weight @ basis[:, ahead]
    else:
        sampled = kernel.dropout(kernel.weight @ basis)
        y = fft_conv(grid, sampled, None, ahead)
        newest = sampled[..., ahead]
    return y.gather(2, index[:, None].expand(-1, y.shape[1], -1)), newest


def _conv_by_pairs(signal: Tensor, stamps: Tensor, kernel: ContinuousKernel) -> tuple[Tensor, Tensor]:
    """Evaluates the kernel at the lag of every pair, a block of outputs at a time, again in the backward pass."""
    batch, _, length = signal.shape
    num_basis = kernel.weight.shape[-1]
    rows = max(1, _BLOCK_ELEMENTS // (batch * length * num_basis))
    blocks = [
        checkpoint(_block, signal, stamps, kernel, start, min(start + rows, length), use_reentrant=False)
        for start in range(0, length, rows)
    ]
    now = kernel.basis(torch.zeros(1, dtype=torch.float64))[:, 0]
    return torch.cat(blocks, dim=-1), kernel.weight @ now


def _block(signal: Tensor, stamps: Tensor, kernel: ContinuousKernel, start: int, stop: int) -> Tensor:
    """Outputs `start` to `stop`: ``(B, O, R)``."""
    causal = kernel.memory.causal
    seen = stop if causal else stamps.shape[-1]
    lags = (stamps[:, start:stop, None] - stamps[:, None, :seen]).to(signal.dtype)  # (B, R, T)
    live = kernel.memory.sees(lags)
    if causal:
        live = live.tril(start)  # of equal stamps only those that came before
    basis = kernel.basis(lags.flatten()).view(-1, *lags.shape) * live  # (K, B, R, T)
    seen_by = torch.einsum("kbrt,bit->bkir", basis, signal[..., :seen])
    return torch.einsum("oik,bkir->bor", kernel.weight, seen_by)
