"""Convolution of a signal with a kernel as long as itself, by FFT: pure functions, exact in any floating type."""

# B batch, O out channels, I in channels, T time, L lags, K basis functions

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.amp.autocast_mode import is_autocast_available

from ckcnn.nn.checks import check_signal
from ckcnn.nn.spectral import SpectralConv, fft_length


@torch.compiler.disable  # type: ignore[untyped-decorator]  # complex numbers are not for the compiler yet
def fft_conv(x: Tensor, kernel: Tensor, bias: Tensor | None = None, advance: int = 0) -> Tensor:
    """Convolves a signal with a kernel of any length.

    ::

        y[t] = sum over j of  kernel[j] @ x[t - (j - advance)] + bias,   x zero outside its samples

    Args:
        x: signal, ``(B, I, T)``.
        kernel: ``(O, I, L)``; index ``j`` is lag ``j - advance`` in samples.
        bias: ``(O,)`` or None.
        advance: how many samples of the kernel look ahead; 0 is causal.

    Returns:
        ``(B, O, T)`` in the type of `x`.

    Raises:
        ValueError: if shapes or types do not fit.
    """
    if kernel.dim() != 3 or 0 in kernel.shape:
        raise ValueError(f"kernel must have shape (out, in, lags), all at least 1, got {tuple(kernel.shape)}")
    if not 0 <= advance < kernel.shape[-1]:
        raise ValueError(f"advance must lie in [0, {kernel.shape[-1]}), the lags of the kernel, got {advance}")
    if bias is not None and tuple(bias.shape) != (len(kernel),):
        raise ValueError(
            f"bias must have shape ({len(kernel)},), one value per output channel, got {tuple(bias.shape)}"
        )
    check_signal(x, kernel.shape[1], kernel.dtype)
    return _spectral_conv(x, bias, advance, kernel)


def basis_conv(x: Tensor, basis: Tensor, weight: Tensor, bias: Tensor | None = None, advance: int = 0) -> Tensor:
    """`fft_conv` with the kernel ``weight @ basis``, ``(O, I, K) @ (K, L)``, which is never built.

    Both parts are trusted to fit `x`: this is the inside of `CKConv`, which has checked them.
    """
    return _spectral_conv(x, bias, advance, basis, weight)


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """Switches autocast off: half precision is too coarse for an FFT and for the phases of a kernel net."""
    if is_autocast_available(device.type) and torch.is_autocast_enabled(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()


def _spectral_conv(x: Tensor, bias: Tensor | None, advance: int, *parts: Tensor) -> Tensor:
    """Brings everything to one type the FFT knows, out of reach of autocast."""
    length = x.shape[-1]
    lags = min(parts[0].shape[-1], length + advance)  # older ones meet no sample
    dtype = torch.promote_types(parts[0].dtype, torch.float32)
    parts = (parts[0][..., :lags], *parts[1:])
    n = fft_length(length, max(advance, lags - 1 - advance))
    with full_precision(x.device):
        y: Tensor = SpectralConv.apply(  # type: ignore[no-untyped-call]
            x.to(dtype), None if bias is None else bias.to(dtype), n, advance, *(part.to(dtype) for part in parts)
        )
    return y.to(x.dtype)
