"""The network of a run's best checkpoint, and its learned kernels."""

# O out channels, I in channels, L lags

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ckcnn.models.networks import NetworkOptions, convolutions
from ckcnn.nn import CKConv, CKNet, CKTextNet, DepthwiseCKConv
from ckcnn.nn.forecast import FromLastValue
from ckcnn.runs import checkpoints
from ckcnn.runs.folder import RunFolder


@dataclass(frozen=True)
class LearnedKernels:
    """The kernels of one layer.

    Attributes:
        lags: ``(L,)``, in training samples.
        strongest: the kernels with the largest norms, ``(L,)`` each, by the channels that they connect.
        spread: the root of the mean square of all ``O I`` kernels at each lag ``(L,)``: how much the layer looks at it.
    """

    lags: Tensor
    strongest: dict[str, Tensor]
    spread: Tensor


class NoContinuousKernelsError(ValueError):
    """A checkpoint of a model that has no continuous kernels, such as a GRU."""


def network(run: RunFolder) -> CKNet | CKTextNet | FromLastValue:
    """Return the network of the best checkpoint of a run, ready to be evaluated.

    It is built from the options in the checkpoint alone, so it works for subclasses of `ckcnn.CKCNN`, too.

    Raises:
        ValueError: if there is no whole checkpoint, or its model has no continuous kernels.
    """
    path = run.checkpoint("best")
    return network_of(checkpoints.load(path), path)


def network_of(content: Mapping[str, Any], path: Path) -> CKNet | CKTextNet | FromLastValue:
    """Return the network of a checkpoint that was read from `path`; see `network`."""
    settings = content.get("network") or content.get("hyper_parameters")  # the latter: of an earlier version
    if not isinstance(settings, Mapping):
        raise ValueError(f"{path} does not hold what its settings say: it has no settings")
    if "kernel" not in settings:
        raise NoContinuousKernelsError(f"{path} holds a {content['model_class']}, which has no continuous kernels")
    default = "ReferenceConv" if "imported_from" in content else "CKConv"
    convolution = _convolution(settings.get("convolution", default), path)
    try:
        net = NetworkOptions.of(settings).build(convolution)
        state = content["state_dict"].items()
        net.load_state_dict({name.removeprefix("net."): value for name, value in state if name.startswith("net.")})
    except (KeyError, TypeError, AttributeError, RuntimeError):
        raise ValueError(
            f"{path} does not hold what its settings say: its weights belong to a different network"
        ) from None
    return net.eval()


def kernels(net: nn.Module, count: int = 3) -> dict[str, LearnedKernels]:
    """The learned kernels of each layer on the training grid, `count` of them in full, by the place of the layer."""
    return {place: _learned(layer, count) for place, layer in convolutions(net).items()}


@torch.no_grad()
def _learned(layer: CKConv | DepthwiseCKConv, count: int) -> LearnedKernels:
    sampled = layer.kernel(layer.horizon)  # (O, I, L), or (C, L)
    inputs = 1 if isinstance(layer, DepthwiseCKConv) else layer.in_channels
    flat = sampled.flatten(0, -2)
    order = flat.square().sum(1).argsort(descending=True)[:count].tolist()
    strongest = {
        f"{index % inputs} → {index // inputs}" if inputs > 1 else f"channel {index}": flat[index] for index in order
    }
    start = 0 if layer.memory.causal else -(layer.horizon // 2)
    lags = torch.arange(start, start + layer.horizon)
    return LearnedKernels(lags, strongest, flat.square().mean(0).sqrt())


def _convolution(name: str, path: Path) -> type[CKConv]:
    from ckcnn.reference.convolution import ReferenceConv  # only for the authors' weights

    known = {kind.__name__: kind for kind in (CKConv, ReferenceConv)}
    if name not in known:
        raise ValueError(f"{path} has layers of the class {name}, which only its own code can build")
    return known[name]
