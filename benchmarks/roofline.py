"""Compute, not measure, what a training step costs on GPUs: ``python -m benchmarks.roofline --config speech_raw.yaml``.

The operators of a step are counted on the meta device, with the schedule of an accelerator. Each takes at least the
time of its bytes and of its arithmetic (roofline), and at least a launch. Without ``--config``, all shapes of the paper
and a signal of a million samples are printed as the tables of `docs/explanation/scaling.md`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from unittest import mock

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from benchmarks.cases import NUM_BLOCKS, SHAPES, Shape
from benchmarks.operators import OperatorCounter
from ckcnn.nn import CKConv, CKNet, CKTextNet, depthwise, plan
from ckcnn.nn.schedule import ACCELERATOR

_LAUNCH = 5e-6  # seconds from one launch to the next
_ADAM_BYTES = 28  # a float32 parameter: reads it, its gradient and two moments; writes all but the gradient
_HOP = 10e-6  # seconds of latency of each of the 2 (N - 1) messages of a ring
_NETWORK = 12.5e9  # bytes a second of a 100 Gb/s link, one a node
_GPUS_PER_NODE = 8
PRECISIONS = {"32-true": None, "bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}  # Lightning's names

OTHER_PRESETS = ("copy_memory", "adding", "scifar10", "speech_mfcc", "physionet", "ptb")  # beside those of `SHAPES`

MakeInput = Callable[[str], Tensor]  # from the name of a device


@dataclass(frozen=True)
class Gpu:
    """Data-sheet numbers: memory bandwidth in bytes/s, float32 operations/s without tensor cores, NVLink one way."""

    name: str
    bandwidth: float
    flops: float
    nvlink: float


GPUS = (
    Gpu("A100 SXM 80 GB", 2.039e12, 19.5e12, 300e9),
    Gpu("H100 SXM 80 GB", 3.35e12, 67e12, 450e9),
)


@dataclass(frozen=True)
class Cost:
    """The counted step of one model: operators, their bytes and arithmetic, peak memory, and its parameters."""

    counter: OperatorCounter
    parameters: int

    @property
    def gradient_bytes(self) -> int:
        """What data-parallel training reduces in every step."""
        return 4 * self.parameters

    @property
    def peak(self) -> int:
        """Bytes of all tensors at the worst moment, with gradients and the two moments of Adam."""
        assert self.counter.memory is not None
        return self.counter.memory.peak + 2 * self.gradient_bytes

    def roofline(self, gpu: Gpu) -> float:
        """Return the seconds of a step whose launches cost nothing."""
        times = [max(op.bytes / gpu.bandwidth, op.flops / gpu.flops) for op in self.counter.list]
        return sum(times) + _ADAM_BYTES * self.parameters / gpu.bandwidth

    def seconds(self, gpu: Gpu) -> float:
        """Return the seconds of a step in which each operator takes at least a launch."""
        times = [max(op.bytes / gpu.bandwidth, op.flops / gpu.flops, _LAUNCH) for op in self.counter.list]
        return sum(times) + max(_LAUNCH, _ADAM_BYTES * self.parameters / gpu.bandwidth)


def count(net: nn.Module, make_input: MakeInput, precision: str = "32-true") -> Cost:
    """Count the forward and backward pass of a network without values, under autocast if the precision is mixed."""
    parameters = sum(parameter.numel() for parameter in net.parameters())
    dtype = PRECISIONS[precision]
    with _valueless(dtype) as device:
        net = net.to_empty(device=device)
        with OperatorCounter(memory=True) as counter:
            assert counter.memory is not None
            counter.memory.see(list(net.parameters()))
            with nullcontext() if dtype is None else torch.autocast(device, dtype):
                y = net(make_input(device))
            y.backward(torch.empty_like(y))
    return Cost(counter, parameters)


@contextmanager
def _valueless(dtype: torch.dtype | None) -> Iterator[str]:
    """Give a device for tensors without values: autocast does not know meta, so it gets a CPU that plans like a GPU."""
    if dtype is None:
        yield "meta"
        return
    with ExitStack() as stack:
        for module in (plan, depthwise):
            stack.enter_context(mock.patch.object(module, "schedule_for", return_value=ACCELERATOR))
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        yield "cpu"


def all_reduce(size: float, devices: int, gpu: Gpu) -> float:
    """Return the seconds of a ring all-reduce: over NVLink within a node, over one 100 Gb/s link a node beyond it."""
    if devices == 1:
        return 0.0
    bandwidth = gpu.nvlink if devices <= _GPUS_PER_NODE else _NETWORK
    return 2 * (devices - 1) / devices * size / bandwidth + 2 * (devices - 1) * _HOP


def efficiency(cost: Cost, gpu: Gpu, devices: int) -> float:
    """Return how much of the devices' speed is left if no communication overlaps with the backward pass."""
    seconds = cost.seconds(gpu)
    return seconds / (seconds + all_reduce(cost.gradient_bytes, devices, gpu))


