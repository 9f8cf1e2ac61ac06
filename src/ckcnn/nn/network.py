"""Whole networks: blocks of continuous-kernel convolutions between an input and a read-out (paper, Sec. 5)."""

# B batch, C channels, T time, V vocabulary

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from ckcnn.checks import check_choice, check_counts, check_fraction
from ckcnn.nn.block import CKBlock, ConvFactory
from ckcnn.nn.checks import check_signal
from ckcnn.nn.lengths import check_lengths, last_valid, mean_of_valid
from ckcnn.nn.normalization import Norm
from ckcnn.nn.time_grid import TimeGrid

Readout = Literal["last", "last_valid", "mean", "every_step"]
BackboneFactory = Callable[[list[int], ConvFactory, Norm, float], nn.Module]
"""Makes a backbone from channels, what makes a convolution, norm and dropout, such as `CKBackbone` itself."""


class CKBackbone(nn.Module):
    """A chain of `CKBlock`.

    Args:
        channels: channels before, between and after the blocks.
        conv: makes a convolution for a number of in and out channels.
        norm: see `CKBlock`.
        dropout: see `CKBlock`.
    """

    def __init__(self, channels: list[int], conv: ConvFactory, norm: Norm = "global", dropout: float = 0.0) -> None:
        super().__init__()
        check_fraction("dropout", dropout)
        self.blocks = nn.ModuleList(CKBlock(a, b, conv, norm, dropout) for a, b in pairwise(channels))

    def forward(self, x: Tensor, dt: float = 1.0, times: Tensor | TimeGrid | None = None) -> Tensor:
        """Map ``(B, C_in, T) -> (B, C_out, T)``; `dt` and `times` as in `CKConv.forward`.

        Stamps are checked once: all blocks get the same `TimeGrid`.
        """
        times = TimeGrid.of(times, x)
        for block in self.blocks:
            x = block(x, dt, times)
        return x


