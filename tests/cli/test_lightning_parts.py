"""Loggers, callbacks, precision and profilers of Lightning, as the table in the docs adds them to a run."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
import torch

from ckcnn.__main__ import main
from ckcnn.runs import checkpoints
from tests.cli.test_lightning_cli import failing

PAGE = Path(__file__).parents[2] / "docs/how_to/lightning.md"
ROWS = dict(re.findall(r"^\| ([^|]+) \| `(--trainer\.[^`]+)`", PAGE.read_text(), re.MULTILINE))
FIT = [
    "fit",
    "--config=digits.yaml",
    "--model.hidden_channels=2",
    "--model.kernel_hidden=4",
    "--trainer.accelerator=cpu",
    "--trainer.enable_progress_bar=false",
    "--trainer.limit_train_batches=4",
    "--trainer.limit_val_batches=1",
    "--trainer.max_epochs=2",
    "--trainer.log_every_n_steps=1",
]
LAST = Path("runs/digits/version_0/checkpoints/last.ckpt")
# What goes together in one run.
TOGETHER = [
    ["another CSV file", "learning rate, every `log_every_n_steps`", "moving average of the weights", "clip gradients"],
    ["plain average of the weights", "accumulate gradients", "mixed precision", "clip gradients"],
    ["time of each hook", "end after some hours"],
    ["Weights & Biases"],
    ["MLflow"],
]
PACKAGES = {"Weights & Biases": "wandb", "MLflow": "mlflow"}


def test_every_line_of_the_docs_is_tried() -> None:
    assert set(ROWS) == {name for names in TOGETHER for name in names}


@pytest.mark.filterwarnings("ignore")  # of what these packages use themselves
@pytest.mark.parametrize("names", TOGETHER, ids=lambda names: names[0])
def test_a_run_takes_them(names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in names:
        if name in PACKAGES and importlib.util.find_spec(PACKAGES[name]) is None:
            pytest.skip(f"{PACKAGES[name]} is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_SILENT", "true")
    assert main([*FIT, *(word for name in names for word in ROWS[name].split())]) == 0
    assert LAST.is_file()
    if "another CSV file" in names:
        (table,) = Path("logs").rglob("metrics.csv")
        assert "lr-Adam" in table.read_text().splitlines()[0]
    if "Weights & Biases" in names:
        assert list(Path().rglob("*.wandb"))
    if "MLflow" in names:
        assert Path("mlflow.db").is_file()


def test_checkpoints_hold_the_average_and_what_is_averaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    average = ["--trainer.callbacks+=EMAWeightAveraging", "--trainer.callbacks.decay=0.9"]
    assert main([*FIT, *average, "--model.schedule=constant"]) == 0
    content = checkpoints.load(LAST)
    weights, trained = content["state_dict"], content["current_model_state"]
    assert weights.keys() == trained.keys()
    assert not torch.equal(weights["net.head.weight"], trained["net.head.weight"])
    message = failing([*FIT, "--model.schedule=constant", "--ckpt_path=last", "--trainer.max_epochs=3"], capsys)
    assert "was trained with an average of the weights (WeightAveraging), got without; keep it as it" in message
