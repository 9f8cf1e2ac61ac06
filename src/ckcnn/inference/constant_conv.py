"""Convolutions with a constant kernel, made of operators that every runtime has: no FFT and no complex numbers.

A kernel is stored as its two factors, ``weight @ basis``, as the kernel net makes it: for 30 x 30 channels that is one
fortieth of the memory. Runtimes that fold constants, such as onnxruntime, multiply them once, when a file is loaded.
"""

# B batch, O out channels, I in channels, C either, T time, L lags, K basis functions
# A block of S samples is R rows of Q samples. M blocks, H = R + 1 lines of the first transform, F = H * Q frequencies

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

DIRECT_LAGS = 64  # up to here a plain convolution is as fast or faster (python -m benchmarks.export --lags)


class SampledKernel(NamedTuple):
    """The kernel ``weight @ basis`` on a grid.

    Attributes:
        basis: ``(K, L)``; index ``j`` is lag ``j - ahead``, in samples.
        weight: ``(O, I, K)``.
        bias: ``(O,)``, or None.
        ahead: number of lags that lie in the future.
    """

    basis: Tensor
    weight: Tensor
    bias: Tensor | None
    ahead: int

    @property
    def lags(self) -> int:
        """The number of lags."""
        return self.basis.shape[-1]


class DirectConv(nn.Module):
    """A plain convolution, for kernels of few lags and signals of any length.

    Args:
        kernel: the kernel.
    """

    basis: Tensor
    weight: Tensor
    bias: Tensor | None

    def __init__(self, kernel: SampledKernel) -> None:
        super().__init__()
        self.out_channels, self.in_channels, _ = kernel.weight.shape
        self.padding = (kernel.lags - 1 - kernel.ahead, kernel.ahead)
        self.register_buffer("basis", kernel.basis.flip(-1).float())  # torch calls a correlation a convolution
        self.register_buffer("weight", kernel.weight.flatten(0, 1).float())
        self.register_buffer("bias", None if kernel.bias is None else kernel.bias.float())

    def forward(self, x: Tensor, dt: float = 1.0, times: Tensor | None = None) -> Tensor:
        """Convolve ``(B, I, T) -> (B, O, T)``; the kernel was sampled for a step, `dt` is ignored."""
        kernel = (self.weight @ self.basis).view(self.out_channels, self.in_channels, -1)
        return F.conv1d(F.pad(x, self.padding), kernel, self.bias)


class DepthwiseConv(nn.Module):
    """A plain convolution of each channel with its own kernel, for signals of any length.

    Args:
        kernel: ``(C, L)``; index ``j`` is lag ``j - ahead``, in samples.
        bias: ``(C,)``, or None.
        ahead: number of lags that lie in the future.
    """

    kernel: Tensor
    bias: Tensor | None

    def __init__(self, kernel: Tensor, bias: Tensor | None, ahead: int) -> None:
        super().__init__()
        channels, lags = kernel.shape
        self.channels, self.padding = channels, (lags - 1 - ahead, ahead)
        self.register_buffer("kernel", kernel.flip(-1)[:, None].float())
        self.register_buffer("bias", None if bias is None else bias.float())

    def forward(self, x: Tensor, dt: float = 1.0, times: Tensor | None = None) -> Tensor:
        """Convolve ``(B, C, T) -> (B, C, T)``; the kernel was sampled for a step, `dt` is ignored."""
        return F.conv1d(F.pad(x, self.padding), self.kernel, self.bias, groups=self.channels)


