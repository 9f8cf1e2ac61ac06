"""Exported graphs answer as the network does, in runtimes that know nothing of ckcnn."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import ckcnn
from ckcnn import CKCNN
from ckcnn.__main__ import main
from ckcnn.datamodules.preprocessing import Preprocessing
from ckcnn.inference.constant_conv import BlockConv, DepthwiseBlockConv, DepthwiseConv, DirectConv, SampledKernel
from ckcnn.inference.export import Graph, export_model, export_network
from ckcnn.nn import CKConv, CKNet, CKTextNet, DepthwiseCKConv
from ckcnn.reference.convolution import ReferenceConv
from tests.datamodules import cases
from tests.inference.test_model import artefact, raw

TOLERANCE = 1e-4


def session(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run(path: Path, x: Tensor) -> list[Any]:
    loaded = session(path)
    return loaded.run(None, {loaded.get_inputs()[0].name: x.numpy()})


def make(horizon: int, hidden: int = 6, norm: Any = "global", readout: Any = "last", **options: Any) -> CKNet:
    net = CKNet(2, hidden, 4, partial(CKConv, horizon=horizon, **options), norm=norm, readout=readout)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if name.endswith("bias") or name.startswith("head"):
                parameter.normal_()
    return net.eval()


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("horizon", "length"), [(8, 5), (64, 17), (64, 64), (64, 200), (101, 333), (16000, 16000)])
@torch.no_grad()
def test_constant_convolutions_are_the_layer(horizon: int, length: int, causal: bool) -> None:
    layer = CKConv(3, 4, horizon, causal=causal)
    assert layer.bias is not None
    layer.bias.normal_()
    x = torch.randn(2, 3, length)
    kernel = SampledKernel(*layer.sampled_parts(horizon, 1.0)[:2], layer.bias, layer.sampled_parts(horizon, 1.0)[2])
    convs: list[nn.Module] = [BlockConv(kernel), BlockConv(kernel, length)]
    for conv in convs + ([DirectConv(kernel)] if horizon < 1000 else []):
        assert (conv(x) - layer(x)).abs().max() < 2e-6 * layer(x).abs().max() + 1e-6


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("horizon", "length"), [(8, 5), (101, 333), (300, 300), (16000, 16000)])
@torch.no_grad()
def test_constant_depthwise_convolutions_are_the_layer(horizon: int, length: int, causal: bool) -> None:
    layer = DepthwiseCKConv(3, horizon, window="channel", causal=causal)
    assert layer.bias is not None
    layer.bias.normal_()
    x = torch.randn(2, 3, length)
    kernel, ahead = layer.sampled_kernel(horizon, 1.0)
    convs: list[nn.Module] = [DepthwiseBlockConv(kernel, layer.bias, ahead, fixed) for fixed in (None, length)]
    for conv in convs + ([DepthwiseConv(kernel, layer.bias, ahead)] if horizon < 1000 else []):
        assert (conv(x) - layer(x)).abs().max() < 2e-6 * layer(x).abs().max() + 1e-6


def family(horizon: int, **options: Any) -> nn.Module:
    """A network as a configuration describes it, with the statistics that its norms have after training."""
    net = CKCNN(2, 4, "classification", horizon, hidden_channels=6, num_blocks=1, **options).net
    for module in net.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.momentum = 1.0
    torch.nn.init.normal_(net.head.weight)
    net(torch.randn(2, 2, horizon))
    return net.eval()


SEPARABLE: Any = {
    "omega_0": "auto",
    "block": "pre_norm_gated",
    "conv": "depthwise",
    "window": "channel",
    "norm": "batch",
    "readout": "mean",
}
CCNN: Any = {
    "omega_0": "auto",
    "block": "pre_norm",
    "conv": "separable",
    "stem": "conv",
    "kernel": "magnet",
    "window": "layer",
    "norm": "batch",
}

# Networks, the length of their signals or None for any, and lengths to try.
CASES: dict[str, tuple[Any, int | None, tuple[int, ...]]] = {
    "64": (lambda: make(64, 30), 64, (64,)),
    "300, centred, step, mean": (lambda: make(300, 4, "step", "mean", causal=False), 300, (300,)),
    "16000": (lambda: make(16000, 3), 16000, (16000,)),
    "16000, any": (lambda: make(16000, 3), None, (5, 16000, 20000)),
    "separable, 16000, any": (lambda: family(16000, **SEPARABLE), None, (5, 16000)),
    "separable, points, 784": (lambda: family(784, **SEPARABLE, kernel="points"), 784, (784,)),
    "ccnn, magnet, 64, any": (lambda: family(64, **CCNN), None, (3, 64, 200)),
}
SLOW = ("16000", "separable, points, 784")


@pytest.mark.parametrize("case", [pytest.param(c, marks=pytest.mark.slow) if c in SLOW else c for c in CASES])
@torch.no_grad()
def test_onnx_of_networks(case: str, tmp_path: Path) -> None:
    build, fixed, lengths = CASES[case]
    net, path = build(), tmp_path / "model.onnx"
    assert export_network(net, path, "classification", fixed).length == fixed
    for batch, length in enumerate(lengths, start=1):
        x = torch.randn(batch, 2, length)
        scores, probabilities = run(path, x)
        assert net(x).std() > 0.01
        assert np.abs(scores - net(x).numpy()).max() < TOLERANCE
        assert np.abs(probabilities - net(x).softmax(1).numpy()).max() < TOLERANCE


@pytest.mark.parametrize(
    ("horizon", "length", "dt", "task"), [(200, 100, 2.0, "every_step"), (100, 200, 0.5, "classification")]
)
@torch.no_grad()
def test_graphs_of_other_rates(horizon: int, length: int, dt: float, task: str) -> None:
    net = make(horizon, readout="every_step" if task == "every_step" else "last")
    x = torch.randn(3, 2, length)
    scores, _ = Graph(net, task, length, dt, None)(x)
    assert (scores - net(x, dt)).abs().max() < TOLERANCE


@torch.no_grad()
def test_onnx_of_tokens(tmp_path: Path) -> None:
    net = CKTextNet(11, 8, 6, partial(CKConv, horizon=50)).eval()
    assert export_network(net, tmp_path / "model.onnx", "language").length is None
    tokens = torch.randint(0, 11, (4, 60))
    assert np.abs(run(tmp_path / "model.onnx", tokens)[0] - net(tokens).numpy()).max() < TOLERANCE


@pytest.mark.parametrize("name", ["GRU", pytest.param("LSTM", marks=pytest.mark.slow), "TCN"])
@torch.no_grad()
def test_onnx_of_baselines(name: str, tmp_path: Path) -> None:
    net = getattr(ckcnn, name)(2, 3, "regression", 40, size=2000).net.eval()
    fixed = None if name == "TCN" else 40
    assert export_network(net, tmp_path / "model.onnx", "regression", fixed).outputs == ("values",)
    for batch, length in ((1, 40), (3, fixed or 55)):
        x = torch.randn(batch, 2, length)
        assert np.abs(run(tmp_path / "model.onnx", x)[0] - net(x).numpy()).max() < TOLERANCE


# What training may do to raw sequences, and whether a file is written, which takes seconds.
PREPARED = [
    ("digits", {"train_dt": 2}, False),
    ("digits", {"train_dt": 4, "keep": "last"}, False),
    ("digits", {"drop_rate": 0.3, "missing": "counts"}, False),
    ("pmnist", {}, False),
    ("trajectories", {"standardise": "step"}, False),
    ("trajectories", {"drop_rate": 0.5}, True),
    ("trajectories", {"pad": "valid"}, False),
    ("physionet", {}, False),
    ("speech_raw", {"words": ("yes", "no"), "train_dt": 16}, False),
    ("speech_mfcc", {"words": ("yes", "no")}, True),
]


@pytest.mark.parametrize(("case", "options", "written"), PREPARED, ids=str)
@torch.no_grad()
def test_graph_prepares_raw_signals(case: str, options: dict[str, Any], written: bool, tmp_path: Path) -> None:
    write = cases.CASES[case][1]
    write(tmp_path / "data")
    module = cases.ready(case, tmp_path / "data", **options)
    model = artefact(module, tmp_path)
    given = raw(module) if case != "speech_mfcc" else {"x": torch.randint(-9999, 9999, (3, 1, 16_000)).short()}
    expected = torch.cat([part.values for part in model.scores(model.take(**given))])
    trained = model.preprocessing
    graph = Graph(
        model.net, trained.task, module.length if "keep" in options or trained.varying else None, 1.0, trained
    )
    x = given["x"].float() / (2**15 if trained.rate else 1)
    feed = {"signal": x}
    if "lengths" in graph.inputs:
        feed["lengths"] = given.get("lengths", torch.full((len(x),), x.shape[-1]))
    assert (graph(*feed.values())[0] - expected).abs().max() < TOLERANCE
    if written:
        made = export_model(model, tmp_path / "model.onnx")
        assert made.raw
        assert made.classes == trained.classes
        answers = session(tmp_path / "model.onnx").run(None, {name: value.numpy() for name, value in feed.items()})
        assert np.abs(answers[0] - expected.numpy()).max() < TOLERANCE


@torch.no_grad()
def test_pt2_needs_torch_alone(tmp_path: Path) -> None:
    net, x = make(784, 4), torch.randn(3, 2, 784)
    export_network(net, tmp_path / "model.pt2", "classification", 784)
    torch.save(x, tmp_path / "x.pt")
    code = (
        "import sys, torch; sys.modules['ckcnn'] = None\n"
        "program = torch.export.load('model.pt2', extra_files=(files := {'ckcnn.json': ''}))\n"
        "torch.save([files, *program.module()(torch.load('x.pt'))], 'y.pt')"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=tmp_path, check=True)
    files, scores, _ = torch.load(tmp_path / "y.pt")
    assert json.loads(files["ckcnn.json"])["length"] == 784
    assert (scores - net(x)).abs().max() < TOLERANCE


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:The given buffer is not writable")
def test_a_graph_may_take_every_5000th_sample(tmp_path: Path) -> None:
    trained = Preprocessing("Arrays", "classification", channels=2, length=9, out_channels=4, batch_size=1)
    net, x = make(9, norm="step"), torch.randn(1, 2, 30_000)
    export_network(net, tmp_path / "model.pt2", "classification", dt=1 / 5000, trained=trained)
    scores, _ = torch.export.load(tmp_path / "model.pt2").module()(x)
    assert (scores - net(x[..., ::5000])).abs().max() < TOLERANCE


def test_what_cannot_be_exported_is_refused(tmp_path: Path) -> None:
    class OwnConv(CKConv): ...

    path = tmp_path / "model.onnx"
    with pytest.raises(ValueError, match="a Linear cannot be exported"):
        export_network(nn.Linear(2, 2), path, "classification")
    with pytest.raises(ValueError, match="class OwnConv cannot be exported"):
        export_network(CKNet(1, 2, 3, partial(OwnConv, horizon=9)), path, "classification")
    with pytest.raises(ValueError, match="odd number of samples"):
        export_network(CKNet(1, 2, 3, partial(ReferenceConv, horizon=9)), path, "classification")
    with pytest.raises(ValueError, match="exported for one length"):
        export_network(ckcnn.GRU(2, 3, "regression", 40, size=500).net, path, "regression")
    with pytest.raises(ValueError, match="leave dt at 1"):
        export_network(ckcnn.GRU(2, 3, "regression", 40, size=500).net, path, "regression", dt=2.0)
    with pytest.raises(ValueError, match=r"must end in \.onnx or \.pt2"):
        export_network(make(9), tmp_path / "model.txt", "classification")
    assert not list(tmp_path.iterdir())


def test_a_model_with_time_stamps_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artefact(cases.ready("digits", tmp_path, missing="times"), tmp_path)
    assert main(["export", str(tmp_path / "model"), "--output", str(tmp_path / "model.onnx")]) == 2
    assert "trained with time stamps, which an exported graph does not take" in capsys.readouterr().err
    assert not (tmp_path / "model.onnx").exists()
