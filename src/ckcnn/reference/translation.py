"""From the names and shapes of the authors' files to those of a `ReferenceCKCNN`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

_CONVS = [f"backbone.{block}.cconv{layer}" for block in (0, 1) for layer in (1, 2)]


def recognise(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The arguments of `ReferenceCKCNN` that the authors' tensors imply.

    There are three kinds of files: with the training length, with the kernels as they were last sampled, with neither.

    Raises:
        ValueError: if a name, a shape or a type is not the authors'.
    """
    net = f"{_CONVS[0]}.Kernel.kernel_net"
    needed = (f"{_CONVS[0]}.bias", f"{net}.8.bias", f"{net}.0.bias", "finallyr.bias")
    if missing := [name for name in needed if name not in tensors or not tensors[name].numel()]:
        raise ValueError(f"expected weights named {missing[0]}, found none")
    hidden, kernels, kernel_hidden, out = (tensors[name].numel() for name in needed)
    facts: dict[str, Any] = {"in_channels": kernels // hidden, "hidden_channels": hidden, "out_channels": out}
    facts |= {"num_blocks": 2, "kernel": "sine", "kernel_hidden": kernel_hidden, "norm": "global", "readout": "last"}
    facts["task"] = "binary" if out == 1 else "classification"
    shapes = {name: shape for name, _, shape in _names(facts)}
    for name, shape in shapes.items():
        _check(tensors, name, shape, torch.float32)
    more = set(tensors) - set(shapes)
    return facts | {"horizon": _training_length(tensors, more, facts)} if more else facts


def _training_length(tensors: Mapping[str, Tensor], names: set[str], facts: Mapping[str, Any]) -> int:
    lengths, kernels = ([f"{conv}.{name}" for conv in _CONVS] for name in ("train_length", "conv_kernel"))
    if unknown := sorted(names - set(lengths) - set(kernels)):
        raise ValueError(f"expected no weights named {unknown[0]}")
    if names & set(lengths):
        for name in lengths:
            _check(tensors, name, (1,), torch.int32)
        found = {int(tensors[name]) for name in lengths}
    else:
        found = {(0, *tensors[name].shape)[-1] for name in kernels if name in tensors}
        for name, inputs in zip(kernels, [facts["in_channels"]] + 3 * [facts["hidden_channels"]], strict=True):
            _check(tensors, name, (facts["hidden_channels"], inputs, max(found)), torch.float32)
    if len(found) > 1 or min(found) < 2:
        raise ValueError(f"expected one training length in all layers, got {', '.join(map(str, sorted(found)))}")
    return found.pop()


def translate(tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> dict[str, Tensor]:
    """The state of a `ReferenceCKCNN` from recognised tensors; their 1x1 convolutions are linear layers here."""
    return {
        ours: (tensors[theirs].flatten(1) if ".Kernel." in theirs and tensors[theirs].dim() > 1 else tensors[theirs])
        for theirs, ours, _ in _names(facts)
    }


def _check(tensors: Mapping[str, Tensor], name: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    if name not in tensors:
        raise ValueError(f"expected weights named {name}, found none")
    came = (tuple(tensors[name].shape), tensors[name].dtype)
    if came != (shape, dtype):
        raise ValueError(f"expected {name} as {shape} {dtype}, got {came[0]} {came[1]}")


def _names(facts: Mapping[str, Any]) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """The authors' name of each tensor, ours, and its shape in their files."""
    hidden, inner = facts["hidden_channels"], facts["kernel_hidden"]
    for conv in _CONVS:
        ours = conv.replace("backbone.", "net.backbone.blocks.").replace("cconv", "conv")
        inputs = facts["in_channels"] if conv == _CONVS[0] else hidden
        layers = {"0.first": (inner, 1), "4.second": (inner, inner), "8.read_out": (hidden * inputs, inner)}
        yield f"{conv}.bias", f"{ours}.bias", (hidden,)
        for layer, shape in layers.items():
            theirs, linear = f"{conv}.Kernel.kernel_net.{layer[0]}", f"{ours}.kernel_net.{layer[2:]}"
            yield f"{theirs}.weight_g", f"{linear}.parametrizations.weight.original0", (shape[0], 1, 1)
            yield f"{theirs}.weight_v", f"{linear}.parametrizations.weight.original1", (*shape, 1)
            yield f"{theirs}.bias", f"{linear}.bias", (shape[0],)
        for part in ("weight", "bias"):
            norm = conv.replace("cconv", "norm")
            yield f"{norm}.layer_norm.{part}", f"{ours.replace('conv', 'norm')}.{part}", (hidden,)
    for part, tail in (("weight", (hidden, facts["in_channels"], 1)), ("bias", (hidden,))):
        if facts["in_channels"] != hidden:
            yield f"backbone.0.shortcut.0.{part}", f"net.backbone.blocks.0.shortcut.{part}", tail
    yield "finallyr.weight", "net.head.weight", (facts["out_channels"], hidden)
    yield "finallyr.bias", "net.head.bias", (facts["out_channels"],)
