"""The paper's networks from plain options, as presets and checkpoints hold them; needs no training code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Literal, get_args

from torch import nn

from ckcnn.nn import CKConv, CKNet, CKTextNet, FourierKernel, KernelFactory, MLPKernel, MultiscaleSiren, Siren
from ckcnn.nn.checks import check_choice
from ckcnn.nn.normalization import Norm
from ckcnn.tasks import TASKS

Kernel = Literal["sine", "relu", "leaky_relu", "swish", "fourier"]
Omega0 = float | Literal["auto"]
Readout = Literal["last", "mean"]


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

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> NetworkOptions:
        """Pick them out of the settings of a model, such as the hyperparameters in a checkpoint."""
        return cls(**{field.name: settings[field.name] for field in fields(cls)})

    def build(self, convolution: type[CKConv] = CKConv) -> CKNet | CKTextNet:
        """Make the network."""
        task = TASKS[self.task]
        conv = partial(
            convolution,
            horizon=self.horizon,
            kernel=self.kernel_factory(),
            weight_dropout=self.weight_dropout,
        )
        if task.from_tokens:
            return CKTextNet(
                vocabulary=self.out_channels,
                embedding_channels=self.embedding_channels,
                hidden_channels=self.hidden_channels,
                conv=conv,
                num_blocks=self.num_blocks,
                norm=self.norm or "step",
                dropout=self.dropout,
                embedding_dropout=self.embedding_dropout,
            )
        return CKNet(
            in_channels=self.in_channels,
            hidden_channels=self.hidden_channels,
            out_channels=self.out_channels,
            conv=conv,
            num_blocks=self.num_blocks,
            norm=self.norm or "global",
            readout="every_step" if task.every_step else self.readout,
            dropout=self.dropout,
            input_dropout=self.input_dropout,
        )

    def kernel_factory(self) -> KernelFactory:
        """Return what makes the kernel nets."""
        check_choice("kernel", self.kernel, get_args(Kernel))
        start: dict[str, Any] = {} if self.init is None else {"init": self.init}
        if self.kernel not in ("sine", "fourier"):  # the others have no omega_0
            return partial(MLPKernel, activation=self.kernel, hidden=self.kernel_hidden, **start)
        if self.omega_0 == "auto":
            if self.kernel != "sine" or self.init is not None:
                raise ValueError(
                    f"omega_0 auto is for the sine kernel without init, got kernel {self.kernel!r}, init {self.init!r}"
                )
            return partial(MultiscaleSiren, horizon=self.horizon, hidden=self.kernel_hidden)
        if self.kernel == "sine":
            return partial(Siren, omega_0=self.omega_0, hidden=self.kernel_hidden, **start)
        if self.init is not None:
            raise ValueError(f"the fourier kernel has one way to start, leave init out (got {self.init!r})")
        return partial(FourierKernel, omega_0=self.omega_0, hidden=self.kernel_hidden)


def convolutions(network: nn.Module) -> dict[str, CKConv]:
    """The continuous-kernel convolutions of a network, in the order that a signal meets them, by their place."""
    layers = [(name, module) for name, module in network.named_modules() if isinstance(module, CKConv)]
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
