"""Every epoch leaves a row and a line."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from ckcnn.runs.best_epoch import BestEpoch
from ckcnn.runs.epoch_clock import EpochClock
from ckcnn.runs.epoch_log import EpochLog
from ckcnn.runs.folder import RunFolder
from ckcnn.runs.metrics_table import read
from tests.runs.scripted import trainer

ANY: Any = None


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EpochLog:
    run = RunFolder(tmp_path)
    clock = EpochClock()
    monkeypatch.setattr(clock, "seconds", lambda: 1.23456)
    return EpochLog(run, clock, BestEpoch(run, "val/accuracy", "max"))


def test_a_row_and_a_line(log: EpochLog, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log.best.is_new = True
    with caplog.at_level(logging.INFO):
        log.on_train_epoch_end(trainer(2, val_loss=0.25, val_accuracy=0.5), ANY)
    row = {"epoch": "2", "step": "30", "val/accuracy": "0.5", "val/loss": "0.25", "seconds": "1.235"}
    assert read(tmp_path / "metrics.csv") == [row]
    assert caplog.messages == ["epoch   2  val/accuracy 0.5  val/loss 0.25  1.2 s  best"]


def test_rows_that_the_checkpoint_does_not_know_of_are_dropped(log: EpochLog, tmp_path: Path) -> None:
    for epoch in range(3):
        log.on_train_epoch_end(trainer(epoch, val_loss=1.0), ANY)
    resumed = EpochLog(log.run, log.clock, log.best)
    resumed.on_train_start(trainer(1), ANY)
    resumed.on_train_epoch_end(trainer(2, val_loss=2.0), ANY)
    assert [row["val/loss"] for row in read(tmp_path / "metrics.csv")] == ["1.0", "1.0", "2.0"]


@pytest.mark.parametrize(("name", "value"), [("is_global_zero", False), ("fast_dev_run", True)])
def test_one_process_writes_and_only_of_real_runs(log: EpochLog, tmp_path: Path, name: str, value: bool) -> None:
    scripted = trainer(0, val_loss=1.0)
    setattr(scripted, name, value)
    log.on_train_epoch_end(scripted, ANY)
    assert not list(tmp_path.iterdir())
