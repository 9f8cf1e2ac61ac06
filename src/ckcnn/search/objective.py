"""The objective that Optuna calls for each trial: train, report each epoch, prune bad trials."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import optuna

from ckcnn.cli.processes import CommandProcess, alone
from ckcnn.runs import metrics_table
from ckcnn.runs.folder import RunFolder
from ckcnn.runs.ranking import Mode, rank
from ckcnn.runs.stopping import Stop
from ckcnn.search.space import Space, flags, suggest
from ckcnn.search.storage import this_worker

_POLL = 0.2  # seconds


class TrialFailed(Exception):  # noqa: N818
    """A trial without a value; its attributes give the reason."""


class TrialInterrupted(Exception):  # noqa: N818
    """A trial that was stopped with the search and resumes with it."""


@dataclass
class Objective:
    """Trains with the values of a trial and returns the best value of the monitored validation metric.

    Args:
        arguments: of ``ckcnn fit``, without what is searched.
        space: what is searched.
        monitor: the column of ``metrics.csv`` to compare.
        mode: whether a good value of it is large or small.
        folder: of the search; each trial has a folder of runs in it.
        stop: asked all the time.
        shares: environment variables for each of the trials that run side by side.
        threads: for each of them; None for what torch takes.
        watch: called with the trial, its values and the rows of its table, whenever there is a new one.
    """

    arguments: Sequence[str]
    space: Space
    monitor: str
    mode: Mode
    folder: Path
    stop: Stop
    shares: Sequence[Mapping[str, str]] = ({},)
    threads: int | None = None
    watch: Callable[[optuna.Trial, Mapping[str, Any], Sequence[Mapping[str, Any]]], None] = lambda *_: None
    _free: list[int] = field(init=False)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._free = list(range(len(self.shares)))

    def __call__(self, trial: optuna.Trial) -> float:
        trial.set_user_attr("worker", this_worker())
        values = suggest(trial, self.space)
        with self._lock:
            share = self._free.pop()
        try:
            return self._run(trial, values, self.shares[share])
        finally:
            with self._lock:
                self._free.append(share)

    def _run(self, trial: optuna.Trial, values: Mapping[str, Any], share: Mapping[str, str]) -> float:
        self.watch(trial, values, [])
        name = trial.user_attrs.get("folder")
        again = ["--ckpt_path=last"] if name else []
        name = name or f"trial_{trial.number}"
        trial.set_user_attr("folder", name)
        before = [] if again else RunFolder.all(self.folder / name)
        places = [f"--runs={self.folder}", f"--name={name}", "--trainer.enable_progress_bar=false"]
        process = CommandProcess.start(
            ["fit", *self.arguments, *flags(values), *places, *again],
            self.folder / name / "log.txt",
            {**alone(os.environ), **share},
            self.threads,
        )

        def read() -> list[dict[str, Any]]:
            runs = [run for run in RunFolder.all(self.folder / name) if run not in before]
            return metrics_table.read(runs[-1].metrics) if runs else []

        try:
            return self._follow(trial, values, process, read)
        finally:
            if not process.wait(0):
                process.stop()
            self._note(trial, read())

    def _follow(
        self,
        trial: optuna.Trial,
        values: Mapping[str, Any],
        process: CommandProcess,
        read: Callable[[], list[dict[str, Any]]],
    ) -> float:
        """Report each epoch until the process ends or must stop."""
        reported = 0
        while True:
            ended = process.wait(_POLL)
            rows = read()
            if len(rows) > reported:
                self.watch(trial, values, rows)
            for count in range(reported + 1, len(rows) + 1):
                trial.report(self._best(rows[:count])[0], step=count)
                if not ended and trial.should_prune():
                    raise optuna.TrialPruned
            reported = len(rows)
            if ended:
                return self._value(trial, process, rows)
            if self.stop.now():
                self._interrupt(trial, self.stop.reason)

    def _value(self, trial: optuna.Trial, process: CommandProcess, rows: Sequence[Mapping[str, Any]]) -> float:
        reason = process.failure()
        if process.was_terminated():
            self._interrupt(trial, "stopped by SIGTERM")
        if process.was_killed():
            trial.set_user_attr("killed", True)
        if not reason and not rows:
            reason = f"no epoch ended with {self.monitor}"
        if not reason and math.isnan(self._best(rows)[0]):
            reason = f"{self.monitor} was not a number"
        if reason:
            trial.set_user_attr("reason", reason)
            raise TrialFailed(reason)
        return self._best(rows)[0]

    def _interrupt(self, trial: optuna.Trial, reason: str) -> NoReturn:
        trial.set_user_attr("reason", reason)
        trial.set_user_attr("interrupted", True)
        raise TrialInterrupted

    def _note(self, trial: optuna.Trial, rows: Sequence[Mapping[str, Any]]) -> None:
        """Return what the tables show for a trial besides its value."""
        if not rows:
            return
        _, loss, epoch = self._best(rows)
        seconds = round(sum(float(row["seconds"]) for row in rows), 1)
        for key, value in {"epochs": len(rows), "best_epoch": epoch, "val_loss": loss, "seconds": seconds}.items():
            trial.set_user_attr(key, value)

    def _best(self, rows: Sequence[Mapping[str, Any]]) -> tuple[float, float, int]:
        """Return value, validation loss and number of the best epoch so far; ties go to the smallest loss."""
        scores = [(float(row.get(self.monitor) or math.nan), float(row.get("val/loss") or math.nan)) for row in rows]
        found = min(
            (index for index in range(len(scores)) if not math.isnan(scores[index][0])),
            key=lambda index: rank(*scores[index], self.mode),
            default=0,
        )
        return (*scores[found], int(rows[found]["epoch"]))
