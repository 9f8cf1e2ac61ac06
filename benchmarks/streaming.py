"""What a sample costs in a stream, and how long a push takes; also part of ``make bench``.

python -m benchmarks.streaming

The network has two blocks of 30 channels. Samples arrive in chunks; the alternative to a stream is to call the network
with all samples so far whenever a chunk arrives. Streams and such calls take turns for several rounds, and a ratio is
the median over the rounds of the ratio within a round. All times are those of the processor, on one thread: what other
programs take meanwhile does not count.
"""

from __future__ import annotations

import argparse
import platform
import resource
import statistics
import time
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from ckcnn.nn import CKConv, CKNet, NetworkStream, keep_memory

CHUNKS = (1, 64, 1024)


@dataclass(frozen=True)
class Case:
    """A stream that has become `length` samples long, and how many samples and rounds are timed then."""

    length: int
    horizon: int
    samples: int
    rounds: int


CASES = (Case(784, 784, 2048, 5), Case(16_000, 16_000, 16_384, 3), Case(1_000_000, 16_000, 16_384, 2))


@dataclass
class Times:
    """Seconds per sample in each round, seconds of each push, and the ratio to redoing everything."""

    per_sample: list[float] = field(default_factory=list)
    pushes: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)


def measure(case: Case) -> tuple[list[float], dict[int, Times]]:
    """Return the seconds of a call with all samples in each round, and the times of the stream for each chunk."""
    torch.manual_seed(0)
    conv = partial(CKConv, horizon=case.horizon)
    net = CKNet(1, 30, 10, conv, norm="step", readout="every_step").eval()
    x = torch.randn(1, 1, case.length)
    stream = NetworkStream(net)
    for piece in x.split(4096, dim=-1):
        stream.push(piece)
    calls: list[float] = []
    times = {chunk: Times() for chunk in CHUNKS}
    for _ in range(case.rounds):
        calls.append(_seconds(net, x))
        for chunk, result in times.items():
            pushes = [_push(stream, piece) for piece in torch.randn(1, 1, case.samples).split(chunk, dim=-1)]
            result.pushes += pushes
            result.per_sample.append(sum(pushes) / case.samples)
            result.ratios.append(calls[-1] / chunk / result.per_sample[-1])
    return calls, times


def _push(stream: NetworkStream, samples: Tensor) -> float:
    start = time.thread_time()
    stream.push(samples)
    return time.thread_time() - start


@torch.no_grad()
def _seconds(net: CKNet, x: Tensor) -> float:
    start = time.thread_time()
    net(x)
    return time.thread_time() - start


def main() -> None:
    """Print one table, in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", help="only streams of these lengths")
    options = parser.parse_args()
    keep_memory()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {platform.processor() or platform.machine()}")
    print(
        "\n| stream | horizon | chunk | µs a sample | median push, ms | slowest push, ms | call, ms | times cheaper |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for case in CASES:
        if options.lengths is None or case.length in options.lengths:
            calls, times = measure(case)
            for chunk, result in times.items():
                per_sample = 1e6 * statistics.median(result.per_sample)
                push, slowest = 1e3 * statistics.median(result.pushes), 1e3 * max(result.pushes)
                call, ratio = 1e3 * statistics.median(calls), statistics.median(result.ratios)
                print(
                    f"| {case.length:,} | {case.horizon:,} | {chunk:,} | {per_sample:.1f} | {push:.2f} | {slowest:.1f} "
                    f"| {call:,.0f} | {ratio:,.1f} |",
                    flush=True,
                )
    print(f"\nlargest memory of the process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")


if __name__ == "__main__":
    main()
