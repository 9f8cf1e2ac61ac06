"""What a depthwise convolution costs beside its bare FFTs and the straightforward way; part of ``make bench``.

python -m benchmarks.separable

One forward and backward pass of a layer of continuous kernels under no window and under one window a channel, of its
convolution alone, and of ``irfft(rfft(x) * rfft(kernel))`` under autograd. The bare FFTs are the four that no way can
avoid: of the signal, of the result, and of both gradients. All take turns for several rounds on one thread, in
processor time; a ratio is the median over the rounds of the ratio within a round. Memory is the peak above the inputs,
in its own process.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from benchmarks.worker import peak_bytes
from ckcnn.nn import DepthwiseCKConv, MultiscaleSiren, keep_memory
from ckcnn.nn.depthwise_operator import depthwise_conv
from ckcnn.nn.plan import fft_length

SHAPES = {"sCIFAR10": (50, 64, 1024), "pMNIST": (64, 140, 784), "raw speech": (16, 140, 16_000)}
ROUNDS = 7

Pass = Callable[[], object]


def straightforward(x: Tensor, kernel: Tensor) -> Tensor:
    """The convolution as it is written down."""
    n = fft_length(x.shape[-1], kernel.shape[-1] - 1)
    return torch.fft.irfft(torch.fft.rfft(x, n) * torch.fft.rfft(kernel, n), n)[..., : x.shape[-1]]


def make_pass(name: str, shape: tuple[int, int, int]) -> Pass:
    """One forward and backward pass."""
    _, channels, length = shape
    torch.manual_seed(0)
    x, grad = torch.randn(shape, requires_grad=True), torch.randn(shape)
    if name == "bare FFTs":
        n = fft_length(length, length - 1)
        signal = x.detach()

        def bare() -> None:
            for _ in range(2):
                torch.fft.irfft(torch.fft.rfft(signal, n), n)

        return bare
    if name.startswith("layer"):
        window = "channel" if name == "layer, windows" else "none"
        net = partial(MultiscaleSiren, horizon=length)
        module = DepthwiseCKConv(channels, length, net, window=window, bias=False)  # type: ignore[arg-type]

        def layer() -> None:
            torch.autograd.grad(module(x), [x, *module.parameters()], grad)

        return layer
    kernel = torch.randn(channels, length, requires_grad=True)
    conv = straightforward if name == "straightforward" else depthwise_conv

    def step() -> None:
        torch.autograd.grad(conv(x, kernel), [x, kernel], grad)

    return step


NAMES = ("bare FFTs", "convolution", "layer", "layer, windows", "straightforward")


def seconds(shape: tuple[int, int, int]) -> dict[str, list[float]]:
    """Processor time of a pass in each round."""
    passes = {name: make_pass(name, shape) for name in NAMES}
    times: dict[str, list[float]] = {name: [] for name in NAMES}
    for number in range(ROUNDS + 1):
        for name, run in passes.items():
            start = time.process_time()
            run()
            if number:  # the first round warms up
                times[name].append(time.process_time() - start)
    return times


def peak(name: str, shape: str) -> float:
    """Megabytes above the inputs, in its own process."""
    command = [sys.executable, "-m", "benchmarks.separable", "--peak", name, "--shape", shape]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def own_peak(name: str, shape: str) -> float:
    """The same, of this process."""
    run = make_pass(name, SHAPES[shape])
    small = make_pass(name, (1, 1, 16))
    small()  # libraries are loaded
    before = peak_bytes()
    run()
    return (peak_bytes() - before) / 1e6


def main() -> None:
    """Print one table for each shape."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, help="only this shape")
    parser.add_argument("--peak", choices=NAMES, help="print the memory of this one alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.peak:
        print(own_peak(options.peak, options.shape))
        return
    keep_memory()
    print(f"torch {torch.__version__}, 1 thread, {platform.processor() or platform.machine()}")
    for name, shape in SHAPES.items():
        if options.shape in (None, name):
            print(f"\n{name}: {' x '.join(map(str, shape))}")
            print(f"{'':24}{'ms':>8}{'x bare':>8}{'peak MB':>9}")
            times = seconds(shape)
            for case, found in times.items():
                ratio = statistics.median(a / b for a, b in zip(found, times["bare FFTs"], strict=True))
                print(f"{case:24}{1e3 * statistics.median(found):8.1f}{ratio:8.2f}{peak(case, name):9.0f}")


if __name__ == "__main__":
    main()