class CKNet(nn.Module):
    """Blocks of continuous-kernel convolutions and a linear read-out of sequences.

    Example:
        >>> from functools import partial
        >>> from ckcnn.nn import CKConv, Siren
        >>> conv = partial(CKConv, horizon=784, kernel=partial(Siren, omega_0=43.46))
        >>> net = CKNet(in_channels=1, hidden_channels=30, out_channels=10, conv=conv)
        >>> net(torch.randn(2, 1, 784)).shape
        torch.Size([2, 10])

    Args:
        in_channels: channels of the signal.
        hidden_channels: channels of the blocks.
        out_channels: classes, or values to predict.
        conv: makes a convolution for a number of in and out channels.
        num_blocks: residual blocks.
        norm: see `CKBlock`.
        readout: which steps are read: ``"last"`` (step ``lengths - 1`` of each sequence where `lengths` are given),
            ``"last_valid"`` (the same, but `lengths` must be given), ``"mean"`` (over the valid steps where `lengths`
            are given) or ``"every_step"``.
        dropout: fraction of the activations that training sets to zero.
        input_dropout: fraction of the input values that training sets to zero.
        backbone: makes the blocks: `CKBackbone`, those of the paper, or `PreNormBackbone`.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        conv: ConvFactory,
        num_blocks: int = 2,
        norm: Norm = "global",
        readout: Readout = "last",
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        backbone: BackboneFactory = CKBackbone,
    ) -> None:
        super().__init__()
        check_counts(hidden_channels=hidden_channels, out_channels=out_channels, num_blocks=num_blocks)
        check_choice("readout", readout, get_args(Readout))
        check_fraction("input_dropout", input_dropout)
        self.in_channels, self.readout = in_channels, readout
        self.input_dropout = nn.Dropout(input_dropout)
        self.backbone = backbone([in_channels] + [hidden_channels] * num_blocks, conv, norm, dropout)
        self.head = nn.Linear(hidden_channels, out_channels)
        nn.init.normal_(self.head.weight, std=0.01)
        nn.init.zeros_(self.head.bias)

    def forward(
        self, x: Tensor, dt: float = 1.0, times: Tensor | TimeGrid | None = None, lengths: Tensor | None = None
    ) -> Tensor:
        """Map ``(B, C, T)`` to ``(B, out)``, or ``(B, out, T)`` when every step is read.

        Args:
            x: signal.
            dt: sampling step in training samples, as in `CKConv.forward`.
            times: stamps ``(B, T)``, as in `CKConv.forward`.
            lengths: number of valid steps of each sequence, ``(B,)``; the rest is padding. They must lie in 1 ... T.
                Wrong ones raise an error on the CPU. Elsewhere, and in compiled or exported networks, which must not
                wait for their values, they make the answer to their sequence NaN.
        """
        check_signal(x, self.in_channels, self.head.bias.dtype)
        if lengths is not None:
            check_lengths(lengths, x.shape[0], x.shape[-1])
        elif self.readout == "last_valid":
            raise ValueError('readout "last_valid" needs lengths, the number of valid steps of each sequence')
        y = self.backbone(self.input_dropout(x), dt, times)
        if self.readout == "every_step":
            return self.head(y.mT).mT
        return self.head(self._read(y, lengths))

    def _read(self, y: Tensor, lengths: Tensor | None) -> Tensor:
        if self.readout == "mean":
            return y.mean(-1) if lengths is None else mean_of_valid(y, lengths)
        return y[..., -1] if lengths is None else last_valid(y, lengths)


class CKTextNet(nn.Module):
    """Blocks between an embedding of tokens and a read-out with the same weights, at every step.

    Args:
        vocabulary: number of different tokens.
        embedding_channels: channels of the embedding; the last block returns to them.
        hidden_channels: channels between the blocks.
        conv: makes a convolution for a number of in and out channels.
        num_blocks: residual blocks.
        norm: ``"step"`` here, since a language model must not look ahead; ``"global"`` is what the authors ran.
        dropout: fraction of the activations that training sets to zero.
        embedding_dropout: fraction of the embedded values that training sets to zero.
        backbone: see `CKNet`.
    """

    def __init__(
        self,
        vocabulary: int,
        embedding_channels: int,
        hidden_channels: int,
        conv: ConvFactory,
        num_blocks: int = 2,
        norm: Norm = "step",
        dropout: float = 0.0,
        embedding_dropout: float = 0.0,
        backbone: BackboneFactory = CKBackbone,
    ) -> None:
        super().__init__()
        check_counts(vocabulary=vocabulary, embedding_channels=embedding_channels, num_blocks=num_blocks)
        check_fraction("embedding_dropout", embedding_dropout)
        self.embedding = nn.Embedding(vocabulary, embedding_channels)
        self.embedding_dropout = nn.Dropout(embedding_dropout)
        channels = [embedding_channels] + [hidden_channels] * (num_blocks - 1) + [embedding_channels]
        self.backbone = backbone(channels, conv, norm, dropout)
        self.head = nn.Linear(embedding_channels, vocabulary)
        self.head.weight = self.embedding.weight
        nn.init.normal_(self.embedding.weight, std=0.01)
        nn.init.zeros_(self.head.bias)

    def forward(self, tokens: Tensor, dt: float = 1.0, times: Tensor | TimeGrid | None = None) -> Tensor:
        """Map tokens ``(B, T)`` to the scores of the next one at every step, ``(B, V, T)``."""
        if tokens.dim() != 2 or 0 in tokens.shape or tokens.dtype not in (torch.int32, torch.int64):
            raise ValueError(
                f"tokens must be whole numbers (batch, time), int64, got {tokens.dtype} {tuple(tokens.shape)}"
            )
        x = self.embedding_dropout(self.embedding(tokens)).mT
        return self.head(self.backbone(x, dt, times).mT).mT
