"""``python -m benchmarks.stamps``: a training step on stamps, against the regular grid, pairs and a neural CDE.

All cases of a length take turns in one process; a ratio of times is the median over rounds of the ratio within a round.
Memory is the peak of what tensors hold above what they held before the step. The neural CDE needs the development
extra `torchcde` and is left out without it.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import torch
from torch import Tensor, nn

from ckcnn.nn import CKConv, CKNet, keep_memory

LENGTHS = {182: 32, 500: 16, 1000: 8, 4000: 4}  # samples: sequences
CHANNELS, HIDDEN, CLASSES = 3, 30, 20
_PAIRS_UP_TO = 500  # samples, beyond which a step takes minutes

Step = Callable[[], None]


def make_steps(length: int, batch: int) -> dict[str, Step]:
    """One training step (forward and backward) of each case."""
    torch.manual_seed(0)
    x, y = torch.randn(batch, CHANNELS, length), torch.randint(CLASSES, (batch,))
    real = torch.arange(length) + 0.9 * torch.rand(batch, length, dtype=torch.float64)
    whole = torch.arange(length).repeat(batch, 1)
    whole[:, length // 2 :] += 1  # one sample is missing
    steps = {
        "regular": _step(_net(length), x, y, None),
        "whole-number stamps": _step(_net(length), x, y, whole),
        "real stamps": _step(_net(length), x, y, real),
    }
    if length <= _PAIRS_UP_TO:
        steps["real stamps, pairs"] = _step(_net(length, stamps="exact"), x, y, real)
    if find_spec("torchcde") is not None and length <= _PAIRS_UP_TO:
        steps["neural CDE"] = _cde_step(x, y, real.float())
    return steps


def _net(length: int, **options: str) -> CKNet:
    return CKNet(CHANNELS, HIDDEN, CLASSES, partial(CKConv, horizon=length, **options))  # type: ignore[arg-type]


def _step(net: nn.Module, x: Tensor, y: Tensor, times: Tensor | None) -> Step:
    def step() -> None:
        net.zero_grad()
        nn.functional.cross_entropy(net(x, times=times), y).backward()

    return step


def _cde_step(x: Tensor, y: Tensor, times: Tensor) -> Step:
    """A neural CDE on the same series; time is a channel of a spline through the samples."""
    import torchcde  # type: ignore[import-not-found]

    class Field(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(
                nn.Linear(HIDDEN, 64), nn.ReLU(), nn.Linear(64, HIDDEN * (CHANNELS + 1)), nn.Tanh()
            )

        def forward(self, t: Tensor, z: Tensor) -> Tensor:
            return self.layers(z).view(*z.shape[:-1], HIDDEN, CHANNELS + 1)

    field, first, head = Field(), nn.Linear(CHANNELS + 1, HIDDEN), nn.Linear(HIDDEN, CLASSES)
    series = torch.cat([times[..., None], x.mT], dim=-1)
    coefficients = torchcde.hermite_cubic_coefficients_with_backward_differences(series)

    def step() -> None:
        path = torchcde.CubicSpline(coefficients)
        start = first(path.evaluate(path.interval[0]))
        z = torchcde.cdeint(path, field, start, path.interval, adjoint=False, method="rk4", options={"step_size": 1.0})
        nn.functional.cross_entropy(head(z[:, -1]), y).backward()

    return step


def peak_bytes(step: Step) -> int:
    """The most that tensors held during a step above what they held before it."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    held = peak = 0
    for event in sorted(_memory_events(profiler), key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


def _memory_events(profiler: torch.profiler.profile) -> list[object]:
    events = profiler.profiler.kineto_results.events()  # type: ignore[union-attr]
    return [event for event in events if event.name() == "[memory]"]


def measure(length: int, batch: int, rounds: int) -> None:
    """Print the table of one length."""
    steps = make_steps(length, batch)
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(rounds + 1):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            if turn:  # the first is a warm-up
                seconds[name].append(time.perf_counter() - start)
    peaks = {name: peak_bytes(step) for name, step in steps.items()}
    print(f"\n{batch} x {CHANNELS} x {length}, {HIDDEN} channels")
    print(f"{'stamps':24}{'ms/step':>10}{'x regular':>10}{'peak MB':>10}{'x regular':>10}")
    for name, times in seconds.items():
        ratio = statistics.median(a / b for a, b in zip(times, seconds["regular"], strict=True))
        memory = peaks[name] / peaks["regular"]
        print(f"{name:24}{1e3 * statistics.median(times):10.1f}{ratio:10.2f}{peaks[name] / 1e6:10.1f}{memory:10.2f}")


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, choices=LENGTHS, help="only this many samples")
    parser.add_argument("--rounds", type=int, default=5, help="rounds in which all cases take turns")
    options = parser.parse_args()
    keep_memory()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    for length, batch in LENGTHS.items():
        if options.length in (None, length):
            measure(length, batch, options.rounds)
    if find_spec("torchcde") is None:
        print("\nno neural CDE: pip install torchcde")


if __name__ == "__main__":
    main()
