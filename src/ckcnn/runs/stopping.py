"""When work that takes long ends before it is done: a budget of time, Ctrl-C, or SIGTERM."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from ckcnn.runs.requeue import requeue

_TO_SAVE = 10.0  # seconds of the budget that are kept for ending
_SIGNALS = {signal.SIGINT: "interrupted", signal.SIGTERM: "stopped by SIGTERM"}


@dataclass
class Stop:
    """Whether everything is to end, and why."""

    deadline: float = math.inf
    reason: str = ""

    @classmethod
    def after(cls, budget: float) -> Stop:
        """When a budget of seconds is used up, but for what ending takes."""
        return cls(time.monotonic() + max(0.0, budget - _TO_SAVE))

    def now(self) -> bool:
        """Whether everything that runs is to stop."""
        if not self.reason and time.monotonic() > self.deadline:
            self.reason = "the budget is used up"
        return bool(self.reason)

    def exit_code(self) -> int:
        """What a shell reports of the signal, or 0; after SIGTERM, SLURM is asked to run the job again."""
        if self.reason == _SIGNALS[signal.SIGTERM]:
            requeue()
            return 128 + signal.SIGTERM
        return 128 + signal.SIGINT if self.reason == _SIGNALS[signal.SIGINT] else 0


@contextmanager
def signals(stop: Stop) -> Iterator[None]:
    """Make Ctrl-C and SIGTERM end the work in order: what runs saves its work and resumes next time."""

    def note(number: int, frame: FrameType | None) -> None:
        stop.reason = _SIGNALS[signal.Signals(number)]
        signal.signal(number, before[number])  # the second one ends at once

    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, note) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
