"""The seconds of an epoch are those of all its parts."""

from __future__ import annotations

import time
from typing import Any

import pytest

from ckcnn.runs.epoch_clock import EpochClock

ANY: Any = None


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, to be changed by the test."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_an_interrupted_epoch_takes_as_long_as_both_parts(now: list[float]) -> None:
    clock = EpochClock()
    clock.on_train_start(ANY, ANY)
    clock.on_train_epoch_start(ANY, ANY)
    now[0] += 7
    clock.interrupt()
    now[0] = 5000.0
    resumed = EpochClock()
    resumed.load_state_dict(clock.state_dict())
    now[0] += 30  # until training starts
    resumed.on_train_start(ANY, ANY)
    now[0] += 2
    assert resumed.seconds() == 9


def test_the_next_epoch_starts_from_zero(now: list[float]) -> None:
    clock = EpochClock()
    clock.load_state_dict({"spent": 7.0})
    clock.on_train_start(ANY, ANY)
    now[0] += 2
    clock.reset()
    clock.on_train_epoch_start(ANY, ANY)
    now[0] += 3
    assert clock.seconds() == 3
    assert clock.state_dict() == {"spent": 0.0}
