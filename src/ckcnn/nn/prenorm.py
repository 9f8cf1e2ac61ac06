"""The pre-norm residual block of CCNN and S4, and a chain of them."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, get_args

from torch import Tensor, nn

from ckcnn.checks import check_choice, check_fraction
from ckcnn.nn.block import ConvFactory, PointwiseConv
from ckcnn.nn.normalization import NORMS, Norm
from ckcnn.nn.time_grid import TimeGrid

Stem = Literal["linear", "conv"]
Activation = Literal["gelu", "relu", "silu"]
ACTIVATIONS: dict[Activation, type[nn.Module]] = {"gelu": nn.GELU, "relu": nn.ReLU, "silu": nn.SiLU}


class PreNormBlock(nn.Module):
    """One convolution and a 1x1 convolution beside a shortcut that nothing interrupts.

    ::

        x ─ norm ─ conv ─ activation ─ dropout ─ 1x1 ─ activation, or gate ─(+)─ y
          └──────────────────────────────────────────────────────────────────┘

    Args:
        channels: channels of the signal and of the result.
        conv: makes a convolution for a number of in and out channels.
        norm: see `ckcnn.nn.CKBlock`; ``"batch"`` is causal in evaluation.
        dropout: fraction of the activations that training sets to zero.
        gated: whether the 1x1 convolution makes twice the channels, of which one half gates the other.
        activation: ``"gelu"``, ``"relu"`` or ``"silu"``.
    """

    def __init__(
        self,
        channels: int,
        conv: ConvFactory,
        norm: Norm = "batch",
        dropout: float = 0.0,
        gated: bool = False,
        activation: Activation = "gelu",
    ) -> None:
        super().__init__()
        check_choice("norm", norm, get_args(Norm))
        self.norm, self.conv = NORMS[norm](channels), conv(channels, channels)
        check_choice("activation", activation, get_args(Activation))
        self.activation, self.dropout = ACTIVATIONS[activation](), nn.Dropout(dropout)
        self.mix = PointwiseConv(channels, 2 * channels if gated else channels, kernel_size=1)
        self.gate: nn.Module = nn.GLU(dim=1) if gated else ACTIVATIONS[activation]()
        if not gated:
            nn.init.kaiming_normal_(self.mix.weight)
        self.mix.reset_bias()

    def forward(self, x: Tensor, dt: float = 1.0, times: Tensor | TimeGrid | None = None) -> Tensor:
        """Map ``(B, C, T) -> (B, C, T)``; `dt` and `times` as in `CKConv.forward`."""
        y = self.activation(self.conv(self.norm(x), dt, times))
        return x + self.gate(self.mix(self.dropout(y)))


class ConvStem(nn.Module):
    """A convolution, a norm and an activation, from the channels of the signal to those of the blocks (CCNN)."""

    def __init__(
        self, in_channels: int, out_channels: int, conv: ConvFactory, norm: Norm, activation: Activation
    ) -> None:
        super().__init__()
        self.conv, self.norm = conv(in_channels, out_channels), NORMS[norm](out_channels)
        self.activation = ACTIVATIONS[activation]()

    def forward(self, x: Tensor, dt: float = 1.0, times: Tensor | TimeGrid | None = None) -> Tensor:
        """Map ``(B, C_in, T) -> (B, C_out, T)``; `dt` and `times` as in `CKConv.forward`."""
        y: Tensor = self.activation(self.norm(self.conv(x, dt, times)))
        return y


class PreNormBackbone(nn.Module):
    """A stem, a chain of `PreNormBlock`, and a norm.

    Args:
        channels: channels before, between and after the blocks; all but the first must be equal.
        conv: makes a convolution for a number of in and out channels.
        norm: see `PreNormBlock`.
        dropout: see `PreNormBlock`.
        gated: see `PreNormBlock`.
        stem: how the signal gets its channels: ``"linear"``, a 1x1 convolution, or ``"conv"``, a convolution, a norm
            and an activation (CCNN).
        activation: see `PreNormBlock`.
    """

    def __init__(
        self,
        channels: list[int],
        conv: ConvFactory,
        norm: Norm = "batch",
        dropout: float = 0.0,
        gated: bool = False,
        stem: Stem = "linear",
        activation: Activation = "gelu",
    ) -> None:
        super().__init__()
        check_fraction("dropout", dropout)
        check_choice("stem", stem, get_args(Stem))
        if any(a != b for a, b in pairwise(channels[1:])):
            raise ValueError(f"pre-norm blocks must have the same channels, got {channels[1:]}")
        first, width = channels[:2]
        if stem == "conv":
            self.stem: nn.Module = ConvStem(first, width, conv, norm, activation)
        else:
            self.stem = PointwiseConv(first, width, kernel_size=1)
        self.blocks = nn.ModuleList(PreNormBlock(width, conv, norm, dropout, gated, activation) for _ in channels[1:])
        self.norm = NORMS[norm](width)

    def forward(self, x: Tensor, dt: float = 1.0, times: Tensor | TimeGrid | None = None) -> Tensor:
        """Map ``(B, C_in, T) -> (B, C_out, T)``; `dt` and `times` as in `CKConv.forward`."""
        times = TimeGrid.of(times, x)
        x = self.stem(x, dt, times) if isinstance(self.stem, ConvStem) else self.stem(x)
        for block in self.blocks:
            x = block(x, dt, times)
        return self.norm(x)
