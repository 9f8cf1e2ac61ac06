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
_KEEP_BYTES = 64 << 20  # larger spectra of the signal are made again in the backward pass, to halve its memory


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
        """Results are allocated before what is soon freed: memory grows and shrinks like a stack, without holes."""
        kernel = kernel_spectrum(parts, n, advance)
        y = x.new_empty(len(x), kernel.out_channels, x.shape[-1])
        x_hat = to_frequency(x, n)  # (F, I, B)
        keep = x_hat.nbytes <= _KEEP_BYTES
        y_hat = None  # (F, O, B)
        for part in kernel.slices(x_hat.dtype):
            y_hat = _put(torch.bmm(kernel.read(part), x_hat[part]), part, y_hat, x_hat, keep)
        if any(ctx.needs_input_grad[4:]):
            ctx.save_for_backward(x_hat if keep else x)
        ctx.kernel, ctx.length = kernel, x.shape[-1]
        assert y_hat is not None
        return to_time(y_hat, n, y, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Works on conjugate gradients: conjugating within a transposition is free, within a product it is not."""
        kernel, saved = ctx.kernel, ctx.saved_tensors
        needs_x, needs_bias, _, _, *needs_parts = ctx.needs_input_grad
        grad_x = grad.new_empty(len(grad), kernel.in_channels, ctx.length) if needs_x else None
        grad_hat = to_frequency(grad, kernel.n, conjugate=True)  # (F, O, B)
        grad_bias = grad_hat[0].real.sum(-1) if needs_bias else None  # frequency 0 is the sum over time
        if gradient := kernel.gradient() if saved else None:
            x_hat = saved[0] if saved[0].is_complex() else to_frequency(saved[0], kernel.n)
        grad_x_hat = None
        for part in kernel.slices(grad_hat.dtype):
            if gradient is not None:
                gradient.add(part, torch.bmm(grad_hat[part], x_hat[part].mT))
            if grad_x is not None:
                grad_x_hat = _put(torch.bmm(kernel.read(part).mT, grad_hat[part]), part, grad_x_hat, grad_hat)
        if grad_x is not None and grad_x_hat is not None:
            to_time(grad_x_hat.conj(), kernel.n, grad_x)
        return grad_x, grad_bias, None, None, *(gradient.of_parts() if gradient else [None] * len(needs_parts))


def _put(piece: Tensor, part: slice, whole: Tensor | None, used: Tensor, keep: bool = False) -> Tensor:
    """Puts a slice of frequencies into the whole; that takes over the memory of `used` if it may and has the shape."""
    if len(piece) == len(used):
        return piece
    if whole is None:
        fits = piece.shape[1:] == used.shape[1:]
        whole = used if fits and not keep else used.new_empty(len(used), *piece.shape[1:])
    whole[part] = piece
    return whole


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
    step = _channels_at_once(x_hat)
    padded = x.new_empty(batch, min(step, channels), n)
    padded[..., length:] = 0
    for start in range(0, channels, step):
        chunk = slice(start, min(start + step, channels))
        signals = padded[:, : chunk.stop - start]
        signals[..., :length] = x[:, chunk]
        spectrum = torch.fft.rfft(signals).permute(2, 1, 0)
        x_hat[:, chunk] = spectrum.conj() if conjugate else spectrum
    return x_hat


def to_time(y_hat: Tensor, n: int, y: Tensor, bias: Tensor | None = None) -> Tensor:
    """Fills `y` with the first samples of the signals with these spectra: ``(F, C, B) -> (B, C, T)``."""
    _, channels, length = y.shape
    step = _channels_at_once(y_hat)
    for start in range(0, channels, step):
        chunk = slice(start, start + step)
        signals = torch.fft.irfft(y_hat[:, chunk].permute(2, 1, 0), n)[..., :length]
        if bias is None:
            y[:, chunk] = signals
        else:
            torch.add(signals, bias[chunk, None], out=y[:, chunk])
    return y


def _channels_at_once(x_hat: Tensor) -> int:
    """As many channels as stay in the cache between transform and transposition; the batch stays whole lines."""
    frequencies, _, batch = x_hat.shape
    return max(1, _CHUNK_BYTES // (frequencies * batch * x_hat.itemsize))
