"""Size and time of exported networks beside torch: ``python -m benchmarks.export``."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import onnxruntime
import torch

from ckcnn.inference.export import export_network
from ckcnn.nn import CKConv, CKNet

# samples, hidden channels, batch, whether the length is fixed
CASES = ((64, 30, 32, True), (64, 30, 32, False), (784, 30, 8, True), (784, 30, 8, False), (16000, 10, 1, True))
ROUNDS = 7


def milliseconds(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The median time of each call; they take turns, so that a noisy machine disturbs all alike."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(values[1:]) for name, values in times.items()}  # the first one warms up


@torch.no_grad()
def measure(length: int, hidden: int, batch: int, fixed: bool, folder: Path) -> str:
    """One row of the table."""
    net = CKNet(1, hidden, 10, partial(CKConv, horizon=length)).eval()
    x = torch.randn(batch, 1, length)
    for ending in ("onnx", "pt2"):
        export_network(net, folder / f"model.{ending}", "classification", length if fixed else None)
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    program = torch.export.load(folder / "model.pt2").module()
    calls = {
        "torch": lambda: net(x),
        "onnx": lambda: session.run(None, {"signal": x.numpy()}),
        "pt2": lambda: program(x),
    }
    took = milliseconds(calls)
    sizes = [(folder / f"model.{ending}").stat().st_size / 1e6 for ending in ("onnx", "pt2")]
    cells = [f"{length:,}", str(hidden), str(batch), "fixed" if fixed else "any"]
    cells += [f"{size:.1f}" for size in sizes] + [f"{took[name]:.1f}" for name in calls]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Prints the table of docs/export.md."""
    print("| samples | channels | batch | length | MB, .onnx | MB, .pt2 | ms, torch | ms, onnxruntime | ms, .pt2 |")
    print("|---|---|---|---|---|---|---|---|---|")
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            print(measure(*case, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
