"""Convolution of a signal with a kernel as long as itself, by FFT: pure functions, exact in any floating type."""

# B batch, O out channels, I in channels, T time, L lags, K basis functions

from __future__ import annotations

from torch import Tensor

from ckcnn.nn.checks import check_signal
from ckcnn.nn.conv_operator import spectral_conv
from ckcnn.nn.precision import full_precision

__all__ = ["basis_conv", "fft_conv", "full_precision"]


def fft_conv(x: Tensor, kernel: Tensor, bias: Tensor | None = None, advance: int = 0) -> Tensor:
    """Convolve a signal with a kernel of any length.

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
    return spectral_conv(x, kernel, None, bias, advance)


def basis_conv(x: Tensor, basis: Tensor, weight: Tensor, bias: Tensor | None = None, advance: int = 0) -> Tensor:
    """`fft_conv` with the kernel ``weight @ basis``, ``(O, I, K) @ (K, L)``, which is never built.

    Both parts are trusted to fit `x`: this is the inside of `CKConv`, which has checked them.
    """
    return spectral_conv(x, basis, weight, bias, advance)
