"""Stop long work early: after a time budget, on Ctrl-C or on SIGTERM."""

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
    """Whether to stop everything, and the reason."""

    deadline: float = math.inf
    reason: str = ""

    @classmethod
    def after(cls, budget: float) -> Stop:
        """Return when the budget ends, minus the time that stopping takes."""
        return cls(time.monotonic() + max(0.0, budget - _TO_SAVE))

    def now(self) -> bool:
        """Whether all running work should stop."""
        if not self.reason and time.monotonic() > self.deadline:
            self.reason = "the budget is used up"
        return bool(self.reason)

    def exit_code(self) -> int:
        """Return the exit code for the signal, or 0; after SIGTERM, ask SLURM to requeue the job."""
        if self.reason == _SIGNALS[signal.SIGTERM]:
            requeue()
            return 128 + signal.SIGTERM
        return 128 + signal.SIGINT if self.reason == _SIGNALS[signal.SIGINT] else 0


@contextmanager
def signals(stop: Stop) -> Iterator[None]:
    """Make Ctrl-C and SIGTERM stop the work cleanly: running trainings save and can resume."""

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
