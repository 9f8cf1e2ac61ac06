"""Streaming: the outputs of a causal network for each new step, without computing the old steps again."""

# B streams, C channels, T new steps, V vocabulary

from __future__ import annotations

import copy
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ckcnn.checks import check_counts
from ckcnn.nn.checks import check_dt
from ckcnn.nn.network import CKTextNet
from ckcnn.nn.partitioned_conv import BlockLags, DirectLags, StatefulStage
from ckcnn.nn.stages import stage_of


class NetworkStream:
    """A causal network, or one layer of it, that processes samples as they arrive.

    Outputs equal those of a call with all samples so far, up to rounding. What is remembered is bounded by the
    horizon of the layers, and most of the work for a sample is done in blocks, by FFT.

    Kernels are sampled once: a stream holds the weights that the network has when the stream is made.

    Example:
        >>> from functools import partial
        >>> from ckcnn.nn import CKConv, CKNet
        >>> conv = partial(CKConv, horizon=1000)
        >>> net = CKNet(in_channels=1, hidden_channels=4, out_channels=3, conv=conv, norm="step").eval()
        >>> stream = NetworkStream(net)
        >>> stream.push(torch.randn(1, 1, 64)).shape  # one output for each of 64 new samples
        torch.Size([1, 3, 64])
        >>> stream.push(torch.randn(1, 1, 1)).shape  # and for the next one
        torch.Size([1, 3, 1])

    Args:
        net: a `CKNet`, `CKTextNet`, `CKBackbone`, `CKBlock`, `CKConv` or `FFTConv`, or an `nn.Sequential` of such
            layers and of those that look at one step at a time; in evaluation mode.
        batch: number of streams that advance together.
        dt: sampling step in training samples, as in `CKConv.forward`. On a grid finer than that of training, kernels
            are smoothed over the whole memory, as in a call with a sequence that is at least as long as the memory.

    Raises:
        ValueError: if the network looks ahead; the message names the setting.
    """

    def __init__(self, net: nn.Module, batch: int = 1, dt: float = 1.0) -> None:
        check_counts(batch=batch)
        check_dt(dt)
        if net.training:
            raise ValueError("a stream needs a network in evaluation mode; call net.eval() first")
        self.batch, self.dt = batch, dt
        self._tokens = isinstance(net, CKTextNet)
        self._channels = getattr(net, "in_channels", None)
        self._dtype = next((parameter.dtype for parameter in net.parameters()), torch.float32)
        # In inference mode, buffers would be made that no later push may change.
        with torch.inference_mode(False), torch.no_grad():
            self.stage = stage_of(net, batch, dt)
            self.steps = torch.zeros(batch, dtype=torch.int64)

    @torch.no_grad()
    def push(self, samples: Tensor) -> Tensor:
        """Take new steps and return the output at each of them.

        The output at a step is that of a sequence that ends there. So a network with one output per sequence gives
        one for every step, too; with readout ``"mean"`` it is that of the mean over all steps so far.

        Args:
            samples: ``(B, C, T)`` with any T from 1 on, or tokens ``(B, T)`` of a `CKTextNet`.

        Returns:
            ``(B, out, T)``.

        Raises:
            ValueError: if the samples do not fit; the stream is then as it was.
        """
        self._check(samples)
        answers: Tensor = self.stage(samples)
        self.steps += samples.shape[-1]
        return answers

    def reset(self, rows: Sequence[int] | None = None) -> None:
        """Restart all streams, or those with the numbers `rows`.

        Raises:
            ValueError: if there is no such stream.
        """
        chosen = numbers_of(rows, self.batch)
        self.steps[chosen] = 0
        for stage in self._stages().values():
            stage.forget(chosen)

    def state_dict(self) -> dict[str, Tensor]:
        """Return what the streams remember, without the weights: samples that are still within the memory.

        It can be loaded on another device, and on another machine.
        """
        state = {"steps": self.steps.clone()}
        for place, stage in self._stages().items():
            state |= {f"{place}{name}": value.clone() for name, value in stage.memory().items()}
        return state

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a state of a stream of the same network with the same number of streams and the same `dt`.

        Raises:
            ValueError: if it is of another network; the stream is then unchanged.
        """
        check_state(self.state_dict(), state)
        self.steps.copy_(state["steps"])
        for place, stage in self._stages().items():
            stage.remember({name: state[f"{place}{name}"] for name in stage.memory()})

    def to(self, device: torch.device | str) -> NetworkStream:
        """Move weights and memory to a device, and return the stream."""
        self.stage.to(torch.device(device))
        return self

    def copy(self) -> NetworkStream:
        """Return an independent stream in the same state, which shares the kernels with this one."""
        kernels = [module for module in self.stage.modules() if isinstance(module, BlockLags | DirectLags)]
        shared = {id(tensor): tensor for module in kernels for tensor in module.buffers()}
        other = copy.copy(self)
        other.steps = self.steps.clone()
        other.stage = copy.deepcopy(self.stage, shared)
        return other

    def _stages(self) -> dict[str, StatefulStage]:
        stages = [(name, module) for name, module in self.stage.named_modules() if isinstance(module, StatefulStage)]
        return {f"{name}." if name else "": stage for name, stage in stages}

    @property
    def device(self) -> torch.device:
        """Where the samples are expected."""
        return next((tensor.device for tensor in self.stage.buffers()), torch.device("cpu"))

    def _check(self, samples: Tensor) -> None:
        """Refuse what would leave some layers with other steps than the rest."""
        if self._tokens:
            if samples.dim() != 2 or len(samples) != self.batch or samples.dtype not in (torch.int32, torch.int64):
                raise ValueError(
                    f"tokens must be whole numbers ({self.batch}, time), int64, "
                    f"got {samples.dtype} {tuple(samples.shape)}"
                )
        else:
            channels = samples.shape[1] if self._channels is None and samples.dim() == 3 else self._channels
            if samples.dim() != 3 or samples.shape[:2] != (self.batch, channels):
                raise ValueError(
                    f"samples must have shape (batch, channels, time), here ({self.batch}, {channels or 'channels'}, "
                    f"time), got {tuple(samples.shape)}"
                )
            if not samples.is_floating_point():
                raise ValueError(f"samples must be real floating-point numbers, got {samples.dtype}; use x.float()")
            if samples.dtype == torch.float64 and self._dtype != torch.float64:
                raise ValueError(f"samples are {samples.dtype} but the network is {self._dtype}; use x.float()")
        if samples.shape[-1] == 0:
            raise ValueError(f"samples must hold at least one new step, got shape {tuple(samples.shape)}")
        if samples.device != self.device:
            raise ValueError(
                f"samples must be on the device of the stream, {self.device}, got {samples.device}; "
                "move the stream with stream.to(device)"
            )


def numbers_of(rows: Sequence[int] | None, batch: int) -> list[int]:
    """Return the numbers of some streams, by default of all.

    Raises:
        ValueError: if there is no such stream.
    """
    if rows is None:
        return list(range(batch))
    try:
        chosen = [operator.index(row) for row in rows]
    except TypeError:
        raise ValueError(f"rows must be a list of numbers of streams, such as [0], got {rows!r}") from None
    if any(not 0 <= row < batch for row in chosen):
        raise ValueError(f"rows must lie in 0 ... {batch - 1}, the streams there are, got {chosen}")
    return chosen


def check_state(own: Mapping[str, Tensor], state: Any) -> None:
    """A state must have the names, types and shapes of one's own.

    Raises:
        ValueError: if it is of another network.
    """
    if not isinstance(state, Mapping) or not all(isinstance(value, Tensor) for value in state.values()):
        raise ValueError(f"the state must be what state_dict returned, tensors by name, got {type(state).__name__}")
    for name in sorted(own.keys() | state.keys()):
        here, there = (_form(values.get(name)) for values in (own, state))
        if here != there:
            raise ValueError(
                f"the state is from a different network, batch size or dt: {name} is {here} here and {there} there"
            )


def _form(value: Tensor | None) -> str:
    return "absent" if value is None else f"{value.dtype} {tuple(value.shape)}"
