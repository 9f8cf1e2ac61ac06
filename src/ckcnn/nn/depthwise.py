"""Depthwise convolution by FFT: each channel with its own kernel, a piece of the channels at a time.

Time stays the last axis, so nothing is transposed. A piece is as large as suits the device: on a CPU its spectrum stays
in the cache between the transform, the product and the transform back, and no spectrum of the whole signal has to
exist. Each piece has transforms just long enough for its own kernels.

These are the two kernels of the operator in `ckcnn.nn.depthwise_operator`; they know nothing of autograd.
"""

# B batch, C channels, T time, L lags, N FFT length, F frequencies

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import torch
from torch import Tensor

from ckcnn.nn.plan import fft_length
from ckcnn.nn.schedule import Schedule, schedule_for


@dataclass(frozen=True)
class Piece:
    """Some channels: which, the lags that their kernels ``(C, L)`` have, and how many of these lie ahead."""

    channels: slice
    lags: slice
    ahead: int
    n: int

    @property
    def frequencies(self) -> int:
        """The number of frequencies of a real signal."""
        return self.n // 2 + 1


@dataclass(frozen=True)
class DepthwisePlan:
    """The sizes of one depthwise convolution, decided once for its kernel, its fake and its backward pass."""

    schedule: Schedule
    dtype: torch.dtype
    batch: int
    channels: int
    length: int
    lags: int
    advance: int
    reaches: list[int]

    @property
    def complex(self) -> torch.dtype:
        """The type of the spectra."""
        return self.dtype.to_complex()

    @property
    def whole(self) -> Piece:
        """All channels at once, with all lags."""
        return self._piece(0, self.channels, [])

    @cached_property
    def pieces(self) -> list[Piece]:
        """The channels, in pieces whose spectrum the schedule allows."""
        step = self.schedule.channels_at_once(self.whole.frequencies, self.batch, self.complex)
        starts = range(0, self.channels, step)
        return [self._piece(start, min(start + step, self.channels), self.reaches) for start in starts]

    @property
    def groups(self) -> list[list[Piece]]:
        """Neighbouring pieces with the same transform."""
        return [list(group) for _, group in groupby(self.pieces, lambda piece: (piece.lags.stop, piece.n))]

    @property
    def kept_size(self) -> int:
        """Values of the spectra of all pieces, or 0 if that is too much to keep for the backward pass."""
        size = sum(self.batch * self.channels_of(piece) * piece.frequencies for piece in self.pieces)
        return size if size * self.complex.itemsize <= self.schedule.keep_bytes else 0

    def channels_of(self, piece: Piece) -> int:
        """The number of channels of a piece."""
        return piece.channels.stop - piece.channels.start

    def kept_parts(self, kept: Tensor) -> list[Tensor | None]:
        """The conjugated spectrum of the signal of each piece in one tensor for all of them, ``(kept_size, 2)``."""
        if not kept.numel():
            return [None] * len(self.pieces)
        shapes = [(self.batch, self.channels_of(piece), piece.frequencies) for piece in self.pieces]
        parts = torch.split(torch.view_as_complex(kept), [a * b * c for a, b, c in shapes])
        return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]

    def _piece(self, start: int, stop: int, reaches: list[int]) -> Piece:
        reach = max(reaches if len(reaches) < 2 else reaches[start:stop], default=self.lags)
        ahead = min(self.advance, reach)
        back = min(self.lags - 1 - self.advance, reach)
        lags = slice(self.advance - ahead, self.advance + back + 1)
        return Piece(slice(start, stop), lags, ahead, fft_length(self.length, max(ahead, back)))


def make_depthwise_plan(x: Tensor, kernel: Tensor, advance: int, reaches: list[int]) -> DepthwisePlan:
    """Decide all sizes for a signal ``(B, C, T)`` and a kernel ``(C, L)`` of which `advance` lags look ahead.

    Args:
        x: signal.
        kernel: samples.
        advance: lags that look ahead.
        reaches: how far the kernel of each channel reaches, or one number for all; empty for all lags.
    """
    batch, channels, length = x.shape
    lags = min(kernel.shape[-1], length + advance)  # older ones meet no sample
    dtype = torch.promote_types(kernel.dtype, torch.float32)  # no transform knows less
    return DepthwisePlan(schedule_for(x.device, depthwise=True), dtype, batch, channels, length, lags, advance, reaches)


