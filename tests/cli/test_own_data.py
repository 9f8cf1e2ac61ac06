"""A data module of your own on the command line, as the docs show it: any LightningDataModule that says four facts."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import ckcnn
from ckcnn.__main__ import main
from ckcnn.runs import checkpoints
from tests.cli.test_lightning_cli import failing

PAGE = Path(__file__).parents[2] / "docs/how_to/lightning.md"
MORE = """

import os
import signal

from pytorch_lightning import Callback


class Silent(LightningDataModule):
    in_channels, out_channels, task = 8, 10, "classification"


class Pairs(Rows):
    def loader(self, part, shuffle=False):
        return DataLoader(self.parts[part], batch_size=4)


class Stamped(Rows):
    stamped = True


class Augmented(Rows):
    def loader(self, part, shuffle=False):
        loader = super().loader(part, shuffle)
        loader.collate_fn = lambda rows: batch_of([(x + 0.1 * torch.randn_like(x), y) for x, y in rows])
        return loader


class KillAt(Callback):
    def __init__(self, epoch: int, batch: int):
        self.epoch, self.batch = epoch, batch

    def on_train_batch_start(self, trainer, module, batch, index):
        if (trainer.current_epoch, index) == (self.epoch, self.batch):
            os.kill(os.getpid(), signal.SIGTERM)


class SaveInTheMiddle(Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        if index == 1:
            trainer.save_checkpoint("middle.ckpt")
"""
QUICK = ["--trainer.accelerator=cpu", "--trainer.enable_progress_bar=false", "--trainer.limit_train_batches=4"]
SMALL = ["--model.hidden_channels=3", "--model.kernel_hidden=4", "--trainer.max_epochs=3", *QUICK]
FIT = ["fit", "--data=own_rows.Rows", "--name=rows", *SMALL]
RUN = Path("runs/rows/version_0")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("own")
    (shown,) = re.findall(r"```python\n# my_package.py\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (folder / "own_rows.py").write_text(shown + MORE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path])
        patch.chdir(folder)
        assert main(FIT) == 0
        yield folder
    sys.modules.pop("own_rows", None)


@pytest.fixture
def here(trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(trained)
    return trained


def test_it_is_tested_predicted_and_reported(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = f"--ckpt_path={RUN}"
    assert "if you trust it, name it yourself with --data own_rows.Rows" in failing(["test", place, *QUICK], capsys)
    assert main(["test", place, "--data=own_rows.Rows", *QUICK]) == 0
    result = json.loads((RUN / "results.json").read_text())
    assert result["data"]["class"] == "Rows"
    assert result["data"]["dt"] == {"train": 1.0, "val": 1.0, "test": 1.0}
    assert main(["predict", place, "--data=own_rows.Rows", "--output=p.npz", *QUICK]) == 0
    arrays = np.load("p.npz")
    accuracy = (arrays["predictions"] == arrays["targets"]).mean()
    assert accuracy == pytest.approx(result["metrics"]["test/accuracy"])
    capsys.readouterr()
    assert main(["report", "runs", "--output=report.html"]) == 0
    assert "left out" not in capsys.readouterr().err
    with pytest.raises(ValueError, match="trained on a data module of your own, use ckcnn predict without --input"):
        ckcnn.load(RUN).predict(np.zeros((1, 8, 8)))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--data=own_rows.Silent"], "a data module must have in_channels, out_channels, task, horizon, got a Silent "),
        (["--data=own_rows.Pairs"], "a data module yields SequenceBatch(x, y), got a list; from ckcnn.datamodules imp"),
        (["--data=own_rows.Stamped", "--model=GRU"], "GRU takes no time stamps, and the data has them; leave times"),
        (["--data=own_rows.Rowz"], "module 'own_rows' has no attribute 'Rowz'; a class of your own lies in the wor"),
        (
            ["--data=own_rows.Rows", "--data.batch_sise=3"],
            "Rows has no option --data.batch_sise; did you mean --data.ba",
        ),
        (["--data=torch.nn.Linear"], "--data must be the name of a LightningDataModule"),
    ],
)
def test_what_is_missing_is_said(
    here: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in failing(["fit", "--name=bad", *SMALL[2:], *words], capsys)


@pytest.mark.parametrize("data", ["Rows", "Augmented"])
def test_a_run_resumes_at_the_end_of_an_epoch(
    here: Path, tmp_path: Path, data: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["fit", f"--data=own_rows.{data}", *SMALL]
    assert main([*words, "--name=whole"]) == 0
    kill = ["--trainer.callbacks+=own_rows.KillAt", "--trainer.callbacks.epoch=1", "--trainer.callbacks.batch=2"]
    assert main([*words, *kill, "--name=stopped"]) == 143
    assert f"{data} cannot resume in the middle of an epoch, so this epoch will begin again" in caplog.text
    assert main([*words, "--name=stopped", "--ckpt_path=last"]) == 0
    ours, theirs = (checkpoints.load(Path(f"runs/{n}/version_0/checkpoints/last.ckpt")) for n in ("stopped", "whole"))
    assert all(torch.equal(ours["state_dict"][name], value) for name, value in theirs["state_dict"].items())


def test_the_middle_of_an_epoch_is_no_place_to_resume(
    here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["fit", "--data=own_rows.Rows", *SMALL]
    assert main([*words, "--trainer.callbacks+=own_rows.SaveInTheMiddle", "--trainer.max_epochs=1"]) == 0
    message = failing([*words, "--ckpt_path=middle.ckpt"], capsys)
    assert "middle.ckpt was written in the middle of an epoch, where Rows cannot resume" in message
