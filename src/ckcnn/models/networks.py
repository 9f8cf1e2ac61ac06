"""The paper's networks from plain options, as presets and checkpoints hold them; needs no training code."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, get_args

from torch import nn

from ckcnn.nn import CKConv, CKNet, CKTextNet, FourierKernel, KernelFactory, MLPKernel, MultiscaleSiren, Siren
from ckcnn.nn.checks import check_choice

Kernel = Literal["sine", "relu", "leaky_relu", "swish", "fourier"]
Omega0 = float | Literal["auto"]
Norm = Literal["global", "step"]
Readout = Literal["last", "mean"]


def build_network(
    convolution: type[CKConv],
    in_channels: int,
    out_channels: int,
    task: str,
    horizon: int,
    hidden_channels: int,
    num_blocks: int,
    omega_0: Omega0,
    kernel: Kernel,
    kernel_hidden: int,
    init: str | None,
    norm: Norm | None,
    readout: Readout,
    dropout: float,
    input_dropout: float,
    weight_dropout: float,
    embedding_channels: int,
    embedding_dropout: float,
) -> CKNet | CKTextNet:
    """The network of a `ckcnn.CKCNN`, whose documentation explains the options."""
    factory = kernel_factory(kernel, omega_0, kernel_hidden, init, horizon)
    conv = partial(convolution, horizon=horizon, kernel=factory, weight_dropout=weight_dropout)
    if task == "language":
        return CKTextNet(
            *(out_channels, embedding_channels, hidden_channels, conv, num_blocks),
            *(norm or "step", dropout, embedding_dropout),
        )
    steps: Any = "every_step" if task == "every_step" else readout
    return CKNet(
        *(in_channels, hidden_channels, out_channels, conv, num_blocks),
        *(norm or "global", steps, dropout, input_dropout),
    )


def network_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the options of a model that make its network; the others are about training."""
    return {name: options[name] for name in list(inspect.signature(build_network).parameters)[1:]}


def kernel_factory(kernel: Kernel, omega_0: Omega0, hidden: int, init: str | None, horizon: int) -> KernelFactory:
    """What makes the kernel nets, from plain options."""
    check_choice("kernel", kernel, get_args(Kernel))
    start: dict[str, Any] = {} if init is None else {"init": init}
    if kernel not in ("sine", "fourier"):  # the others have no omega_0
        return partial(MLPKernel, activation=kernel, hidden=hidden, **start)
    if omega_0 == "auto":
        if kernel != "sine" or init is not None:
            raise ValueError(f"omega_0 auto is for the sine kernel without init, got kernel {kernel!r}, init {init!r}")
        return partial(MultiscaleSiren, horizon=horizon, hidden=hidden)
    if kernel == "sine":
        return partial(Siren, omega_0=omega_0, hidden=hidden, **start)
    if init is not None:
        raise ValueError(f"the fourier kernel has one way to start, leave init out (got {init!r})")
    return partial(FourierKernel, omega_0=omega_0, hidden=hidden)


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
