"""The network of a run is the one that was trained, and its kernels are those that the layers use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from ckcnn import CKCNN, GRU
from ckcnn.models.networks import convolutions
from ckcnn.models.sequence_module import SequenceModule
from ckcnn.reference.model import ReferenceCKCNN
from ckcnn.results.learned import kernels, network
from ckcnn.runs import checkpoints
from ckcnn.runs.folder import RunFolder

OPTIONS = {"in_channels": 3, "out_channels": 5, "task": "classification", "horizon": 20, "hidden_channels": 4}


def save(folder: Path, model: SequenceModule) -> RunFolder:
    run = RunFolder(folder / "version_0")
    content = {"state_dict": model.state_dict(), "hyper_parameters": dict(model.hparams)}
    if isinstance(model, CKCNN):
        content["network"] = model.network_settings()
    checkpoints.save({**content, "model_class": type(model).__name__}, run.checkpoints / "best-003.ckpt")
    return run


class Mine(CKCNN):
    """A user's own model: it doubles the width that it is asked for."""

    def __init__(self, width: int, **others: Any) -> None:
        super().__init__(hidden_channels=2 * width, **others)


@pytest.mark.parametrize(
    "model",
    [
        lambda: CKCNN(**OPTIONS, omega_0="auto", num_blocks=1),
        lambda: CKCNN(**OPTIONS | {"task": "language"}, kernel="relu"),
        lambda: CKCNN(**OPTIONS, readout="mean", norm="step"),
        lambda: ReferenceCKCNN(**OPTIONS),
        lambda: Mine(2, **{name: value for name, value in OPTIONS.items() if name != "hidden_channels"}),
    ],
)
def test_network_answers_as_the_model_did(tmp_path: Path, model) -> None:
    trained = model().eval()
    net = network(save(tmp_path, trained))
    x = torch.randint(5, (2, 20)) if trained.hparams["task"] == "language" else torch.randn(2, 3, 20)
    torch.testing.assert_close(net(x), trained.net(x), rtol=0, atol=0)
    assert not net.training


def test_checkpoints_of_earlier_versions_are_read(tmp_path: Path) -> None:
    trained = CKCNN(**OPTIONS).eval()
    run = save(tmp_path, trained)
    content = checkpoints.load(run.checkpoint("best"))
    del content["network"]
    checkpoints.save(content, run.checkpoint("best"))
    x = torch.randn(2, 3, 20)
    torch.testing.assert_close(network(run)(x), trained.net(x), rtol=0, atol=0)


def test_layers_that_only_their_own_code_can_build_are_refused(tmp_path: Path) -> None:
    run = save(tmp_path, CKCNN(**OPTIONS))
    content = checkpoints.load(run.checkpoint("best"))
    content["network"]["convolution"] = "TheirConv"
    checkpoints.save(content, run.checkpoint("best"))
    with pytest.raises(ValueError, match="has layers of the class TheirConv"):
        network(run)


def test_models_without_kernels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds a GRU, which has no continuous kernels"):
        network(save(tmp_path, GRU(3, 5, "classification", 20)))


def test_weights_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    run = save(tmp_path, CKCNN(**OPTIONS))
    content = checkpoints.load(run.checkpoint("best"))
    content["network"]["hidden_channels"] = 5
    checkpoints.save(content, run.checkpoint("best"))
    with pytest.raises(ValueError, match="does not hold what its settings say"):
        network(run)
    del content["network"], content["hyper_parameters"]
    checkpoints.save(content, run.checkpoint("best"))
    with pytest.raises(ValueError, match="does not hold what its settings say"):
        network(run)


def test_kernels_are_the_strongest_of_each_layer() -> None:
    net = CKCNN(**OPTIONS).net
    learned = kernels(net, count=2)
    names = [f"block {block}, convolution {number}" for block in (1, 2) for number in (1, 2)]
    assert list(learned) == names
    layer = convolutions(net)["block 1, convolution 1"]
    sampled = layer.kernel(20).detach()
    norms = sampled.square().sum(-1)
    (name, strongest), (_, second) = learned["block 1, convolution 1"].strongest.items()
    source, target = map(int, name.split(" → "))
    assert norms[target, source] == norms.max()
    torch.testing.assert_close(strongest, sampled[target, source])
    assert second.norm() <= strongest.norm()
    torch.testing.assert_close(learned["block 1, convolution 1"].spread, sampled.square().mean((0, 1)).sqrt())


def test_reading_needs_no_lightning() -> None:
    code = "import sys, ckcnn.results.learned, ckcnn.report.command; assert 'pytorch_lightning' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
