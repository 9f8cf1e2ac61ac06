"""The spectrum of a kernel, made slice by slice, and the way its gradient takes back to the parts of the kernel."""

# O out channels, I in channels, L lags, K basis functions, N FFT length, F frequencies, f frequencies of one slice

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

_SLICE_BYTES = 8 << 20  # larger ones leave the cache, many small ones cost calls


def kernel_spectrum(parts: tuple[Tensor, ...], n: int, advance: int) -> KernelSpectrum:
    """The spectrum of a sampled kernel ``(kernel,)`` or of the read-out of a basis ``(basis, weight)``."""
    if len(parts) == 1:
        return SampledKernel(parts[0], n, advance)
    return FactoredKernel(parts[0], parts[1], n, advance)


class KernelSpectrum(ABC):
    """What a convolution needs of a kernel of shape ``(O, I, L)``, of which the first `advance` lags look ahead."""

    def __init__(self, shape: tuple[int, int, int], n: int, advance: int) -> None:
        self.out_channels, self.in_channels, self.lags = shape
        self.n, self.frequencies, self.advance = n, n // 2 + 1, advance

    def slices(self, dtype: torch.dtype) -> list[slice]:
        """The frequencies, in slices of a size that suits the cache."""
        step = max(1, _SLICE_BYTES // (self.out_channels * self.in_channels * dtype.itemsize))
        return [slice(start, min(start + step, self.frequencies)) for start in range(0, self.frequencies, step)]

    @abstractmethod
    def read(self, part: slice) -> Tensor:
        """The spectrum of one slice, ``(f, O, I)``."""

    @abstractmethod
    def gradient(self) -> KernelGradient:
        """Something to gather the gradient of the spectrum in."""

    def transform(self, samples: Tensor) -> Tensor:
        """The spectrum ``(..., F)`` of samples ``(..., L)``; those that look ahead wrap around to the end."""
        if self.advance == 0:
            return torch.fft.rfft(samples, self.n)
        padded = torch.nn.functional.pad(samples, (0, self.n - self.lags))
        return torch.fft.rfft(padded.roll(-self.advance, -1))

    def transform_back(self, spectrum: Tensor) -> Tensor:
        """The inverse of `transform`."""
        samples = torch.fft.irfft(spectrum, self.n)
        return (samples.roll(self.advance, -1) if self.advance else samples)[..., : self.lags]


class KernelGradient(ABC):
    """Gathers the gradient of a kernel spectrum and turns it into that of the kernel's parts."""

    @abstractmethod
    def add(self, part: slice, grad: Tensor) -> None:
        """Takes the conjugate gradient of one slice, ``(f, O, I)``."""

    @abstractmethod
    def of_parts(self) -> tuple[Tensor, ...]:
        """The gradients of the parts, once every slice has been added."""


class SampledKernel(KernelSpectrum):
    """A kernel given by its samples."""

    def __init__(self, kernel: Tensor, n: int, advance: int) -> None:
        super().__init__((kernel.shape[0], kernel.shape[1], kernel.shape[2]), n, advance)
        self.spectrum = self.transform(kernel).movedim(-1, 0).contiguous()  # (F, O, I)

    def read(self, part: slice) -> Tensor:
        return self.spectrum[part]

    def gradient(self) -> KernelGradient:
        return _SampledGradient(self)


class _SampledGradient(KernelGradient):
    def __init__(self, kernel: SampledKernel) -> None:
        self.kernel = kernel
        self.spectrum = torch.empty_like(kernel.spectrum)

    def add(self, part: slice, grad: Tensor) -> None:
        self.spectrum[part] = grad

    def of_parts(self) -> tuple[Tensor, ...]:
        return (self.kernel.transform_back(self.spectrum.movedim(0, -1).conj()),)


class FactoredKernel(KernelSpectrum):
    """A kernel that is a linear read-out of a basis, ``weight @ basis``: ``(O, I, K) @ (K, L)``.

    Real and imaginary parts of the basis are separate rows, so that the read-out is a real matrix product: half the
    arithmetic of a complex one.
    """

    def __init__(self, basis: Tensor, weight: Tensor, n: int, advance: int) -> None:
        super().__init__((weight.shape[0], weight.shape[1], basis.shape[1]), n, advance)
        self.weight = weight.flatten(0, 1)  # (O I, K)
        self.rows = torch.view_as_real(self.transform(basis)).permute(1, 2, 0).contiguous()  # (F, 2, K)

        self.whole: Tensor | None = None  # if it is no more than one slice, it is kept for the backward pass

    def read(self, part: slice) -> Tensor:
        if self.whole is not None:
            return self.whole
        rows = self.rows[part] @ self.weight.T  # (f, 2, O I)
        spectrum = torch.complex(rows[:, 0], rows[:, 1]).view(-1, self.out_channels, self.in_channels)
        if len(spectrum) == self.frequencies:
            self.whole = spectrum
        return spectrum

    def gradient(self) -> KernelGradient:
        return _FactoredGradient(self)


class _FactoredGradient(KernelGradient):
    def __init__(self, kernel: FactoredKernel) -> None:
        self.kernel = kernel
        self.rows = torch.empty_like(kernel.rows)
        self.weight = torch.zeros_like(kernel.weight)
        self.dual = self._dual_rows()

    def _dual_rows(self) -> Tensor:
        """Rows that make a sum over frequencies the sum over lags (Parseval).

        Each frequency but the first and the last, of which `fft_length` makes sure, stands for two.
        """
        dual = self.kernel.rows * (2 / self.kernel.n)
        dual[0] /= 2
        dual[-1] /= 2
        dual[:, 1].neg_()  # the gradient comes conjugate
        return dual

    def add(self, part: slice, grad: Tensor) -> None:
        rows = torch.view_as_real(grad).flatten(1, 2).mT.contiguous()  # (f, 2, O I)
        torch.matmul(rows, self.kernel.weight, out=self.rows[part])
        self.weight.addmm_(rows.flatten(0, 1).T, self.dual[part].flatten(0, 1))

    def of_parts(self) -> tuple[Tensor, ...]:
        spectrum = torch.view_as_complex(self.rows.permute(2, 0, 1).contiguous())  # (K, F)
        weight = self.weight.view(self.kernel.out_channels, self.kernel.in_channels, -1)
        return self.kernel.transform_back(spectrum.conj()), weight
