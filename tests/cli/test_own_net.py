"""A network of your own on the command line: trained, resumed and used like ours, and never imported by a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

import ckcnn
from ckcnn.__main__ import main
from ckcnn.cli.rehearsal import Rehearsal
from ckcnn.runs import checkpoints
from tests.cli.test_lightning_cli import failing

NETS = """
import os
import signal

import torch
from pytorch_lightning import Callback
from torch import nn


class Pooled(nn.Module):
    def __init__(self, in_channels, out_channels, width: int = 8):
        super().__init__()
        self.conv, self.head = nn.Conv1d(in_channels, width, 5), nn.Linear(width, out_channels)
        self.dropout = nn.Dropout(0.2)

    def forward(self, x):
        return self.head(self.dropout(self.conv(x).relu().mean(-1)))


class Needy(Pooled):
    def __init__(self, in_channels, out_channels, width: int):
        super().__init__(in_channels, out_channels, width)


class KillAt(Callback):
    def on_train_batch_start(self, trainer, module, batch, index):
        if trainer.fit_loop.total_batch_idx == 4:
            os.kill(os.getpid(), signal.SIGTERM)
"""
QUICK = ["--trainer.accelerator=cpu", "--trainer.enable_progress_bar=false", "--trainer.limit_train_batches=3"]
FIT = ["fit", "--config=digits.yaml", "--trainer.max_epochs=2", "--trainer.limit_val_batches=1", *QUICK]
OWN = ["--model.net=own_nets.Pooled", "--model.net.width=6"]
RUN = Path("runs/digits/version_0")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("own")
    (folder / "own_nets.py").write_text(NETS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path])
        patch.chdir(folder)
        assert main([*FIT, *OWN]) == 0
        yield folder
    sys.modules.pop("own_nets", None)


@pytest.fixture
def here(trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(trained)
    return trained


def test_what_presets_say_of_the_training_holds(here: Path) -> None:
    stored = checkpoints.load(RUN / "checkpoints/last.ckpt")
    assert stored["model_class"] == "OwnNet"
    assert stored["hyper_parameters"]["schedule"] == "one_cycle"
    assert stored["hyper_parameters"]["learning_rate"] == 2e-3
    assert stored["net"] == {"class_path": "own_nets.Pooled", "init_args": {"width": 6}, "objects": {}}
    assert stored["state_dict"]["net.net.conv.weight"].shape == (6, 1, 5)
    settings = yaml.safe_load((RUN / "config.yaml").read_text())["model"]
    assert settings["init_args"]["net"] == {"class_path": "own_nets.Pooled", "init_args": {"width": 6}}


@pytest.mark.parametrize("place", [["--config=digits.yaml"], [f"--ckpt_path={RUN}"]])
def test_a_test_wants_the_class_by_name(
    here: Path, place: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "own_nets")
        message = failing(["test", *place, *QUICK], capsys)
        assert "own_nets" not in sys.modules
    assert "if you trust it, name it yourself with --model.net own_nets.Pooled" in message
    assert main(["test", *place, "--model.net=own_nets.Pooled", *QUICK]) == 0  # the file knows the width
    result = json.loads((RUN / "results.json").read_text())
    assert result["model"] == "Pooled"
    assert result["parameters"] == 6 * 5 + 6 + 60 + 10


def test_it_answers_raw_values(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from own_nets import Pooled  # type: ignore[import-not-found]

    x = np.random.default_rng(0).uniform(0, 16, (3, 1, 64)).astype(np.float32)
    np.savez("x.npz", x=x)
    predict = ["predict", f"--ckpt_path={RUN}", "--input=x.npz"]
    assert "ckcnn.load(path, net=own_nets.Pooled) in Python" in failing(predict, capsys)
    assert main([*predict, "--model.net=own_nets.Pooled"]) == 0
    assert "no attribute 'Pool'; a class of your own lies" in failing([*predict, "--model.net=own_nets.Pool"], capsys)
    model = ckcnn.load(RUN, net=Pooled)
    assert "own_nets.Pooled with 106 parameters" in model.describe()
    assert main(["export", str(RUN), "--output=folder"]) == 0
    assert np.array_equal(ckcnn.load("folder", net=Pooled).predict_proba(x), model.predict_proba(x))
    again = ckcnn.OwnNet.from_pretrained("folder", net=Pooled)
    assert torch.equal(again.net.state_dict()["net.head.bias"], model.net.state_dict()["net.head.bias"])
    assert "has a network of its own, whose kernels ckcnn cannot make constant" in failing(
        ["export", str(RUN), "--output=x.onnx"], capsys
    )
    with pytest.raises(ValueError, match="there is no streaming counterpart of Pooled"):
        model.stream()
    assert main(["report", "runs", "--output=report.html"]) == 0
    assert "Pooled" in Path("report.html").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--model.net=own_nets.Pooled", "--model.hidden_channels=3"],
            "--model.hidden_channels is of the network of a CKCNN, and --model.net names another; leave",
        ),
        (
            ["--model.net=own_nets.Pooled", "--model.net.widht=3"],
            "Pooled has no option --model.net.widht; did you mean",
        ),
        (
            ["--model.net=own_nets.Pooled", "--model.net.in_channels=3"],
            "is a fact of the data, which Pooled gets if it",
        ),
        (
            ["--model.net=own_nets.Pool"],
            "--model.net own_nets.Pool: module 'own_nets' has no attribute 'Pool'; a class",
        ),
        (
            ["--model.net=own_nats.Pooled"],
            "--model.net own_nats.Pooled: no module named 'own_nats'; a class of your own",
        ),
        (
            ["--model.net=torch.optim.Adam"],
            "must name a network (a torch.nn.Module), such as package.YourNet, got torch.",
        ),
        (["--model.net=own_nets.Needy"], "Needy needs --model.net.width"),
        (["--model=OwnNet"], "OwnNet needs --model.net"),
    ],
)
def test_mistakes(here: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in failing([*FIT, *options], capsys)


def test_a_search_writes_its_best_arguments_over_those_of_the_class(here: Path) -> None:
    Path("best.yaml").write_text("model: {init_args: {net: {width: 3}}}")
    rehearsal = Rehearsal("fit", [*FIT[1:], "--model.net=own_nets.Pooled", "--config=best.yaml"])
    assert rehearsal.model.net.net.conv.out_channels == 3
    rehearsal = Rehearsal("fit", [*FIT[1:], *OWN, "--model.net.width=4"])
    assert rehearsal.model.net.net.conv.out_channels == 4


def test_a_run_resumes_as_if_it_had_not_been_stopped(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*FIT, *OWN, "--name=stopped", "--optimizer=AdamW"]
    whole = [*FIT, *OWN, "--name=whole", "--optimizer=AdamW"]
    assert main([*words, "--trainer.callbacks+=own_nets.KillAt"]) == 143
    last = Path("runs/stopped/version_0/checkpoints/last.ckpt")
    assert checkpoints.load(last)["global_step"] == 5
    assert "was trained with net own_nets.Pooled(width=6), got own_nets.Pooled(width=7); keep it" in failing(
        [*words, "--ckpt_path=last", "--model.net.width=7"], capsys
    )
    assert main([*words, "--ckpt_path=last"]) == 0
    assert main(whole) == 0
    ours, theirs = (checkpoints.load(Path(f"runs/{n}/version_0/checkpoints/last.ckpt")) for n in ("stopped", "whole"))
    assert all(torch.equal(ours["state_dict"][name], value) for name, value in theirs["state_dict"].items())