class Blocks(nn.Module):
    """A convolution by transforms of blocks, for long kernels and signals of any length.

    The signal is cut into blocks of ``S > L`` samples. A block and the one before it, ``n = 2 S`` samples, hold all
    that the results of the block depend on (overlap-save). Their discrete Fourier transform is two small matrix
    products with a rotation in between: for sample ``t = Q t1 + t2`` and frequency ``k = k1 + 2 R k2``, ``n = 2 R Q``,

    ::

        X[k] = sum over t2 of  exp(-2 pi i t2 k2 / Q)  exp(-2 pi i t2 k1 / n)  Y[k1, t2]
        Y[k1, t2] = sum over t1 of  exp(-2 pi i t1 k1 / 2 R)  x[t]

    Real and imaginary parts are kept apart. The signal is real, so the lines ``k1 = 0 ... R`` say everything.
    Subclasses multiply with the spectrum of their kernel.

    Args:
        channels: of the result.
        lags: of the kernel.
        ahead: number of lags that lie in the future.
        bias: ``(O,)``, or None.
        length: of all signals, if they have one; a single block is then treated as such.
    """

    bias: Tensor | None
    first: Tensor
    second: Tensor
    rotation: Tensor
    alternation: Tensor
    second_inverse: Tensor
    first_inverse: Tensor

    def __init__(self, channels: int, lags: int, ahead: int, bias: Tensor | None, length: int | None) -> None:
        super().__init__()
        self.channels, self.ahead = channels, ahead
        self.rows, self.columns = block_shape(lags + 1)  # so that a signal as long as the kernel is one block
        self.one_block = length is not None and length + ahead < self.block
        # A signal of any length has two blocks at least: torch.export would tell those with one from the others.
        self.spare = self.block if length is not None else 2 * self.block
        self.register_buffer("bias", None if bias is None else bias.float())
        for name, matrix in _transforms(self.rows, self.columns).items():
            self.register_buffer(name, matrix.float().contiguous())

    @property
    def block(self) -> int:
        """The number of samples of a block."""
        return self.rows * self.columns

    def forward(self, x: Tensor, dt: float = 1.0, times: Tensor | None = None) -> Tensor:
        """Convolve ``(B, I, T) -> (B, O, T)``; the kernel was sampled for a step, `dt` is ignored."""
        length = x.shape[-1]
        if self.one_block:
            x = F.pad(x, (0, self.block - length))[:, :, None]
        else:  # unlike a reshape, unfold does not ask whether the length is a multiple of the block
            x = F.pad(x, (0, self.ahead + self.spare)).unfold(-1, self.block, self.block)
        spectrum = self._transform(x.reshape(*x.shape[:3], self.rows, self.columns))
        y = self._back(self._multiply(spectrum)).flatten(2)[..., self.ahead : self.ahead + length]
        return y if self.bias is None else y + self.bias[:, None]

    def _transform(self, x: Tensor) -> Tensor:
        """``(B, I, M, R, Q)`` -> ``(B, I, M, H, 2 Q)``, of each block with the one before it."""
        lines = self.first @ x  # (B, I, M, 2 H, Q), as the later half of a transform
        if not self.one_block:
            # As the earlier half, the lines of a block have the other sign where k1 is odd.
            before = F.pad(lines, (0, 0, 0, 0, 1, 0)).narrow(2, 0, x.shape[2])
            lines = lines + self.alternation * before
        real, imaginary = lines.chunk(2, dim=-2)
        cosine, sine = self.rotation
        turned = torch.cat([real * cosine + imaginary * sine, imaginary * cosine - real * sine], dim=-1)
        return turned @ self.second

    def _multiply(self, x: Tensor) -> Tensor:
        """The spectrum of the result: ``(B, I, M, H, 2 Q)`` -> ``(B, O, M, H, 2 Q)``."""
        raise NotImplementedError

    def _back(self, y: Tensor) -> Tensor:
        """``(B, O, M, H, 2 Q)`` -> the later half of each transform, ``(B, O, M, R, Q)``."""
        real, imaginary = (y @ self.second_inverse).chunk(2, dim=-1)
        cosine, sine = self.rotation
        turned = torch.cat([real * cosine - imaginary * sine, imaginary * cosine + real * sine], dim=-2)
        return self.first_inverse @ turned


class BlockConv(Blocks):
    """A convolution of all channels with each other, by transforms of blocks.

    Args:
        kernel: the kernel.
        length: of all signals, if they have one.
    """

    basis_spectrum: Tensor
    weight: Tensor

    def __init__(self, kernel: SampledKernel, length: int | None = None) -> None:
        super().__init__(len(kernel.weight), kernel.lags, kernel.ahead, kernel.bias, length)
        self.in_channels = kernel.weight.shape[1]
        ordered = _spectrum(kernel.basis, self.rows, self.columns).permute(0, 2, 3, 1).flatten(1, 2)
        self.register_buffer("basis_spectrum", ordered.float().contiguous())  # (2, F, K)
        self.register_buffer("weight", kernel.weight.flatten(0, 1).T.float().contiguous())  # (K, O I)

    def _multiply(self, x: Tensor) -> Tensor:
        """One product of small matrices for each frequency."""
        batch, _, blocks = x.shape[:3]
        lines, columns = self.rows + 1, self.columns
        signals = x.reshape(batch, self.in_channels, blocks, lines, 2, columns)
        signals = signals.permute(3, 5, 1, 4, 0, 2).reshape(lines * columns, self.in_channels, 2 * batch * blocks)
        kernel = (self.basis_spectrum @ self.weight).view(2, -1, self.channels, self.in_channels)
        by_real, by_imaginary = (
            (part @ signals).view(lines * columns, self.channels, 2, batch * blocks) for part in kernel
        )
        real = by_real[:, :, 0] - by_imaginary[:, :, 1]
        imaginary = by_real[:, :, 1] + by_imaginary[:, :, 0]
        y = torch.stack([real, imaginary], dim=2).view(lines, columns, self.channels, 2, batch, blocks)
        return y.permute(4, 2, 5, 0, 3, 1).reshape(batch, self.channels, blocks, lines, 2 * columns)


