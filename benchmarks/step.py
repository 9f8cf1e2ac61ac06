"""``make bench``: time and memory of one training step, all models side by side in one run.

Every model lives in its own process, warm; they take turns for several rounds. The machine may be noisy, so a
ratio of times is the median over the rounds of the ratio within a round. Memory is the peak above the bare process.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import statistics
import subprocess
import sys
from dataclasses import dataclass

import torch

from benchmarks.cases import BOUND, LENGTHS, MODELS, SHAPES, Shape


@dataclass(frozen=True)
class Result:
    """Median seconds of a step in each round, and peak bytes above the bare process."""

    rounds: list[float]
    peak: int

    @property
    def seconds(self) -> float:
        """Median seconds of a step."""
        return statistics.median(self.rounds)

    def times(self, other: Result) -> float:
        """How many times as long as the other a step takes."""
        return statistics.median(a / b for a, b in zip(self.rounds, other.rounds, strict=True))


class Worker:
    """A process that runs steps of one model on request."""

    def __init__(self, model: str, shape: Shape) -> None:
        command = [sys.executable, "-m", "benchmarks.worker", model, shape.name]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.rounds: list[float] = []

    def ask(self, what: str) -> object:
        """The answer to one request."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"benchmark process ended with code {self.process.wait()}")
        return json.loads(line)

    def close(self) -> Result:
        """End the process."""
        peak = self.ask("peak")
        self.process.communicate()
        return Result(self.rounds, int(peak))  # type: ignore[call-overload]


def measure(cases: dict[str, tuple[str, Shape]]) -> dict[str, Result]:
    """Let models, each with its shape, take turns."""
    workers = {}
    for name, case in cases.items():
        workers[name] = Worker(*case)
        workers[name].ask("time")  # to the end of its warm-up, before the next one starts
    for _ in range(max(shape.rounds for _, shape in cases.values())):
        for worker in workers.values():
            worker.rounds.append(statistics.median(worker.ask("time")))  # type: ignore[arg-type]
    return {name: worker.close() for name, worker in workers.items()}


def print_shape(shape: Shape, results: dict[str, Result]) -> None:
    """One table for one shape."""
    ours, bound = results["ckcnn"], results[BOUND]
    print(f"\n{shape.name}: {shape.batch} x {shape.in_channels} x {shape.length}, {shape.hidden} channels")
    print(f"{'model':24}{'ms/step':>10}{'x ckcnn':>10}{'peak MB':>10}{'x ckcnn':>10}")
    for model, result in results.items():
        if model != BOUND:
            times, memory = result.times(ours), result.peak / ours.peak
            print(f"{model:24}{1e3 * result.seconds:10.1f}{times:10.2f}{result.peak / 1e6:10.0f}{memory:10.2f}")
    print(f"bare FFTs and products: {1e3 * bound.seconds:.1f} ms; ckcnn takes {ours.times(bound):.2f} times that")


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=[shape.name for shape in SHAPES], help="only this shape")
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS, help="only these models")
    options = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {platform.processor() or platform.machine()}")
    speedups = []
    for shape in SHAPES:
        if options.shape in (None, shape.name):
            results = measure({model: (model, shape) for model in (*options.models, BOUND)})
            print_shape(shape, results)
            if "textbook" in results:
                speedups.append(results["textbook"].times(results["ckcnn"]))
    if len(speedups) > 1:
        mean = math.exp(statistics.fmean(map(math.log, speedups)))
        print(f"\nfaster than the textbook: {', '.join(f'{s:.1f}' for s in speedups)}; geometric mean {mean:.1f}")
    if options.shape is None:
        print_growth(measure({shape.name: ("ckcnn", shape) for shape in LENGTHS}))


def print_growth(results: dict[str, Result]) -> None:
    """How time and memory grow with the length of the signal."""
    print(f"\n{'ckcnn, 8 x 1 x T':24}{'ms/step':>10}{'growth':>10}{'peak MB':>10}{'growth':>10}")
    before = None
    for name, result in results.items():
        time, memory = (result.times(before), result.peak / before.peak) if before else (1.0, 1.0)
        print(f"{name:24}{1e3 * result.seconds:10.1f}{time:10.2f}{result.peak / 1e6:10.0f}{memory:10.2f}")
        before = result


if __name__ == "__main__":
    main()
