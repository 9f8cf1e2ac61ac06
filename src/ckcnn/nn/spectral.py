"""Convolution by FFT at a cost, in time and memory, close to that of its transforms (paper, Sec. 4.1).

A convolution is one small matrix product per frequency, ``y_hat[f] = k_hat[f] @ x_hat[f]``. Two facts make it cheap:

* Spectra are kept frequency first, so all the products are one batched matrix product, and no
  ``(batch, out, in, frequency)`` tensor ever exists.
* The spectrum of the kernel is walked through in slices of frequencies that fit the cache: made, used, forgotten.
  A continuous kernel is a linear read-out of a few basis functions, and so is its spectrum, ``F{W h} = W F{h}``:
  neither its samples nor its whole spectrum ever exist.
"""

# B batch, C channels, O out channels, I in channels, T time, L lags, K basis functions, N FFT length, F frequencies

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ckcnn.nn.kernel_spectrum import kernel_spectrum

_CHUNK_BYTES = 2 << 20  # of spectrum between transform and transposition: about a core's second-level cache
_CHUNK_SIGNALS = 8  # at least: the transposition then writes whole cache lines


class SpectralConv(torch.autograd.Function):
    """``y[t] = sum over lags u of kernel(u) @ x[t - u] + bias``, with a kernel given by its parts.

    Args of ``apply``:
        x: ``(B, I, T)`` signal.
        bias: ``(O,)`` or None.
        n: FFT length, long enough that nothing wraps around (see `fft_length`).
        advance: samples of the kernel that look ahead: kernel index ``j`` is lag ``j - advance``.
        parts: ``(kernel,)`` with kernel ``(O, I, L)``, or ``(basis, weight)`` with basis ``(K, L)`` and
            weight ``(O, I, K)`` for the kernel ``weight @ basis``.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor | None, n: int, advance: int, *parts: Tensor) -> Tensor:
        kernel = kernel_spectrum(parts, n, advance)
        x_hat = to_frequency(x, n)  # (F, I, B)
        y_hat = x_hat.new_empty(len(x_hat), kernel.out_channels, len(x))  # (F, O, B)
        for part in kernel.slices(x_hat.dtype):
            torch.bmm(kernel.read(part), x_hat[part], out=y_hat[part])
        ctx.save_for_backward(x_hat if any(ctx.needs_input_grad[4:]) else None)
        ctx.kernel, ctx.length = kernel, x.shape[-1]
        return to_time(y_hat, n, x.shape[-1], bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Works on conjugate gradients: conjugating within a transposition is free, within a product it is not."""
        (x_hat,), kernel = ctx.saved_tensors, ctx.kernel
        needs_x, needs_bias, _, _, *needs_parts = ctx.needs_input_grad
        grad_hat = to_frequency(grad, kernel.n, conjugate=True)  # (F, O, B)
        grad_x_hat = grad_hat.new_empty(len(grad_hat), kernel.in_channels, len(grad)) if needs_x else None
        gradient = kernel.gradient() if any(needs_parts) else None
        for part in kernel.slices(grad_hat.dtype):
            if grad_x_hat is not None:
                torch.bmm(kernel.read(part).mT, grad_hat[part], out=grad_x_hat[part])
            if gradient is not None:
                gradient.add(part, torch.bmm(grad_hat[part], x_hat[part].mT))
        grad_bias = grad_hat[0].real.sum(-1) if needs_bias else None  # frequency 0 is the sum over time
        del grad_hat, x_hat
        grad_x = to_time(grad_x_hat.conj(), kernel.n, ctx.length) if grad_x_hat is not None else None
        return grad_x, grad_bias, None, None, *(gradient.of_parts() if gradient else [None] * len(needs_parts))


def fft_length(length: int, reach: int) -> int:
    """The FFT length for `length` samples and a kernel that reaches `reach` samples back or ahead.

    The smallest multiple of 16 without a prime factor above 7 in which nothing wraps around. On a CPU the transform of
    length 384 takes two thirds of the time of 364, and a prime length near 1,568 nine times as long as 1,568.
    """
    blocks = -(-(length + reach) // 16)
    while not _is_smooth(blocks):
        blocks += 1
    return 16 * blocks


def _is_smooth(number: int) -> bool:
    for prime in (2, 3, 5, 7):
        while number % prime == 0:
            number //= prime
    return number == 1


def to_frequency(x: Tensor, n: int, conjugate: bool = False) -> Tensor:
    """The spectrum of zero-padded signals, frequency first: ``(B, C, T) -> (F, C, B)``."""
    batch, channels, length = x.shape
    frequencies = n // 2 + 1
    x_hat = torch.empty(frequencies, channels, batch, dtype=x.dtype.to_complex(), device=x.device)
    chunks = _chunks(batch, channels * frequencies * x_hat.itemsize)
    padded = x.new_zeros(min(chunks.step, batch), channels, n)
    for start in chunks:
        chunk = slice(start, min(start + chunks.step, batch))
        signals = padded[: chunk.stop - start]
        signals[..., :length] = x[chunk]
        spectrum = torch.fft.rfft(signals).permute(2, 1, 0)
        x_hat[..., chunk] = spectrum.conj() if conjugate else spectrum
    return x_hat


def to_time(y_hat: Tensor, n: int, length: int, bias: Tensor | None = None) -> Tensor:
    """The first `length` samples of the signals with these spectra: ``(F, C, B) -> (B, C, T)``."""
    frequencies, channels, batch = y_hat.shape
    y = torch.empty(batch, channels, length, dtype=y_hat.dtype.to_real(), device=y_hat.device)
    chunks = _chunks(batch, channels * frequencies * y_hat.itemsize)
    for start in chunks:
        chunk = slice(start, start + chunks.step)
        signals = torch.fft.irfft(y_hat[..., chunk].permute(2, 1, 0), n)[..., :length]
        if bias is None:
            y[chunk] = signals
        else:
            torch.add(signals, bias[:, None], out=y[chunk])
    return y


def _chunks(batch: int, bytes_each: int) -> range:
    return range(0, batch, max(_CHUNK_SIGNALS, _CHUNK_BYTES // bytes_each))
