"""Size and time of exported networks beside torch, and from which length on transforms beat a plain convolution.

python -m benchmarks.export
python -m benchmarks.export --lags
python -m benchmarks.export --lags --depthwise

All times are those of the processor, on one thread: what other programs take meanwhile does not count. Calls that are
compared take turns.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import onnxruntime
import torch
from torch import nn

from ckcnn import CKCNN
from ckcnn.inference.constant_conv import BlockConv, DepthwiseBlockConv, DepthwiseConv, DirectConv, SampledKernel
from ckcnn.inference.export import export_network
from ckcnn.nn import CKConv, CKNet, keep_memory

# samples, hidden channels, batch, whether the network is the separable one, whether the length is fixed
CASES = [
    *((64, 30, 32, False, fixed) for fixed in (True, False)),
    *((784, 30, 8, separable, fixed) for separable in (False, True) for fixed in (True, False)),
    *((16000, 10, 1, separable, fixed) for separable in (False, True) for fixed in (True, False)),
]
LAGS = (16, 32, 64, 128, 256, 512, 1024)
ROUNDS = 9


def milliseconds(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The median time of each call; they take turns, so that a noisy machine disturbs all alike."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS + 1):
        for name, call in calls.items():
            start = time.thread_time()
            call()
            times[name].append(1e3 * (time.thread_time() - start))
    return {name: statistics.median(values[1:]) for name, values in times.items()}  # the first one warms up


def session(path: Path) -> onnxruntime.InferenceSession:
    """An exported graph on one thread, the one that is timed."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


@torch.no_grad()
def measure(length: int, hidden: int, batch: int, separable: bool, fixed: bool, folder: Path) -> str:
    """One row of the table."""
    if separable:  # as separable.yaml
        options: Any = {"block": "pre_norm_gated", "conv": "depthwise", "window": "channel", "norm": "batch"}
        net = CKCNN(1, 10, "classification", length, hidden_channels=hidden, omega_0="auto", **options).net.eval()
    else:
        net = CKNet(1, hidden, 10, partial(CKConv, horizon=length)).eval()
    x = torch.randn(batch, 1, length)
    for ending in ("onnx", "pt2"):
        export_network(net, folder / f"model.{ending}", "classification", length if fixed else None)
    graph, program = session(folder / "model.onnx"), torch.export.load(folder / "model.pt2").module()
    calls = {
        "torch": lambda: net(x),
        "onnx": lambda: graph.run(None, {"signal": x.numpy()}),
        "pt2": lambda: program(x),
    }
    took = milliseconds(calls)
    sizes = [(folder / f"model.{ending}").stat().st_size / 1e6 for ending in ("onnx", "pt2")]
    cells = [f"{length:,}", str(hidden), str(batch), "separable" if separable else "dense"]
    cells += ["fixed" if fixed else "any"]
    cells += [f"{size:.1f}" for size in sizes] + [f"{took[name]:.1f}" for name in calls]
    return f"| {' | '.join(cells)} |"


@torch.no_grad()
def compare(lags: int, depthwise: bool, folder: Path) -> str:
    """How long a layer of 30 channels takes as a plain convolution and by transforms, on batches of 1 and 16."""
    convs: dict[str, nn.Module]
    if depthwise:
        kernels = torch.randn(30, lags)
        convs = {"direct": DepthwiseConv(kernels, None, 0), "blocks": DepthwiseBlockConv(kernels, None, 0, lags)}
    else:
        kernel = SampledKernel(torch.randn(32, lags), torch.randn(30, 30, 32), None, 0)
        convs = {"direct": DirectConv(kernel), "blocks": BlockConv(kernel, lags)}
    cells = [f"{lags:,}"]
    for batch in (1, 16):
        x = torch.randn(batch, 30, lags)
        graphs = {}
        for name, conv in convs.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.onnx.export(conv, (x,), folder / f"{name}.onnx", dynamo=True, verbose=False, input_names=["x"])
            graphs[name] = session(folder / f"{name}.onnx")
        took = milliseconds({name: partial(graph.run, None, {"x": x.numpy()}) for name, graph in graphs.items()})
        cells += [f"{took['direct']:.2f}", f"{took['blocks']:.2f}", f"{took['direct'] / took['blocks']:.2f}"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print a table of docs/how_to/export.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lags", action="store_true", help="compare a plain convolution with transforms")
    parser.add_argument("--depthwise", action="store_true", help="with --lags: one kernel for each channel")
    keep_memory()
    torch.set_num_threads(1)
    options = parser.parse_args()
    if options.lags:
        print("| lags | plain, ms | transforms, ms | ratio | plain, batch 16 | transforms, batch 16 | ratio |")
        print("|---|---|---|---|---|---|---|")
        rows = [partial(compare, lags, options.depthwise) for lags in LAGS]
    else:
        columns = ["samples", "channels", "batch", "blocks", "length"]
        columns += ["MB, .onnx", "MB, .pt2", "ms, torch", "ms, onnxruntime", "ms, .pt2"]
        print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
        rows = [partial(measure, *case) for case in CASES]
    for row in rows:
        with tempfile.TemporaryDirectory() as folder:
            print(row(Path(folder)), flush=True)


if __name__ == "__main__":
    main()
