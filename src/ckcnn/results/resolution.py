"""Learned kernels on a grid finer than that of training: what training could not see (paper, Appx. E.3)."""

# O out channels, I in channels, L lags, F lags of the finer grid, W frequencies

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ckcnn.nn import CKConv

NYQUIST = 0.5  # periods for each training sample: the training grid cannot distinguish faster ones from slower ones


@dataclass(frozen=True)
class FineKernel:
    """One kernel on the training grid and on a finer one; values are those of the function, whatever the grid.

    Attributes:
        channels: that it connects, such as ``0 → 3``.
        lags: of the training grid, ``(L,)``.
        values: there.
        fine_lags: of the finer grid, ``(F,)``, in training samples.
        fine: the values there.
        smoothed: the same after the paper's smoothing, as the layer uses them.
    """

    channels: str
    lags: Tensor
    values: Tensor
    fine_lags: Tensor
    fine: Tensor
    smoothed: Tensor

    @property
    def step(self) -> float:
        """The distance of two lags of the finer grid."""
        return float(self.fine_lags[1] - self.fine_lags[0])

    def window(self, width: int) -> tuple[float, float]:
        """The ends of a stretch of `width` training samples with the most of what the training grid cannot hold."""
        fast = torch.fft.rfft(self.fine * _fade(self.fine))
        fast[torch.fft.rfftfreq(len(self.fine), self.step) <= NYQUIST] = 0
        energy = torch.fft.irfft(fast, len(self.fine)).square()
        factor = round(1 / self.step)
        size = min(width * factor, len(energy) - 1)
        start = int(energy.unfold(0, size + 1, factor).sum(1).argmax()) * factor
        return float(self.fine_lags[start]), float(self.fine_lags[start + size])


def spectrum(values: Tensor, step: float) -> tuple[Tensor, Tensor]:
    """The amplitudes of functions ``(..., F)`` sampled every `step` training samples.

    Returns:
        Frequencies ``(W,)`` in periods for each training sample, and amplitudes ``(..., W)``. Both ends are faded out
        (Hann window): the jump from the last lag to the first would have all frequencies.
    """
    window = _fade(values)
    return torch.fft.rfftfreq(values.shape[-1], step), torch.fft.rfft(values * window).abs() / window.sum()


def share_above(layer: CKConv, factor: int = 8, smoothed: bool = True) -> float:
    """How much of the energy of all kernels of a layer lies above what the training grid can hold, from 0 to 1."""
    values = sampled(layer, factor, smoothed)[1]
    energy, high = _energies(values, 1 / factor)
    return float(high.sum() / energy.sum())


def finest(layer: CKConv, factor: int = 8) -> tuple[int, int]:
    """Output and input channel of the kernel of a layer with the most energy above what the training grid can hold."""
    high = _energies(sampled(layer, factor, False)[1], 1 / factor)[1]
    return divmod(int(high.flatten().argmax()), layer.in_channels)


def fine_kernel(layer: CKConv, row: int, column: int, factor: int = 8) -> FineKernel:
    """The kernel of a layer from input channel `column` to output channel `row`, on a grid `factor` times finer."""
    lags, values = sampled(layer, 1, False)
    fine_lags, fine = sampled(layer, factor, False)
    _, smooth = sampled(layer, factor, True)
    place = (row, column)
    return FineKernel(f"{column} → {row}", lags, values[place], fine_lags, fine[place], smooth[place])


@torch.no_grad()
def sampled(layer: CKConv, factor: int, smoothed: bool) -> tuple[Tensor, Tensor]:
    """All kernels ``(O, I, F)`` on a grid `factor` times finer, and its lags ``(F,)``, over the whole memory.

    `CKConv.kernel` weighs each sample with the step; here the weight is taken out again, so that grids can be compared.

    Raises:
        ValueError: if `factor` is not a whole number above 0.
    """
    if not (isinstance(factor, int) and factor > 0):
        raise ValueError(f"factor must be a whole number above 0, how many times finer the grid is, got {factor!r}")
    length = (layer.horizon - 1) * factor + 1
    first = 0 if layer.memory.causal else -(length // 2)
    lags = torch.arange(first, first + length) / factor
    return lags, layer.kernel(length, 1 / factor, smoothed) * factor


def _energies(values: Tensor, step: float) -> tuple[Tensor, Tensor]:
    """The energy of each function, and that above `NYQUIST`."""
    frequencies, amplitudes = spectrum(values, step)
    energy = amplitudes.square()
    return energy.sum(-1), energy[..., frequencies > NYQUIST].sum(-1)


def _fade(values: Tensor) -> Tensor:
    return torch.hann_window(values.shape[-1], periodic=False, dtype=values.dtype)
