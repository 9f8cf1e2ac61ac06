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
from ckcnn.__main__ import main
from ckcnn.datamodules import Digits
from ckcnn.datamodules.transforms import Statistics
from ckcnn.inference.constant_conv import BlockConv, DirectConv, SampledKernel
from ckcnn.inference.export import Preprocessing, export_network
from ckcnn.nn import CKConv, CKNet, CKTextNet
from ckcnn.reference.convolution import ReferenceConv
from ckcnn.results.learned import network_of
from ckcnn.runs import checkpoints

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


CASES = {
    "64": (lambda: make(64, 30), 64, 1.0),
    "300, centred, step, mean": (lambda: make(300, 4, "step", "mean", causal=False), 300, 1.0),
    "half the rate, every step": (lambda: make(200, readout="every_step"), 100, 2.0),
    "twice the rate": (lambda: make(100), 200, 0.5),
    "16000": (lambda: make(16000, 3), 16000, 1.0),
}


@pytest.mark.parametrize("case", CASES)
@torch.no_grad()
def test_onnx_of_one_length(case: str, tmp_path: Path) -> None:
    build, length, dt = CASES[case]
    net, path = build(), tmp_path / "model.onnx"
    export_network(net, path, "every_step" if "every" in case else "classification", length, dt)
    for batch in (1, 5):
        x = torch.randn(batch, 2, length)
        scores, probabilities = run(path, x)
        assert np.abs(scores - net(x, dt).numpy()).max() < TOLERANCE
        assert np.abs(probabilities - net(x, dt).softmax(1).numpy()).max() < TOLERANCE


@torch.no_grad()
def test_onnx_of_any_length(tmp_path: Path) -> None:
    net, path = make(100), tmp_path / "model.onnx"
    assert export_network(net, path, "binary").length is None
    for batch, length in ((1, 7), (3, 100), (2, 250)):
        x = torch.randn(batch, 2, length)
        scores, probabilities = run(path, x)
        assert np.abs(scores - net(x).numpy()).max() < TOLERANCE
        assert np.abs(probabilities - net(x).sigmoid().numpy()).max() < TOLERANCE


@torch.no_grad()
def test_onnx_of_tokens(tmp_path: Path) -> None:
    net = CKTextNet(11, 8, 6, partial(CKConv, horizon=50)).eval()
    export_network(net, tmp_path / "model.onnx", "language")
    tokens = torch.randint(0, 11, (4, 60))
    assert np.abs(run(tmp_path / "model.onnx", tokens)[0] - net(tokens).numpy()).max() < TOLERANCE


@pytest.mark.parametrize("name", ["GRU", "LSTM", "TCN"])
@torch.no_grad()
def test_onnx_of_baselines(name: str, tmp_path: Path) -> None:
    net = getattr(ckcnn, name)(2, 3, "regression", 40, size=2000).net.eval()
    fixed = None if name == "TCN" else 40
    assert export_network(net, tmp_path / "model.onnx", "regression", fixed).outputs == ("values",)
    for batch, length in ((1, 40), (3, fixed or 55)):
        x = torch.randn(batch, 2, length)
        assert np.abs(run(tmp_path / "model.onnx", x)[0] - net(x).numpy()).max() < TOLERANCE


@torch.no_grad()
def test_graph_prepares_the_signal(tmp_path: Path) -> None:
    net, order = make(40), torch.randperm(40)
    statistics = Statistics(torch.tensor([[[5.0]]]), torch.tensor([[[3.0]]]))
    preprocessing = Preprocessing(statistics.mean, statistics.std, order, mask=True)
    made = export_network(net, tmp_path / "model.onnx", "classification", preprocessing=preprocessing)
    assert (made.in_channels, made.length, made.raw) == (1, 40, True)
    x = 5 + 3 * torch.randn(3, 1, 40)
    x[:, :, ::7] = torch.nan
    mask = ~x.isnan()
    prepared = torch.cat([statistics.apply(x).nan_to_num(0.0), mask.float()], dim=1)[..., order]
    assert np.abs(run(tmp_path / "model.onnx", x)[0] - net(prepared).numpy()).max() < TOLERANCE


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


def test_what_cannot_be_exported_is_refused(tmp_path: Path) -> None:
    class OwnConv(CKConv): ...

    path = tmp_path / "model.onnx"
    with pytest.raises(ValueError, match="a Linear cannot be exported"):
        export_network(nn.Linear(2, 2), path, "classification")
    with pytest.raises(ValueError, match="class OwnConv cannot be exported"):
        export_network(CKNet(1, 2, 3, partial(OwnConv, horizon=9)), path, "classification")
    with pytest.raises(ValueError, match="last_valid"):
        export_network(make(9, readout="last_valid"), path, "classification")
    with pytest.raises(ValueError, match="odd number of samples"):
        export_network(CKNet(1, 2, 3, partial(ReferenceConv, horizon=9)), path, "classification")
    with pytest.raises(ValueError, match="exported for one length"):
        export_network(ckcnn.GRU(2, 3, "regression", 40, size=500).net, path, "regression")
    with pytest.raises(ValueError, match="leave dt at 1"):
        export_network(ckcnn.GRU(2, 3, "regression", 40, size=500).net, path, "regression", dt=2.0)
    with pytest.raises(ValueError, match=r"must end in \.onnx or \.pt2"):
        export_network(make(9), tmp_path / "model.txt", "classification")
    assert not list(tmp_path.iterdir())


def test_a_run_with_time_stamps_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "version_0"
    folder.mkdir()
    (folder / "config.yaml").write_text("data:\n  class_path: Digits\n  init_args:\n    missing: times\n")
    assert main(["export", str(folder), "--output", str(tmp_path / "model.onnx")]) == 2
    assert "trained with time stamps" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:.*does not have many workers")
@torch.no_grad()
def test_digits_from_training_to_onnxruntime(tmp_path: Path) -> None:
    data = Digits(root=tmp_path, batch_size=270)
    options = ["--config=digits.yaml", "--config=debug.yaml", "--trainer.accelerator=cpu", f"--data.root={tmp_path}"]
    with torch.enable_grad():
        assert main(["fit", *options, f"--runs={tmp_path / 'runs'}", "--name=digits"]) == 0
    folder = tmp_path / "runs/digits/version_0"
    data.prepare_data()
    data.setup()
    assert data.statistics is not None
    best = max((folder / "checkpoints").glob("best-*.ckpt"))
    content = checkpoints.load(best)
    net = network_of(content, best)
    assert main(["export", str(folder), f"--output={tmp_path / 'model.onnx'}"]) == 0
    raw = data._store.rows(torch.from_numpy(data.splits["test"])).x.float()  # type: ignore[union-attr]
    np.save(tmp_path / "x.npy", raw.numpy())
    code = (
        "import numpy as np, onnxruntime as ort\n"
        "scores, _ = ort.InferenceSession('model.onnx').run(None, {'signal': np.load('x.npy')})\n"
        "np.save('y.npy', scores)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    expected = net(next(iter(data.test_dataloader())).x)
    assert np.abs(np.load(tmp_path / "y.npy") - expected.numpy()).max() < TOLERANCE
