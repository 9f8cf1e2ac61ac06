"""A convolution with a learned kernel as long as the signal: what a continuous kernel replaces, and its baseline."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ckcnn.checks import check_counts
from ckcnn.nn.functional import fft_conv


class FFTConv(nn.Module):
    """Convolution with a free kernel of any length, by FFT.

    Args:
        in_channels: channels of the signal.
        out_channels: channels of the result.
        length: lags of the kernel, in samples.
        bias: whether to add a learned constant to each output channel.
        causal: whether the kernel lies in the past; otherwise half of it lies in the future.
    """

    def __init__(
        self, in_channels: int, out_channels: int, length: int, bias: bool = True, causal: bool = True
    ) -> None:
        super().__init__()
        check_counts(in_channels=in_channels, out_channels=out_channels, length=length)
        self.advance = 0 if causal else length // 2
        self.kernel = nn.Parameter(torch.empty(out_channels, in_channels, length))
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Initialise all weights, as PyTorch's own convolutions do: U(±1 / sqrt(in_channels * length))."""
        bound = 1 / math.sqrt(self.kernel[0].numel())
        for parameter in self.parameters():
            parameter.uniform_(-bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        """Convolve ``(B, I, T) -> (B, O, T)``; samples older than the kernel are forgotten."""
        return fft_conv(x, self.kernel, self.bias, self.advance)

    def extra_repr(self) -> str:
        out_channels, in_channels, length = self.kernel.shape
        return f"{in_channels}, {out_channels}, length={length}" + (", causal=False" if self.advance else "")
