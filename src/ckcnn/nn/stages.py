"""The streaming counterpart of every layer and network that is causal; the others are refused."""

# B streams, C channels, T new steps

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ckcnn.checks.memory import check_room
from ckcnn.nn.block import CKBlock, PointwiseConv
from ckcnn.nn.ckconv import CKConv
from ckcnn.nn.fftconv import FFTConv
from ckcnn.nn.knows_less import KnowsLess
from ckcnn.nn.network import CKBackbone, CKNet, CKTextNet
from ckcnn.nn.normalization import StepNorm
from ckcnn.nn.partitioned_conv import PartitionedConv, StatefulStage
from ckcnn.nn.positions import Memory
from ckcnn.nn.prenorm import ConvStem, PreNormBackbone, PreNormBlock
from ckcnn.nn.separable import DepthwiseCKConv, SeparableCKConv


def stage_of(module: nn.Module, batch: int, dt: float) -> nn.Module:
    """Return the module that processes new steps as `module` processes whole sequences.

    Args:
        module: the layer or network; its weights are copied.
        batch: number of streams that advance together.
        dt: sampling step in training samples.

    Raises:
        ValueError: if it looks ahead, or nothing is known about it.
    """
    for kind in type(module).__mro__:
        if kind in STAGES and type(module).forward is kind.forward:  # a subclass may compute something else
            return STAGES[kind](module, batch, dt)
        if kind in _LOOKING_AHEAD:
            raise ValueError(f"a stream needs a causal network, but {_LOOKING_AHEAD[kind]}")
    known = ", ".join(sorted(kind.__name__ for kind in STAGES))
    raise ValueError(f"there is no streaming counterpart of {type(module).__name__}; there is one of {known}")


def _conv(layer: CKConv, batch: int, dt: float) -> nn.Module:
    if not layer.memory.causal:
        raise ValueError(
            "a stream needs a causal network, but causal=False lets a convolution see later samples; "
            "train one with causal=True"
        )
    lags = _lags(layer.memory, dt, layer.in_channels * layer.out_channels)
    return PartitionedConv(layer.kernel(lags, dt), layer.bias, batch)


def _depthwise_conv(layer: DepthwiseCKConv, batch: int, dt: float) -> nn.Module:
    if not layer.memory.causal:
        raise ValueError(
            "a stream needs a causal network, but causal=False lets a convolution see later samples; "
            "train one with causal=True"
        )
    kernel, _ = layer.sampled_kernel(_lags(layer.memory, dt, layer.channels), dt)
    return PartitionedConv(kernel[:, None], layer.bias, batch, depthwise=True)


def _lags(memory: Memory, dt: float, kernels: int) -> int:
    """How many lags, `dt` apart, the memory holds at most."""
    lags = math.ceil(memory.past / dt) + 1
    check_room(f"a kernel of {lags:,} lags, dt={dt:g} apart,", 4 * kernels * lags, "give a larger dt")
    return lags


def _separable_conv(layer: SeparableCKConv, batch: int, dt: float) -> nn.Module:
    return nn.Sequential(stage_of(layer.depthwise, batch, dt), stage_of(layer.pointwise, batch, dt))


def _free_conv(layer: FFTConv, batch: int, dt: float) -> nn.Module:
    if layer.advance:
        raise ValueError(
            "a stream needs a causal network, but causal=False lets an FFTConv see later samples; "
            "train one with causal=True"
        )
    if dt != 1.0:
        raise ValueError(f"FFTConv knows one sampling rate only, leave dt at 1.0 (got {dt})")
    return PartitionedConv(layer.kernel, layer.bias, batch)


def _each_step(module: nn.Module, batch: int, dt: float) -> nn.Module:
    """A module that looks at one step at a time streams as it is."""
    return copy.deepcopy(module).eval().requires_grad_(False)


def _pointwise(module: nn.Conv1d, batch: int, dt: float) -> nn.Module:
    if module.kernel_size != (1,) or module.stride != (1,) or module.padding not in ((0,), "valid", "same"):
        raise ValueError(
            f"there is a streaming counterpart of Conv1d with kernel size 1 only, got {module}; "
            "use a CKConv or an FFTConv instead"
        )
    return _each_step(module, batch, dt)


def _batch_norm(module: nn.BatchNorm1d, batch: int, dt: float) -> nn.Module:
    if not module.track_running_stats:
        raise ValueError(
            "a stream needs a causal network, but BatchNorm1d with track_running_stats=False averages over all time "
            "steps; train with track_running_stats=True"
        )
    return _each_step(module, batch, dt)


def _chain(module: nn.Sequential, batch: int, dt: float) -> nn.Module:
    return nn.Sequential(*(stage_of(child, batch, dt) for child in module))


def _backbone(module: CKBackbone, batch: int, dt: float) -> nn.Module:
    return nn.Sequential(*(stage_of(block, batch, dt) for block in module.blocks))


def _pre_norm_backbone(module: PreNormBackbone, batch: int, dt: float) -> nn.Module:
    return nn.Sequential(*(stage_of(part, batch, dt) for part in (module.stem, *module.blocks, module.norm)))


def _stem(module: ConvStem, batch: int, dt: float) -> nn.Module:
    return nn.Sequential(*(stage_of(part, batch, dt) for part in (module.conv, module.norm, module.activation)))


def _gate(module: nn.GLU, batch: int, dt: float) -> nn.Module:
    if module.dim != 1:
        raise ValueError(f"there is a streaming counterpart of GLU over channels only, dim=1, got dim={module.dim}")
    return _each_step(module, batch, dt)


