"""The residual block of the paper (Sec. 5, figure of the architecture)."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import torch
from torch import Tensor, nn

from ckcnn.checks import check_choice
from ckcnn.nn.normalization import NORMS, Norm
from ckcnn.nn.time_grid import TimeGrid

ConvFactory = Callable[[int, int], nn.Module]
"""Makes a convolution from in to out channels, such as ``functools.partial(CKConv, horizon=784)``."""


class CKBlock(nn.Module):
    """Two convolutions and a shortcut.

    ::

        x ─ conv ─ norm ─ ReLU ─ dropout ─ conv ─ norm ─ ReLU ─ dropout ─(+)─ ReLU ─ y
          └───────── identity, or 1x1 convolution if the channels differ ─┘

    Args:
        in_channels: channels of the signal.
        out_channels: channels of the result.
        conv: makes a convolution for a number of in and out channels.
        norm: ``"global"`` (the authors': over channels and time, not causal) or ``"step"`` (each time step by itself).
        dropout: fraction of the activations that training sets to zero.
    """

    def __init__(
        self, in_channels: int, out_channels: int, conv: ConvFactory, norm: Norm = "global", dropout: float = 0.0
    ) -> None:
        super().__init__()
        check_choice("norm", norm, get_args(Norm))
        self.conv1, self.norm1 = conv(in_channels, out_channels), NORMS[norm](out_channels)
        self.conv2, self.norm2 = conv(out_channels, out_channels), NORMS[norm](out_channels)
        self.dropout = nn.Dropout(dropout)
        same = in_channels == out_channels
        self.shortcut = nn.Identity() if same else PointwiseConv(in_channels, out_channels, kernel_size=1)

    def forward(self, x: Tensor, dt: float = 1.0, times: Tensor | TimeGrid | None = None) -> Tensor:
        """Map ``(B, C_in, T) -> (B, C_out, T)``; `dt` and `times` as in `CKConv.forward`."""
        y = self.dropout(self.norm1(self.conv1(x, dt, times)).relu_())
        y = self.dropout(self.norm2(self.conv2(y, dt, times)).relu_())
        return (y + self.shortcut(x)).relu_()


class PointwiseConv(nn.Conv1d):
    """A 1x1 convolution as the matrix product it is: for few channels on a CPU four times as fast."""

    def reset_bias(self) -> None:
        """Start from biases of zero."""
        assert self.bias is not None
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        assert self.bias is not None
        weight = self.weight.squeeze(-1).expand(x.shape[0], -1, -1)
        return torch.baddbmm(self.bias[None, :, None], weight, x)
