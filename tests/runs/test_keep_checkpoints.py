"""The last and the best epoch are kept, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ckcnn.runs.best_epoch import BestEpoch
from ckcnn.runs.epoch_clock import EpochClock
from ckcnn.runs.folder import RunFolder
from ckcnn.runs.keep_checkpoints import KeepCheckpoints
from tests.runs.scripted import trainer

ANY: Any = None


@pytest.fixture
def keep(tmp_path: Path) -> KeepCheckpoints:
    run = RunFolder(tmp_path)
    return KeepCheckpoints(run, EpochClock(), BestEpoch(run, "val/accuracy", "max"))


def end(keep: KeepCheckpoints, epoch: int, accuracy: float) -> list[str]:
    """End an epoch; return what was saved."""
    scripted = trainer(epoch, val_accuracy=accuracy, val_loss=1.0)
    keep.best.on_train_epoch_end(scripted, ANY)
    keep.on_train_epoch_end(scripted, ANY)
    return list(scripted.saved)


def contents(keep: KeepCheckpoints) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(keep.run.checkpoints.iterdir())}


def test_the_best_and_the_last_are_kept(keep: KeepCheckpoints) -> None:
    assert end(keep, 0, 0.5) == ["best-000.ckpt"]  # written once, the last one is a link
    assert end(keep, 1, 0.4) == ["last.ckpt"]
    assert contents(keep) == {"best-000.ckpt": "epoch 0", "last.ckpt": "epoch 1"}
    assert end(keep, 2, 0.6) == ["best-002.ckpt"]
    assert contents(keep) == {"best-002.ckpt": "epoch 2", "last.ckpt": "epoch 2"}


def test_a_disk_without_links_gets_a_copy(keep: KeepCheckpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", refuse)
    end(keep, 0, 0.5)
    assert contents(keep) == {"best-000.ckpt": "epoch 0", "last.ckpt": "epoch 0"}


def test_nothing_of_a_complete_epoch_is_left_to_count(keep: KeepCheckpoints) -> None:
    keep.clock.spent = 7.0
    end(keep, 0, 0.5)
    assert keep.clock.spent == 0.0


def test_whether_training_stopped_by_itself_is_saved(keep: KeepCheckpoints) -> None:
    end(keep, 0, 0.5)
    assert keep.state_dict() == {"finished": False}
    scripted = trainer(1, val_accuracy=0.4, val_loss=1.0)
    scripted.should_stop = True
    keep.on_train_epoch_end(scripted, ANY)
    assert keep.state_dict() == {"finished": True}


def test_a_try_with_fast_dev_run_saves_nothing(keep: KeepCheckpoints, tmp_path: Path) -> None:
    scripted = trainer(0, val_accuracy=0.5, val_loss=1.0)
    scripted.fast_dev_run = True
    keep.on_train_epoch_end(scripted, ANY)
    assert not list(tmp_path.iterdir())
