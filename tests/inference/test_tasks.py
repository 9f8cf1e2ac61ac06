"""Every task from training to an answer: a checkpoint, answers in the units of the data, a file of them, a graph."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pytorch_lightning import Trainer

import ckcnn
from ckcnn.__main__ import main
from ckcnn.cli import predictions
from ckcnn.datamodules import Arrays, SequenceDataModule, Series, SktimeSeries
from ckcnn.datamodules.datasets import SequenceDataset
from ckcnn.datamodules.sequence_files import Recording
from ckcnn.inference import TrainedModel
from ckcnn.inference.answers import write_answers

_RNG = np.random.default_rng(0)
_X = _RNG.normal(5, 3, (60, 2, 24))


def _trained(data: SequenceDataModule, folder: Path, model: str = "CKCNN") -> tuple[TrainedModel, Trainer, Any]:
    """What an epoch of training leaves, read again; the trainer and the model, too."""
    torch.manual_seed(0)
    module = getattr(ckcnn, model)(**data.facts._asdict(), hidden_channels=4, learning_rate=1e-2)
    trainer = Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, data)
    trainer.save_checkpoint(folder / "model.ckpt")
    return ckcnn.load(folder / "model.ckpt"), trainer, module


def _arrays(path: Path, **arrays: Any) -> Path:
    np.savez(path / "mine.npz", x=_X, **arrays)
    return path / "mine.npz"


def _written(model: TrainedModel, x: np.ndarray, path: Path) -> list[dict[str, str]]:
    write_answers(model, (Recording(f"s{n}", row) for n, row in enumerate(x)), path)
    with path.open() as file:
        return list(csv.DictReader(file))


def _test_split(data: SequenceDataModule) -> tuple[np.ndarray, np.ndarray]:
    dataset = data.dataset("test")
    assert isinstance(dataset, SequenceDataset)
    rows = dataset.store.rows(dataset.index)
    return rows.x.numpy(), rows.y.numpy()


def test_multi_label(tmp_path: Path) -> None:
    y = (_RNG.random((60, 3)) < 0.5).astype(int)
    path = _arrays(tmp_path, y=y, classes=np.array(["fever", "cough", "rash"]))
    data = Arrays(path, task="multi_label", root=tmp_path)
    model, trainer, module = _trained(data, tmp_path)
    x, _ = _test_split(data)
    chances, there = model.predict_proba(x), model.predict(x)
    assert model.classes == ("fever", "cough", "rash")
    assert chances.shape == (9, 3)
    assert np.array_equal(there, chances > 0.5)
    (metrics,) = trainer.test(module, data, verbose=False)
    assert {"test/auroc", "test/f1", "test/accuracy"} <= metrics.keys()
    lines = _written(model, x, tmp_path / "answers.csv")
    assert list(lines[0]) == ["sequence", "prediction", "p(fever)", "p(cough)", "p(rash)"]
    for line, row in zip(lines, there, strict=True):
        assert line["prediction"] == "|".join(name for name, one in zip(model.classes, row, strict=True) if one)
    assert "3 labels, each there or not: 'fever', 'cough', 'rash'" in model.describe()


@pytest.mark.parametrize("standardise", [True, False])
def test_regression_at_every_step(standardise: bool, tmp_path: Path) -> None:
    path = _arrays(tmp_path, y=1000 + 50 * _X.cumsum(2))
    data = Arrays(path, root=tmp_path, standardise_targets=standardise, batch_size=16)
    model, trainer, module = _trained(data, tmp_path)
    x, y = _test_split(data)
    values = model.predict(x)
    assert values.shape == (9, 2, 24)
    (metrics,) = trainer.test(module, data, verbose=False)
    assert metrics["test/mae"] == pytest.approx(np.abs(values - y).mean(), rel=1e-4), "in the units of y"
    assert (metrics["test/loss"] == pytest.approx(metrics["test/mse"], rel=1e-3)) != standardise
    lines = _written(model, x[:2], tmp_path / "answers.csv")
    assert list(lines[0]) == ["sequence", "step", "prediction 0", "prediction 1"]
    assert len(lines) == 2 * 24
    assert float(lines[25]["prediction 1"]) == pytest.approx(values[1, 1, 1], rel=1e-6)
    with pytest.raises(ValueError, match="the model predicts values, which have no probabilities"):
        model.predict_proba(x)
    batches: Any = trainer.predict(module, data)
    predictions.write(tmp_path / "split.csv", batches, module.task)
    with (tmp_path / "split.csv").open() as file:
        first = next(csv.DictReader(file))
    assert list(first) == ["sequence", "output", "step", "target", "prediction"]
    assert float(first["target"]) == pytest.approx(y[0, 0, 0], rel=1e-6)


@pytest.mark.parametrize("name", ["CKCNN", "GRU"])
def test_forecasting(name: str, tmp_path: Path) -> None:
    steps = np.arange(300)
    table = np.stack([100 + 5 * steps, 3e4 + 200 * np.sin(steps / 3)])
    np.savez(tmp_path / "power.npz", x=table[None])
    data = Series(tmp_path / "power.npz", window=16, ahead=4, period=8, batch_size=32)
    model, trainer, module = _trained(data, tmp_path, name)
    x, y = _test_split(data)
    values = model.predict(x)
    assert values.shape == (len(x), 2, 4)
    assert np.abs(values[:, 0] - x[:, 0, -1:]).max() < 300, "of the level of the window, which training never saw"
    (metrics,) = trainer.test(module, data, verbose=False)
    assert metrics["test/mae"] == pytest.approx(np.abs(values - y).mean(), rel=1e-4)
    assert metrics["test/naive_mae"] == pytest.approx(data.reference_scores("test")["naive_mae"])
    longer = model.predict(table[:, :200])
    assert np.allclose(longer, model.predict(table[:, 184:200]), rtol=1e-6), "a longer past is cut to the window"
    lines = _written(model, x[:2], tmp_path / "answers.csv")
    assert [line["ahead"] for line in lines] == ["1", "2", "3", "4"] * 2
    assert float(lines[5]["channel 1"]) == pytest.approx(values[1, 1, 1], rel=1e-6)
    batches: Any = trainer.predict(module, data)
    predictions.write(tmp_path / "split.csv", batches, module.task)
    with (tmp_path / "split.csv").open() as file:
        first = next(csv.DictReader(file))
    assert list(first) == ["sequence", "channel", "ahead", "target", "prediction"]
    assert float(first["target"]) == pytest.approx(y[0, 0, 0], rel=1e-6)
    assert "the next 4 steps of 2 channels" in model.describe()
    with pytest.raises(ValueError, match="it forecasts"):
        model.stream()


@pytest.mark.filterwarnings("ignore:The given buffer is not writable")
def test_an_exported_forecast_has_its_own_units(tmp_path: Path) -> None:
    np.savez(tmp_path / "power.npz", x=1000 + np.random.default_rng(1).normal(size=(1, 1, 200)).cumsum(2))
    model, _, _ = _trained(Series(tmp_path / "power.npz", window=16, ahead=4), tmp_path)
    from ckcnn.inference.export import export_model

    export_model(model, tmp_path / "model.pt2")
    graph = torch.export.load(tmp_path / "model.pt2").module()
    x = torch.full((1, 1, 16), 1010.0) + torch.arange(16)
    (values,) = graph(x)
    assert torch.allclose(values, model.predict(x), rtol=1e-5)
    assert values.shape == (1, 1, 4)


def test_a_forecast_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    series = "--data SktimeSeries --data.series airline --data.window 24 --data.ahead 3 --data.period 12"
    quick = "--model.hidden_channels 4 --model.dropout 0.1 --trainer.max_epochs 1 --trainer.accelerator cpu"
    assert main(f"fit --name air {series} --model CKCNN {quick} --trainer.enable_progress_bar false".split()) == 0
    assert main(["test", "--ckpt_path", "runs/air/version_0", "--trainer.enable_progress_bar", "false"]) == 0
    metrics = json.loads(Path("runs/air/version_0/results.json").read_text())["metrics"]
    data = SktimeSeries("airline", window=24, ahead=3, period=12)
    data.setup()
    x, y = _test_split(data)
    values = ckcnn.load("runs/air/version_0").predict(x)
    assert metrics["test/mae"] == pytest.approx(np.abs(values - y).mean(), rel=1e-4), "passengers, as in the data"
    assert metrics["test/naive_mae"] == pytest.approx(data.reference_scores("test")["naive_mae"])
    assert 300 < values.mean() < 700