def _network(net: CKNet, batch: int, dt: float) -> nn.Module:
    stages = [stage_of(net.backbone, batch, dt)]
    if net.readout == "mean":
        stages.append(RunningMean(batch, net.head.in_features, net.head.weight))
    return nn.Sequential(*stages, ReadOut(net.head))


def _text_network(net: CKTextNet, batch: int, dt: float) -> nn.Module:
    return nn.Sequential(Embedding(net.embedding), stage_of(net.backbone, batch, dt), ReadOut(net.head))


def _of_its_network(net: KnowsLess, batch: int, dt: float) -> nn.Module:
    return stage_of(net.net, batch, dt if "dt" in net.takes else 1.0)


class BlockStage(nn.Module):
    """A `CKBlock`: two convolutions and a shortcut."""

    def __init__(self, block: CKBlock, batch: int, dt: float) -> None:
        super().__init__()
        self.conv1, self.norm1 = stage_of(block.conv1, batch, dt), stage_of(block.norm1, batch, dt)
        self.conv2, self.norm2 = stage_of(block.conv2, batch, dt), stage_of(block.norm2, batch, dt)
        self.shortcut = stage_of(block.shortcut, batch, dt)

    def forward(self, x: Tensor) -> Tensor:
        """Map the new steps ``(B, C_in, T) -> (B, C_out, T)``."""
        y = self.norm1(self.conv1(x)).relu_()
        y = self.norm2(self.conv2(y)).relu_()
        return (y + self.shortcut(x)).relu_()


class PreNormStage(nn.Module):
    """A `PreNormBlock`."""

    def __init__(self, block: PreNormBlock, batch: int, dt: float) -> None:
        super().__init__()
        parts = (block.norm, block.conv, block.activation, block.mix, block.gate)
        self.branch = nn.Sequential(*(stage_of(part, batch, dt) for part in parts))

    def forward(self, x: Tensor) -> Tensor:
        """Map the new steps ``(B, C, T) -> (B, C, T)``."""
        return x + self.branch(x)


class RunningMean(StatefulStage):
    """The mean over all steps so far, at each new step; summed in float64, since there may be millions of them."""

    total: Tensor  # (B, C)
    count: Tensor  # (B,)

    def __init__(self, batch: int, channels: int, like: Tensor) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(batch, channels, dtype=torch.float64, device=like.device))
        self.register_buffer("count", torch.zeros(batch, dtype=torch.float64, device=like.device))

    def forward(self, y: Tensor) -> Tensor:
        """Map the new steps ``(B, C, T) -> (B, C, T)``."""
        totals = self.total[..., None] + y.to(self.total.dtype).cumsum(-1)
        counts = self.count[:, None] + torch.arange(1, y.shape[-1] + 1, device=y.device)
        self.total.copy_(totals[..., -1])
        self.count.copy_(counts[:, -1])
        return (totals / counts[:, None]).to(y.dtype)

    def memory(self) -> dict[str, Tensor]:
        return {"total": self.total, "count": self.count}

    def remember(self, memory: Mapping[str, Tensor]) -> None:
        self.total.copy_(memory["total"])
        self.count.copy_(memory["count"])

    def forget(self, rows: list[int]) -> None:
        self.total[rows] = 0
        self.count[rows] = 0


class ReadOut(nn.Module):
    """A linear layer at every step."""

    def __init__(self, head: nn.Linear) -> None:
        super().__init__()
        self.head = _each_step(head, 1, 1.0)

    def forward(self, y: Tensor) -> Tensor:
        """Map the new steps ``(B, C, T) -> (B, out, T)``."""
        return self.head(y.mT).mT


class Embedding(nn.Module):
    """An embedding of tokens."""

    def __init__(self, embedding: nn.Embedding) -> None:
        super().__init__()
        self.embedding = _each_step(embedding, 1, 1.0)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map the new tokens ``(B, T) -> (B, C, T)``."""
        return self.embedding(tokens).mT


STAGES: dict[type[nn.Module], Callable[[Any, int, float], nn.Module]] = {
    CKConv: _conv,
    FFTConv: _free_conv,
    DepthwiseCKConv: _depthwise_conv,
    SeparableCKConv: _separable_conv,
    CKBlock: BlockStage,
    PreNormBlock: PreNormStage,
    ConvStem: _stem,
    CKBackbone: _backbone,
    PreNormBackbone: _pre_norm_backbone,
    CKNet: _network,
    CKTextNet: _text_network,
    KnowsLess: _of_its_network,
    nn.Sequential: _chain,
    nn.Conv1d: _pointwise,
    nn.BatchNorm1d: _batch_norm,
    nn.GLU: _gate,
    **dict.fromkeys((PointwiseConv, StepNorm, nn.Identity, nn.Dropout, nn.ReLU, nn.GELU, nn.SiLU), _each_step),
}
"""What makes the streaming counterpart of a kind of layer: a layer of your own can be added."""

_LOOKING_AHEAD: dict[type[nn.Module], str] = {
    nn.GroupNorm: 'norm="global" normalises over all time steps, also later ones; train one with norm="step" '
    "(--model.norm step)",
    nn.InstanceNorm1d: "InstanceNorm1d normalises over all time steps, also later ones; use StepNorm instead",
    nn.LayerNorm: "LayerNorm normalises over the last axis, which is time; use StepNorm instead",
}
