"""The spectrum of a kernel, made slice by slice, and the way its gradient takes back to the parts of the kernel."""

# O out channels, I in channels, L lags, K basis functions, N FFT length, F frequencies, f frequencies of one slice

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from ckcnn.nn.plan import Plan


def kernel_spectrum(plan: Plan, kernel: Tensor, weight: Tensor | None, kept: tuple[Tensor, Tensor]) -> KernelSpectrum:
    """Return the spectrum of a sampled kernel, or of the read-out of a basis if there is a weight.

    Args:
        plan: the sizes of the convolution.
        kernel: samples ``(O, I, L)``, or a basis ``(K, L)``.
        weight: read-out ``(O, I, K)`` of the basis.
        kept: what `KernelSpectrum.keep` returned in the forward pass; empty tensors are computed again.
    """
    kernel = kernel[..., : plan.lags].to(plan.dtype)
    if weight is None:
        return SampledKernel(plan, kernel, kept[1])
    return FactoredKernel(plan, kernel, weight.to(plan.dtype), *kept)


class KernelSpectrum(ABC):
    """What a convolution needs of a kernel ``(O, I, L)``, of which the first lags may look ahead."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    @abstractmethod
    def read(self, part: slice) -> Tensor:
        """Return the spectrum of one slice, ``(f, O, I)``."""

    @abstractmethod
    def keep(self) -> tuple[Tensor, Tensor]:
        """Return what the backward pass can use again, as real tensors: rows of the basis, and the whole spectrum."""

    @abstractmethod
    def gradient(self) -> KernelGradient:
        """Return something to gather the gradient of the spectrum in."""

    def transform(self, samples: Tensor) -> Tensor:
        """Return the spectrum ``(..., F)`` of samples ``(..., L)``; those that look ahead wrap around to the end."""
        plan = self.plan
        if plan.advance == 0:
            return torch.fft.rfft(samples, plan.n)
        padded = torch.nn.functional.pad(samples, (0, plan.n - plan.lags))
        return torch.fft.rfft(padded.roll(-plan.advance, -1))

    def transform_back(self, spectrum: Tensor) -> Tensor:
        """Return the inverse of `transform`, with zeros for lags that meet no sample: ``(..., F) -> (..., L)``."""
        plan = self.plan
        samples = torch.fft.irfft(spectrum, plan.n)
        if plan.advance:
            samples = samples.roll(plan.advance, -1)
        if plan.given_lags == plan.lags:
            return samples[..., : plan.lags].contiguous()
        return torch.nn.functional.pad(samples[..., : plan.lags], (0, plan.given_lags - plan.lags))


class KernelGradient(ABC):
    """Gathers the gradient of a kernel spectrum and turns it into that of the kernel's parts."""

    @abstractmethod
    def add(self, part: slice, grad: Tensor) -> None:
        """Take the conjugate gradient of one slice, ``(f, O, I)``."""

    @abstractmethod
    def of_parts(self) -> tuple[Tensor, Tensor | None]:
        """Return the gradients of kernel or basis, and of the weight, once every slice has been added."""


class SampledKernel(KernelSpectrum):
    """A kernel given by its samples."""

    def __init__(self, plan: Plan, kernel: Tensor, whole: Tensor) -> None:
        super().__init__(plan)
        if whole.numel():
            self.spectrum = torch.view_as_complex(whole)
        else:
            self.spectrum = self.transform(kernel).movedim(-1, 0).contiguous()  # (F, O, I)

    def read(self, part: slice) -> Tensor:
        return self.spectrum[part]

    def keep(self) -> tuple[Tensor, Tensor]:
        whole = torch.view_as_real(self.spectrum)
        return whole.new_empty(0), whole if self.plan.keeps_kernel else whole.new_empty(0)

    def gradient(self) -> KernelGradient:
        return _SampledGradient(self)


class _SampledGradient(KernelGradient):
    def __init__(self, kernel: SampledKernel) -> None:
        self.kernel = kernel
        self.pieces: list[Tensor] = []

    def add(self, part: slice, grad: Tensor) -> None:
        self.pieces.append(grad)

    def of_parts(self) -> tuple[Tensor, Tensor | None]:
        spectrum = self.pieces[0] if len(self.pieces) == 1 else torch.cat(self.pieces)
        return self.kernel.transform_back(torch.conj_physical(spectrum.movedim(0, -1))), None


class FactoredKernel(KernelSpectrum):
    """A kernel that is a linear read-out of a basis, ``weight @ basis``: ``(O, I, K) @ (K, L)``.

    Real and imaginary parts of the basis are separate rows, so that the read-out is a real matrix product: half the
    arithmetic of a complex one.
    """

    def __init__(self, plan: Plan, basis: Tensor, weight: Tensor, rows: Tensor, whole: Tensor) -> None:
        super().__init__(plan)
        self.weight = weight.flatten(0, 1)  # (O I, K)
        if not rows.numel():
            rows = torch.view_as_real(self.transform(basis)).permute(1, 2, 0).contiguous()
        self.rows = rows  # (F, 2, K)
        self.whole = torch.view_as_complex(whole) if whole.numel() else None

    def read(self, part: slice) -> Tensor:
        if self.whole is not None:
            return self.whole[part]
        rows = self.rows[part] @ self.weight.T  # (f, 2, O I)
        spectrum = torch.complex(rows[:, 0], rows[:, 1]).view(-1, self.plan.out_channels, self.plan.in_channels)
        if self.plan.keeps_kernel:
            self.whole = spectrum
        return spectrum

    def keep(self) -> tuple[Tensor, Tensor]:
        rows = self.rows if self.plan.keep else self.rows.new_empty(0)
        whole = self.whole if self.plan.keeps_kernel else None
        return rows, rows.new_empty(0) if whole is None else torch.view_as_real(whole)

    def gradient(self) -> KernelGradient:
        return _FactoredGradient(self)


class _FactoredGradient(KernelGradient):
    def __init__(self, kernel: FactoredKernel) -> None:
        self.kernel = kernel
        self.dual = self._dual_rows()
        self.rows: list[Tensor] = []
        self.weight: Tensor | None = None

    def _dual_rows(self) -> Tensor:
        """Rows that make a sum over frequencies the sum over lags (Parseval).

        Each frequency but the first and the last, of which `fft_length` makes sure, stands for two.
        """
        dual = self.kernel.rows * (2 / self.kernel.plan.n)
        dual[:: len(dual) - 1].div_(2)
        dual[:, 1].neg_()  # the gradient comes conjugate
        return dual

    def add(self, part: slice, grad: Tensor) -> None:
        rows = torch.view_as_real(grad).flatten(1, 2).mT.contiguous()  # (f, 2, O I)
        self.rows.append(rows @ self.kernel.weight)
        transposed, dual = rows.flatten(0, 1).T, self.dual[part].flatten(0, 1)
        if self.weight is None:
            self.weight = transposed @ dual
        else:
            self.weight.addmm_(transposed, dual)

    def of_parts(self) -> tuple[Tensor, Tensor | None]:
        rows = self.rows[0] if len(self.rows) == 1 else torch.cat(self.rows)
        rows[:, 1].neg_()  # not conjugate any more
        spectrum = torch.view_as_complex(rows.permute(2, 0, 1).contiguous())  # (K, F)
        assert self.weight is not None
        weight = self.weight.view(self.kernel.plan.out_channels, self.kernel.plan.in_channels, -1)
        return self.kernel.transform_back(spectrum), weight