class DepthwiseBlockConv(Blocks):
    """A convolution of each channel with its own kernel, by transforms of blocks.

    Args:
        kernel: ``(C, L)``; index ``j`` is lag ``j - ahead``, in samples.
        bias: ``(C,)``, or None.
        ahead: number of lags that lie in the future.
        length: of all signals, if they have one.
    """

    spectrum: Tensor  # (2, C, 1, H, Q)

    def __init__(self, kernel: Tensor, bias: Tensor | None, ahead: int, length: int | None = None) -> None:
        super().__init__(len(kernel), kernel.shape[1], ahead, bias, length)
        spectrum = _spectrum(kernel, self.rows, self.columns).float()
        self.register_buffer("spectrum", spectrum[:, :, None].contiguous())

    def _multiply(self, x: Tensor) -> Tensor:
        """One product for each channel and frequency."""
        real, imaginary = x.chunk(2, dim=-1)
        by_real, by_imaginary = self.spectrum
        return torch.cat([real * by_real - imaginary * by_imaginary, imaginary * by_real + real * by_imaginary], dim=-1)


def _spectrum(kernels: Tensor, rows: int, columns: int) -> Tensor:
    """Real and imaginary parts of the spectra of kernels ``(K, L)``, in the order of `Blocks`: ``(2, K, H, Q)``."""
    spectra = torch.fft.fft(kernels.double(), 2 * rows * columns)  # k = k1 + 2 R k2
    lines = spectra.view(len(kernels), columns, 2 * rows)[..., : rows + 1].mT
    return torch.stack([lines.real, lines.imag])


def block_shape(samples: int) -> tuple[int, int]:
    """The rows and columns of the smallest blocks of at least this many samples whose transform is cheap.

    Both products of a transform take about the same time with ``sqrt(2 S)`` rows of ``sqrt(S / 2)`` samples.
    """
    columns = 4 * max(1, round(math.sqrt(samples / 2) / 4))
    return math.ceil(samples / columns), columns


def _transforms(rows: int, columns: int) -> dict[str, Tensor]:
    """The constants of `BlockConv`, in float64."""
    t1, k1 = torch.arange(rows, dtype=torch.float64), torch.arange(rows + 1, dtype=torch.float64)
    t2 = torch.arange(columns, dtype=torch.float64)
    later = math.pi / rows * torch.outer(k1, t1 + rows)  # (H, R)
    inner = 2 * math.pi / columns * torch.outer(t2, t2)  # (Q, Q), symmetric
    outer = math.pi / (rows * columns) * torch.outer(k1, t2)  # (H, Q)
    sign = 1 - 2 * (k1 % 2)
    # A line that stands for its mirror image as well counts twice.
    count = torch.where((k1 == 0) | (k1 == rows), 1.0, 2.0) / (2 * rows * columns)
    cosine, sine = inner.cos(), inner.sin()
    return {
        "first": torch.cat([later.cos(), -later.sin()]),  # (2 H, R)
        "second": torch.cat([torch.cat([cosine, -sine], dim=1), torch.cat([sine, cosine], dim=1)]),  # (2 Q, 2 Q)
        "rotation": torch.stack([outer.cos(), outer.sin()]),  # (2, H, Q)
        "alternation": torch.cat([sign, sign])[:, None],  # (2 H, 1)
        "second_inverse": torch.cat([torch.cat([cosine, sine], dim=1), torch.cat([-sine, cosine], dim=1)]),
        "first_inverse": torch.cat([later.cos() * count[:, None], -later.sin() * count[:, None]]).T,  # (R, 2 H)
    }
