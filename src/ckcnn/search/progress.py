"""The terminal output of a running search: a line per finished trial, and a status line."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from ckcnn.formatting import count, roughly, short
from ckcnn.runs.stopping import Stop
from ckcnn.search.outcome import Outcome, score


class Progress:
    """Print trials as they end; on a terminal, also the running ones.

    Args:
        console: where to.
        study: of the search.
        trials: how many it is to have.
        workers: trials that run side by side here.
        stop: knows when the budget ends.
    """

    def __init__(self, console: Console, study: optuna.Study, trials: int, workers: int, stop: Stop) -> None:
        self.console, self.trials, self.workers, self.stop = console, trials, workers, stop
        self.outcome = Outcome.of(study)
        self._running: dict[int, str] = {}
        self._lock = threading.Lock()
        self.live = Live(self, console=console, refresh_per_second=2, transient=True, auto_refresh=console.is_terminal)

    def watch(self, trial: optuna.Trial, values: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
        """Record the latest value of a trial."""
        said = f"trial {trial.number}  {described(values)}"
        if rows:
            monitor = self.outcome.monitor
            said += f"  epoch {rows[-1]['epoch']}  {monitor} {float(rows[-1].get(monitor) or math.nan):.4f}"
        with self._lock:
            self._running[trial.number] = said

    def ended(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Print the line of a trial."""
        with self._lock:
            self._running.pop(trial.number, None)
            self.outcome = Outcome.of(study)
        value, notes = score(trial), trial.user_attrs
        figure = "" if value is None else f"  {self.outcome.monitor} {value:.4f}"
        epochs = notes.get("epochs", 0)
        seconds = f"  {count(epochs, 'epoch')}, {notes['seconds']:.0f} s" if epochs else ""
        ending = {
            TrialState.COMPLETE: "",
            TrialState.PRUNED: "  pruned",
            TrialState.FAIL: f"  {'stopped' if 'interrupted' in notes else 'failed'}: {notes.get('reason', '')}",
        }[trial.state]
        line = f"trial {trial.number}  {described(trial.params)}{figure}{seconds}{ending}"
        if not self.console.is_terminal:
            line += f"  |  {self.status()}"
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def status(self) -> str:
        """Best value, trials of each kind, and the time left, in one line."""
        best = next(iter(self.outcome.ranked()), None)
        if best:
            words = [f"best {self.outcome.monitor} {best.value:.4f} ({described(best.params)})"]
        else:
            words = ["no value yet"]
        done = self.outcome.count("complete", "pruned", "failed")
        words.append(f"{done} of {self.trials} trials done")
        for state in ("pruned", "failed"):
            if number := self.outcome.count(state):
                words.append(f"{number} {state}")
        left = self.seconds_left(self.trials - done)
        if not math.isnan(left):
            words.append(f"about {roughly(left)} left")
        return ", ".join(words)

    def seconds_left(self, trials: int) -> float:
        """Estimate the remaining time at this pace, at most until the budget ends; NaN if unknown."""
        ended = [trial for trial in self.outcome.trials if trial.duration and trial.state != TrialState.FAIL]
        if not ended or trials <= 0:
            return math.nan
        each = sum(trial.duration.total_seconds() for trial in ended if trial.duration) / len(ended)
        side_by_side = max(self.workers, self.outcome.count("running"))
        return min(each * math.ceil(trials / side_by_side), max(0.0, self.stop.deadline - time.monotonic()))

    def __rich__(self) -> Group:
        with self._lock:
            running = [Text(f"  {line}", style="dim") for _, line in sorted(self._running.items())]
            return Group(*running, Text(self.status()))


def described(values: Mapping[str, Any]) -> str:
    """The values of a trial, with short names."""
    return ", ".join(f"{key.rpartition('.')[2]} {short(value)}" for key, value in values.items())
