"""SIGTERM stops a run after a whole step, saves it and queues the job again."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pytorch_lightning.utilities.exceptions import SIGTERMException

from ckcnn.processes import Agreement
from ckcnn.runs import sigterm
from ckcnn.runs.epoch_clock import EpochClock
from ckcnn.runs.folder import RunFolder
from tests.runs.scripted import trainer

ANY: Any = None


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The trainers that were told to stop."""
    stopped: list[Any] = []
    monkeypatch.setattr(sigterm, "stop_after_this_step", stopped.append)
    return stopped


@pytest.fixture
def callback() -> Iterator[sigterm.StopOnSigterm]:
    before = signal.getsignal(signal.SIGTERM)
    callback = sigterm.StopOnSigterm()
    callback.on_train_start(trainer(), ANY)
    yield callback
    signal.signal(signal.SIGTERM, before)


def test_the_step_at_hand_is_completed(callback: sigterm.StopOnSigterm, stopped: list[Any]) -> None:
    scripted = trainer()
    callback.on_train_batch_end(scripted, ANY, ANY, ANY, 0)
    assert not stopped
    os.kill(os.getpid(), signal.SIGTERM)
    assert not stopped
    callback.on_train_batch_end(scripted, ANY, ANY, ANY, 1)
    assert stopped == [scripted]


def test_gradients_that_are_being_accumulated_are_not_lost(
    callback: sigterm.StopOnSigterm, stopped: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted = trainer()
    monkeypatch.setattr(scripted, "accumulate_grad_batches", 3, raising=False)
    os.kill(os.getpid(), signal.SIGTERM)
    for batch, ended in enumerate([False, False, True]):
        callback.on_train_batch_end(scripted, ANY, ANY, ANY, batch)
        assert bool(stopped) == ended


def test_the_last_step_of_an_epoch_is_followed_by_its_validation(
    callback: sigterm.StopOnSigterm, stopped: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted = trainer()
    monkeypatch.setattr(scripted, "is_last_batch", True, raising=False)
    os.kill(os.getpid(), signal.SIGTERM)
    callback.on_train_batch_end(scripted, ANY, ANY, ANY, 99)
    assert not stopped
    callback.on_train_epoch_end(scripted, ANY)
    assert stopped == [scripted]


@pytest.mark.parametrize("others", [False, True])
def test_all_processes_stop_if_one_of_them_got_the_signal(
    callback: sigterm.StopOnSigterm, stopped: list[Any], others: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted, module = trainer(), cast(Any, SimpleNamespace(device="cpu"))
    scripted.world_size = 2
    monkeypatch.setattr(Agreement, "lowest", lambda self, vote: min(float(vote), -float(others)))
    callback.on_train_batch_end(scripted, module, ANY, ANY, 0)
    assert bool(stopped) == others


@pytest.mark.parametrize(
    ("training", "error", "saves"),
    [(True, SIGTERMException(), True), (False, SIGTERMException(), False), (True, ValueError(), False)],
)
def test_what_there_is_of_an_epoch_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, training: bool, error: Exception, saves: bool
) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(sigterm, "requeue", lambda: asked.append(True))
    clock, scripted = EpochClock(), trainer()
    scripted.training = training
    sigterm.SaveOnSigterm(RunFolder(tmp_path), clock).on_exception(scripted, ANY, error)
    assert scripted.saved == (["last.ckpt"] if saves else [])
    assert bool(asked) == (clock.spent > 0) == saves


def test_one_process_asks_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(sigterm, "requeue", lambda: asked.append(True))
    scripted = trainer()
    scripted.is_global_zero = False
    sigterm.SaveOnSigterm(RunFolder(tmp_path), EpochClock()).on_exception(scripted, ANY, SIGTERMException())
    assert scripted.saved  # Lightning saves on the first process, but all of them take part
    assert not asked