def model_of(*presets: str) -> tuple[nn.Module, MakeInput]:
    """Build the network of a preset with its overlays, and what makes a batch of its training data on a device."""
    from ckcnn.cli.rehearsal import WeightlessRehearsal

    rehearsal = WeightlessRehearsal("fit", [f"--config={preset}" for preset in presets])
    net, data = rehearsal.model.net, rehearsal.datamodule
    batch, length = data.batch_size, data.horizon
    if isinstance(net, CKTextNet):
        return net, lambda device: torch.zeros(batch, length, dtype=torch.int64, device=device)
    return net, lambda device: torch.empty(batch, data.in_channels, length, device=device)


def network_of(shape: Shape) -> tuple[nn.Module, MakeInput]:
    """Build the network of one of the paper's shapes."""
    conv = partial(CKConv, horizon=shape.length)
    net = CKNet(shape.in_channels, shape.hidden, shape.classes, conv, NUM_BLOCKS)
    return net, lambda device: torch.empty(shape.batch, shape.in_channels, shape.length, device=device)


def print_one(name: str, cost: Cost, devices: int) -> None:
    """Print all numbers of one model."""
    counter = cost.counter
    print(f"{name}, computed on the meta device, not measured")
    print(f"  {counter.launches} operators, {counter.bytes / 1e9:.2f} GB moved, {counter.flops / 1e9:.1f} GFLOP")
    print(f"  {cost.peak / 1e6:,.0f} MB at the peak, {cost.parameters:,} parameters")
    for gpu in GPUS:
        reduction = all_reduce(cost.gradient_bytes, devices, gpu)
        print(
            f"  {gpu.name}: {1e3 * cost.roofline(gpu):.2f} ms by bandwidth and arithmetic, "
            f"{1e3 * cost.seconds(gpu):.2f} ms with launches; all-reduce over {devices} devices "
            f"{1e3 * reduction:.2f} ms, efficiency {100 * efficiency(cost, gpu, devices):.0f} %"
        )


def print_tables(costs: dict[str, Cost]) -> None:
    """Print the tables of `docs/explanation/scaling.md`."""
    print("| shape | operators | GB moved | GFLOP | peak MB | parameters | gradients MB |")
    print("|---|---|---|---|---|---|---|")
    for name, cost in costs.items():
        counter, peak = cost.counter, cost.peak / 1e6
        moved, work = counter.bytes / 1e9, counter.flops / 1e9
        sizes = f"{cost.parameters:,} | {cost.gradient_bytes / 1e6:.1f}"
        print(f"| {name} | {counter.launches} | {moved:.2f} | {work:.1f} | {peak:,.0f} | {sizes} |")
    for gpu in GPUS:
        print(f"\n| {gpu.name} | roofline ms | with launches ms | all-reduce 8, ms | efficiency 8 |", end="")
        print(" all-reduce 64, ms | efficiency 64 |\n|---|---|---|---|---|---|---|")
        for name, cost in costs.items():
            times = f"{1e3 * cost.roofline(gpu):.2f} | {1e3 * cost.seconds(gpu):.2f}"
            for devices in (8, 64):
                reduction = 1e3 * all_reduce(cost.gradient_bytes, devices, gpu)
                times += f" | {reduction:.2f} | {100 * efficiency(cost, gpu, devices):.0f} %"
            print(f"| {name} | {times} |")


def main() -> None:
    """Print one preset, or the tables of all shapes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", action="append", help="a preset, such as speech_raw.yaml; more are overlays on it")
    parser.add_argument("--precision", choices=PRECISIONS, default="32-true", help="as in --trainer.precision")
    parser.add_argument("--devices", type=int, default=8, help="GPUs that share the batch's gradients")
    options = parser.parse_args()
    if options.devices < 1:
        parser.error(f"--devices must be at least 1, got {options.devices}")
    if options.config:
        cost = count(*model_of(*options.config), options.precision)
        print_one(" ".join(options.config), cost, options.devices)
        return
    print_tables({name: count(net, make_input, options.precision) for name, net, make_input in paper()})


def paper() -> Iterator[tuple[str, nn.Module, MakeInput]]:
    """Yield all networks of the paper, and one for a million samples, each with a name."""
    for shape in SHAPES:
        yield _named(shape.name, *network_of(shape))
    for preset in OTHER_PRESETS:
        yield _named(preset, *model_of(f"{preset}.yaml"))
    yield _named("1M samples", *network_of(Shape("", 8, 1, 1 << 20, 30, 10, rounds=1, steps=1)))


def _named(name: str, net: nn.Module, make_input: MakeInput) -> tuple[str, nn.Module, MakeInput]:
    return f"{name}: " + " x ".join(f"{size:,}" for size in make_input("meta").shape), net, make_input


if __name__ == "__main__":
    main()