def depthwise(
    x: Tensor, kernel: Tensor, bias: Tensor | None, advance: int, reaches: list[int], keep: bool
) -> tuple[Tensor, Tensor]:
    """Compute ``y[c, t] = sum over j of kernel[c, j] x[c, t - (j - advance)] + bias[c]``.

    Returns:
        The result ``(B, C, T)`` in the type of `x`, and the conjugated spectra of the signal as a real tensor, empty
        unless they are to be kept and small enough.
    """
    plan = make_depthwise_plan(x, kernel, advance, reaches)
    y = x.new_empty(x.shape)
    kept = x.new_empty(plan.kept_size if keep else 0, 2, dtype=plan.dtype)
    spectra = _spectra(kernel, plan)
    for piece, part, kernel_hat in zip(plan.pieces, plan.kept_parts(kept), spectra, strict=True):
        some = piece.channels
        x_hat = torch.fft.rfft(x[:, some].to(plan.dtype), piece.n)
        if part is not None:
            torch.conj_physical(x_hat, out=part)  # what the gradient of the kernel is multiplied by
        signals = torch.fft.irfft(x_hat.mul_(kernel_hat), piece.n)[..., : plan.length]
        if bias is None:
            y[:, some] = signals
        else:
            torch.add(signals, bias[some, None].to(plan.dtype), out=y[:, some])
    return y, kept


def depthwise_backward(
    grad: Tensor, x: Tensor, kernel: Tensor, kept: Tensor, advance: int, reaches: list[int], needs: list[bool]
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the gradients of signal, kernel and bias, each empty unless `needs` asks for it."""
    plan = make_depthwise_plan(x, kernel, advance, reaches)
    grad_x = x.new_empty(x.shape if needs[0] else (0,))
    nothing = kernel.new_empty(0)
    spectra = [part.conj_physical() for part in _spectra(kernel, plan)] if needs[0] else [kernel] * len(plan.pieces)
    found: list[Tensor] = []
    sums: list[Tensor] = []
    for piece, x_hat, kernel_hat in zip(plan.pieces, plan.kept_parts(kept), spectra, strict=True):
        some = piece.channels
        grad_hat = torch.fft.rfft(grad[:, some].to(plan.dtype), piece.n)
        if needs[2]:
            sums.append(grad_hat[..., 0].real.sum(0))  # frequency 0 is the sum over time
        if needs[1]:
            if x_hat is None:
                x_hat = torch.fft.rfft(x[:, some].to(plan.dtype), piece.n).conj_physical()
            found.append((x_hat * grad_hat).sum(0))
        if needs[0]:
            grad_x[:, some] = torch.fft.irfft(grad_hat.mul_(kernel_hat), piece.n)[..., : plan.length]
    grad_kernel = _kernel_gradient(found, plan, kernel) if needs[1] else nothing
    grad_bias = _joined(sums).to(kernel.dtype) if needs[2] else nothing
    return grad_x, grad_kernel, grad_bias


def _spectra(kernel: Tensor, plan: DepthwisePlan) -> list[Tensor]:
    """Return the spectrum ``(c, F)`` of the kernels of each piece; lags that look ahead wrap around to the end.

    Neighbours with equal transforms share one, since planning a transform takes longer than a row of it.
    """
    spectra: list[Tensor] = []
    for group in plan.groups:
        first, last = group[0], group[-1]
        samples = kernel[first.channels.start : last.channels.stop, first.lags].to(plan.dtype)
        if first.ahead:
            samples = torch.nn.functional.pad(samples, (0, first.n - samples.shape[-1])).roll(-first.ahead, -1)
        spectra += torch.fft.rfft(samples, first.n).split_with_sizes([plan.channels_of(piece) for piece in group])
    return spectra


def _kernel_gradient(spectra: list[Tensor], plan: DepthwisePlan, kernel: Tensor) -> Tensor:
    """Return the gradient ``(C, L)`` of the kernels for those of `_spectra`, zero for lags that a piece leaves out."""
    start = 0
    parts = []
    for group in plan.groups:
        first = group[0]
        samples = torch.fft.irfft(_joined(spectra[start : start + len(group)]), first.n)
        if first.ahead:
            samples = samples.roll(first.ahead, -1)
        lags = first.lags
        around = (lags.start, kernel.shape[-1] - lags.stop)
        parts.append(torch.nn.functional.pad(samples[:, : lags.stop - lags.start], around))
        start += len(group)
    return _joined(parts).to(kernel.dtype)


def _joined(parts: list[Tensor]) -> Tensor:
    """Return parts of the channels as one tensor."""
    return parts[0] if len(parts) == 1 else torch.cat(parts)
