"""Convolution by FFT at a cost, in time and memory, close to that of its transforms (paper, Sec. 4.1).

A convolution is one small matrix product per frequency, ``y_hat[f] = k_hat[f] @ x_hat[f]``. Two facts make it cheap:

* Spectra are kept frequency first, so all the products are one batched matrix product, and no
  ``(batch, out, in, frequency)`` tensor ever exists.
* The spectrum of the kernel is walked through in slices of frequencies that suit the device: made, used, forgotten.
  A continuous kernel is a linear read-out of a few basis functions, and so is its spectrum, ``F{W h} = W F{h}``:
  neither its samples nor, on a CPU, its whole spectrum ever exist.

These are the two kernels of the operator in `ckcnn.nn.conv_operator`; they know nothing of autograd.
"""

# B batch, C channels, O out channels, I in channels, T time, L lags, K basis functions, N FFT length, F frequencies

from __future__ import annotations

import torch
from torch import Tensor

from ckcnn.nn.kernel_spectrum import kernel_spectrum
from ckcnn.nn.plan import Plan, make_plan


def convolve(
    x: Tensor, kernel: Tensor, weight: Tensor | None, bias: Tensor | None, advance: int, n: int | None, keep: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute ``y[t] = sum over lags u of kernel(u) @ x[t - u] + bias``.

    Results are allocated before what is soon freed: memory grows and shrinks like a stack, without holes.

    Returns:
        The result ``(B, O, T)`` in the type of `x`, and three real tensors to speed up the backward pass, of which any
        may be empty: the spectrum of the signal ``(F, I, B, 2)``, of the basis ``(F, 2, K)`` and of the kernel
        ``(F, O, I, 2)``.
    """
    plan = make_plan(x, kernel, weight, advance, n, keep)
    nothing = x.new_empty(0, dtype=plan.dtype)
    spectrum = kernel_spectrum(plan, kernel, weight, (nothing, nothing))
    y = x.new_empty(plan.batch, plan.out_channels, plan.length)
    x_hat = to_frequency(x, plan)  # (F, I, B)
    y_hat = None  # (F, O, B)
    for part in plan.slices:
        y_hat = _put(torch.bmm(spectrum.read(part), x_hat[part]), part, y_hat, x_hat, plan.keeps_signal)
    assert y_hat is not None
    to_time(y_hat, plan, y, bias)
    return y, torch.view_as_real(x_hat) if plan.keeps_signal else nothing, *spectrum.keep()


def convolve_backward(
    grad: Tensor,
    x: Tensor,
    kernel: Tensor,
    weight: Tensor | None,
    kept: tuple[Tensor, Tensor, Tensor],
    advance: int,
    n: int | None,
    needs: list[bool],
) -> list[Tensor | None]:
    """Compute the gradients of signal, kernel (or basis), weight and bias, as far as `needs` asks for them.

    Works on conjugate gradients: conjugating within a transposition is free, within a product it is not.
    """
    x_hat, rows, whole = kept
    plan = make_plan(x, kernel, weight, advance, n, keep=False)
    spectrum = kernel_spectrum(plan, kernel, weight, (rows, whole))
    grad_x = x.new_empty(x.shape) if needs[0] else None
    grad_hat = to_frequency(grad, plan, conjugate=True)  # (F, O, B)
    grad_bias = grad_hat[0].real.sum(-1) if needs[3] else None  # frequency 0 is the sum over time
    gradient = spectrum.gradient() if needs[1] or needs[2] else None
    if gradient is not None:
        x_hat = torch.view_as_complex(x_hat) if x_hat.numel() else to_frequency(x, plan)
    grad_x_hat = None
    for part in plan.slices:
        if gradient is not None:
            gradient.add(part, torch.bmm(grad_hat[part], x_hat[part].mT))
        if grad_x is not None:
            grad_x_hat = _put(torch.bmm(spectrum.read(part).mT, grad_hat[part]), part, grad_x_hat, grad_hat)
    if grad_x is not None and grad_x_hat is not None:
        to_time(grad_x_hat.conj(), plan, grad_x)
    grad_kernel, grad_weight = gradient.of_parts() if gradient is not None else (None, None)
    return [grad_x, grad_kernel, grad_weight, grad_bias]


def _put(piece: Tensor, part: slice, whole: Tensor | None, used: Tensor, keep: bool = False) -> Tensor:
    """Put a slice of frequencies into the whole, which takes over the memory of `used` if it may and has the shape."""
    if len(piece) == len(used):
        return piece
    if whole is None:
        fits = piece.shape[1:] == used.shape[1:]
        whole = used if fits and not keep else used.new_empty(len(used), *piece.shape[1:])
    whole[part] = piece
    return whole


def to_frequency(x: Tensor, plan: Plan, conjugate: bool = False) -> Tensor:
    """Return the spectrum of zero-padded signals, frequency first: ``(B, C, T) -> (F, C, B)``."""
    batch, channels, length = x.shape
    step = min(plan.channels_at_once(), channels)
    padded = x.new_empty(batch, step, plan.n, dtype=plan.dtype)
    padded[..., length:].zero_()
    if step == channels:
        padded[..., :length] = x
        return _resolved(_transposed_spectrum(padded, conjugate))
    x_hat = torch.empty(plan.frequencies, channels, batch, dtype=plan.complex, device=x.device)
    for start in range(0, channels, step):
        chunk = slice(start, min(start + step, channels))
        signals = padded[:, : chunk.stop - start]
        signals[..., :length] = x[:, chunk]
        x_hat[:, chunk] = _transposed_spectrum(signals, conjugate)
    return x_hat


def _transposed_spectrum(signals: Tensor, conjugate: bool) -> Tensor:
    spectrum = torch.fft.rfft(signals).permute(2, 1, 0)
    return spectrum.conj() if conjugate else spectrum


def _resolved(x: Tensor) -> Tensor:
    """Return a contiguous tensor that is not lazily conjugate: in compiled graphs, transforms overlook the mark."""
    return x.clone(memory_format=torch.contiguous_format) if x.is_conj() else x.contiguous()


def to_time(y_hat: Tensor, plan: Plan, y: Tensor, bias: Tensor | None = None) -> None:
    """Fill `y` with the first samples of the signals with these spectra: ``(F, C, B) -> (B, C, T)``."""
    _, channels, length = y.shape
    step = plan.channels_at_once()
    for start in range(0, channels, step):
        chunk = slice(start, start + step)
        spectrum = y_hat[:, chunk].permute(2, 1, 0)
        if spectrum.is_conj():
            spectrum = _resolved(spectrum)  # at no cost: the transform would copy what is not contiguous
        signals = torch.fft.irfft(spectrum, plan.n)[..., :length]
        if bias is None:
            y[:, chunk] = signals
        else:
            torch.add(signals, bias[chunk, None].to(plan.dtype), out=y[:, chunk])
