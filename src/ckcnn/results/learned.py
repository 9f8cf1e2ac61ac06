"""What a run has learned: the network of its best checkpoint, and the kernels that are worth looking at."""

# O out channels, I in channels, L lags

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ckcnn.models.networks import build_network, convolutions, network_options
from ckcnn.nn import CKConv, CKNet, CKTextNet
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


def network(run: RunFolder) -> CKNet | CKTextNet:
    """The network of the best checkpoint of a run, ready to be asked.

    Raises:
        ValueError: if there is no whole checkpoint, or its model has no continuous kernels.
    """
    path = run.checkpoint("best")
    content = checkpoints.load(path)
    convolution = _convolution(content["model_class"])
    if convolution is None:
        raise ValueError(f"{path} holds a {content['model_class']}, which has no continuous kernels")
    try:
        net = build_network(convolution, **network_options(content["hyper_parameters"]))
        state = content["state_dict"].items()
        net.load_state_dict({name.removeprefix("net."): value for name, value in state if name.startswith("net.")})
    except (KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise ValueError(f"{path} does not hold what its settings say: {error}") from None
    return net.eval()


def kernels(net: CKNet | CKTextNet, count: int = 3) -> dict[str, LearnedKernels]:
    """The learned kernels of each layer on the training grid, `count` of them in full, by the place of the layer."""
    return {place: _learned(layer, count) for place, layer in convolutions(net).items()}


@torch.no_grad()
def _learned(layer: CKConv, count: int) -> LearnedKernels:
    sampled = layer.kernel(layer.horizon)  # (O, I, L)
    flat = sampled.flatten(0, 1)
    order = flat.square().sum(1).argsort(descending=True)[:count].tolist()
    strongest = {f"{index % layer.in_channels} → {index // layer.in_channels}": flat[index] for index in order}
    start = 0 if layer.memory.causal else -(layer.horizon // 2)
    lags = torch.arange(start, start + layer.horizon)
    return LearnedKernels(lags, strongest, flat.square().mean(0).sqrt())


def _convolution(model: str) -> type[CKConv] | None:
    if model == "ReferenceCKCNN":
        from ckcnn.reference.convolution import ReferenceConv  # only for the authors' weights

        return ReferenceConv
    return CKConv if model == "CKCNN" else None
