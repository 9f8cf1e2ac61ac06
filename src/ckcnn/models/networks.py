"""The paper's networks from plain options, as presets and checkpoints hold them; needs no training code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Literal, get_args

from torch import nn

from ckcnn.checks import check_choice, check_counts, check_fraction, check_not_negative
from ckcnn.checks.memory import check_room, in_words
from ckcnn.nn import (
    CKBackbone,
    CKConv,
    CKNet,
    CKTextNet,
    ConvFactory,
    DepthwiseCKConv,
    FourierKernel,
    MAGNet,
    MLPKernel,
    MultiscaleSiren,
    PointKernel,
    PreNormBackbone,
    SeparableCKConv,
    Siren,
)
from ckcnn.nn.checks import check_horizon, check_radius, check_sigma
from ckcnn.nn.forecast import FromLastValue
from ckcnn.nn.kernel_window import Window
from ckcnn.nn.network import BackboneFactory
from ckcnn.nn.normalization import Norm
from ckcnn.nn.positions import Coarse
from ckcnn.nn.prenorm import Activation, Stem
from ckcnn.nn.separable import ChannelKernelFactory
from ckcnn.tasks import TASKS

Kernel = Literal["sine", "relu", "leaky_relu", "swish", "fourier", "magnet", "points"]
Omega0 = float | Literal["auto"]
Readout = Literal["last", "mean"]
Block = Literal["paper", "pre_norm", "pre_norm_gated"]
Convolution = Literal["dense", "depthwise", "separable"]
MOST_BLOCKS = 1_000  # the paper has 2


@dataclass(frozen=True)
class NetworkOptions:
    """The options of a `ckcnn.CKCNN` that make its network, without those about training; it explains them."""

    in_channels: int
    out_channels: int
    task: str
    horizon: int
    hidden_channels: int
    num_blocks: int
    omega_0: Omega0
    kernel: Kernel
    kernel_hidden: int
    init: str | None
    norm: Norm | None
    readout: Readout
    dropout: float
    input_dropout: float
    weight_dropout: float
    embedding_channels: int
    embedding_dropout: float
    block: Block = "paper"
    conv: Convolution = "dense"
    stem: Stem = "linear"
    window: Window = "none"
    sigma_0: float = 0.075
    causal: bool = True
    activation: Activation = "gelu"
    learn_omega_0: bool = False
    radius: float = 0.002
    kernel_rate: float = 1.0
    window_rate: float = 1.0
    coarse: Coarse | None = None

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> NetworkOptions:
        """Pick them out of the settings of a model, such as the hyperparameters in a checkpoint."""
        known = {field.name: settings[field.name] for field in fields(cls) if field.name in settings}
        return cls(**known)  # checkpoints of earlier versions have fewer

    def build(self, convolution: type[CKConv] = CKConv) -> CKNet | CKTextNet | FromLastValue:
        """Make the network.

        Raises:
            ValueError: if an option makes no sense, or the network would not fit into memory.
        """
        self._check_size()
        task = TASKS[self.task]
        conv = self.conv_factory(convolution)
        if task.from_tokens:
            if not self.causal:
                raise ValueError("a language model predicts the next token, so it must not see it; leave causal true")
            return CKTextNet(
                vocabulary=self.out_channels,
                embedding_channels=self.embedding_channels,
                hidden_channels=self.hidden_channels,
                conv=conv,
                num_blocks=self.num_blocks,
                norm=self.norm or "step",
                dropout=self.dropout,
                embedding_dropout=self.embedding_dropout,
                backbone=self.backbone_factory(),
            )
        net = CKNet(
            in_channels=self.in_channels,
            hidden_channels=self.hidden_channels,
            out_channels=self.out_channels,
            conv=conv,
            num_blocks=self.num_blocks,
            norm=self.norm or "global",
            readout="every_step" if task.every_step else self.readout,
            dropout=self.dropout,
            input_dropout=self.input_dropout,
            backbone=self.backbone_factory(),
        )
        return FromLastValue(net) if task.ahead else net

    def _check_size(self) -> None:
        """Refuse what is too large: weights, gradients, Adam's two moments and one sampled kernel."""
        check_horizon(self.horizon)
        check_counts(
            hidden_channels=self.hidden_channels,
            num_blocks=self.num_blocks,
            kernel_hidden=self.kernel_hidden,
            embedding_channels=self.embedding_channels,
        )
        for name in ("dropout", "input_dropout", "weight_dropout", "embedding_dropout"):
            check_fraction(name, getattr(self, name))
        for name in ("kernel_rate", "window_rate"):
            check_not_negative(name, getattr(self, name))
        check_sigma(self.sigma_0)
        check_radius(self.radius)
        kernels = self.hidden_channels**2
        weights = 2 * self.num_blocks * (kernels * self.kernel_hidden + self.kernel_hidden**2)
        if TASKS[self.task].from_tokens:
            weights += self.embedding_channels * (self.hidden_channels + self.out_channels)
        needed = 16 * weights + 4 * kernels * self.horizon
        check_room(
            f"a network with num_blocks {self.num_blocks}, hidden_channels {self.hidden_channels} and "
            f"kernel_hidden {self.kernel_hidden} on sequences of {self.horizon} samples",
            needed,
            "choose smaller ones",
        )
        if self.num_blocks > MOST_BLOCKS:
            raise ValueError(
                f"num_blocks must be at most {MOST_BLOCKS:,}, got {self.num_blocks:,}, "
                f"whose weights would take {in_words(needed)}; choose a smaller number"
            )

    def backbone_factory(self) -> BackboneFactory:
        """Return what makes the blocks."""
        check_choice("block", self.block, get_args(Block))
        if self.block == "paper":
            if self.stem != "linear" or self.activation != "gelu":
                raise ValueError("stem and activation are for pre-norm blocks; leave them out or set --model.block")
            return CKBackbone
        gated = self.block == "pre_norm_gated"
        return partial(PreNormBackbone, gated=gated, stem=self.stem, activation=self.activation)

    def conv_factory(self, convolution: type[CKConv]) -> ConvFactory:
        """Return what makes the convolutions."""
        check_choice("conv", self.conv, get_args(Convolution))
        if self.conv != "dense" and self.weight_dropout:
            raise ValueError(f"weight_dropout is for conv: dense, got conv: {self.conv}")
        options: dict[str, Any] = {"horizon": self.horizon, "kernel": self.kernel_factory(), "causal": self.causal}
        if self.coarse is not None:
            options["coarse"] = self.coarse
        if self.window != "none":
            options |= {"window": self.window, "sigma_0": self.sigma_0}
        if self.conv == "dense":
            return partial(convolution, weight_dropout=self.weight_dropout, **options)
        if self.conv == "separable":
            return partial(SeparableCKConv, **options)
        return partial(_depthwise, skip=True, bias=False, **options)

    def kernel_factory(self) -> ChannelKernelFactory:
        """Return what makes the kernel nets."""
        check_choice("kernel", self.kernel, get_args(Kernel))
        start: dict[str, Any] = {} if self.init is None else {"init": self.init}
        if self.learn_omega_0 and (self.kernel != "sine" or self.omega_0 == "auto"):
            raise ValueError(
                "learn_omega_0 is for the sine kernel with an omega_0 to start from; the others learn theirs"
            )
        if self.kernel == "points":
            return partial(PointKernel, radius=self.radius, points=self.kernel_hidden, causal=self.causal)
        if self.kernel in ("relu", "leaky_relu", "swish"):  # they have no omega_0
            return partial(MLPKernel, activation=self.kernel, hidden=self.kernel_hidden, **start)
        if self.init is not None and self.kernel != "sine":
            raise ValueError(f"the {self.kernel} kernel has one way to start, leave init out (got {self.init!r})")
        if self.kernel == "magnet":
            place: dict[str, Any] = {"hidden": self.kernel_hidden, "sigma_0": self.sigma_0, "causal": self.causal}
            if self.omega_0 == "auto":
                return partial(MAGNet, horizon=self.horizon, **place)
            return partial(MAGNet, omega_0=self.omega_0, **place)
        if self.omega_0 == "auto":
            if self.kernel != "sine" or self.init is not None:
                raise ValueError(
                    "omega_0 auto is for the sine kernel without init, and for magnet, "
                    f"got kernel {self.kernel!r}, init {self.init!r}"
                )
            return partial(MultiscaleSiren, horizon=self.horizon, hidden=self.kernel_hidden)
        if self.kernel == "sine":
            start["learn_omega_0"] = self.learn_omega_0
            return partial(Siren, omega_0=self.omega_0, hidden=self.kernel_hidden, **start)
        return partial(FourierKernel, omega_0=self.omega_0, hidden=self.kernel_hidden)


def _depthwise(in_channels: int, out_channels: int, **options: Any) -> DepthwiseCKConv:
    if in_channels != out_channels:
        raise ValueError(
            f"a depthwise convolution keeps the channels, got {in_channels} and {out_channels}; use conv: separable"
        )
    return DepthwiseCKConv(in_channels, **options)


def convolutions(network: nn.Module) -> dict[str, CKConv | DepthwiseCKConv]:
    """The continuous-kernel convolutions of a network, in the order that a signal meets them, by their place."""
    kinds = CKConv | DepthwiseCKConv
    layers = [(name, module) for name, module in network.named_modules() if isinstance(module, kinds)]
    return {_place(name): layer for name, layer in layers}


def _place(name: str) -> str:
    """Such as ``block 1, convolution 2``, for the layers of the paper's blocks.

    Example:
        >>> _place("backbone.blocks.0.conv2")
        'block 1, convolution 2'
    """
    words = name.split(".")
    if "blocks" not in words[:-2]:
        return name
    block = int(words[words.index("blocks") + 1])
    return f"block {block + 1}, {words[-1].replace('conv', 'convolution ')}"
