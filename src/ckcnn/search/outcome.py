"""The output of a search: ``search.csv``, ``omega_0.png``, ``best.yaml`` and a printed table."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
import yaml
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState
from rich.console import Console
from rich.table import Table

from ckcnn import presets
from ckcnn.files import replacing
from ckcnn.formatting import short
from ckcnn.results.searches import OMEGA_0
from ckcnn.runs import metrics_table
from ckcnn.runs.ranking import Mode, rank
from ckcnn.search.storage import superseded

_SHOWN = 10  # of the best trials
_HOPELESS = 5  # failed trials
_WORDS = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "waiting",
}
STATES = tuple(_WORDS.values())


@dataclass(frozen=True)
class Outcome:
    """A snapshot of the trials of a study, each with its state.

    Trials that were run again are ``retried``; they count no more.
    """

    monitor: str
    mode: Mode
    trials: list[FrozenTrial]

    @classmethod
    def of(cls, study: optuna.Study) -> Outcome:
        """What there is now."""
        mode: Mode = "max" if study.direction == StudyDirection.MAXIMIZE else "min"
        return cls(study.user_attrs["monitor"], mode, study.get_trials(deepcopy=False))

    def states(self) -> dict[int, str]:
        """The state of each trial."""
        again = superseded(self.trials)
        return {trial.number: "retried" if trial.number in again else _WORDS[trial.state] for trial in self.trials}

    def count(self, *states: str) -> int:
        """How many trials are in one of these states."""
        return sum(state in states for state in self.states().values())

    def is_hopeless(self) -> bool:
        """Return whether so many trials failed, and none succeeded, that the search space cannot be the cause."""
        return self.count("failed") >= _HOPELESS and not self.count("complete", "pruned")

    def ranked(self) -> list[FrozenTrial]:
        """Return the complete trials, best first; ties go to the smaller validation loss."""

        def key(trial: FrozenTrial) -> tuple[float, float]:
            return rank(trial.value or 0.0, trial.user_attrs.get("val_loss", 0.0), self.mode)

        return sorted((trial for trial in self.trials if trial.state == TrialState.COMPLETE), key=key)

    def rows(self) -> list[dict[str, Any]]:
        """One row for each trial, as in ``search.csv``."""
        keys = dict.fromkeys(key for trial in self.trials for key in trial.params)
        states = self.states()
        return [
            {
                "trial": trial.number,
                "state": states[trial.number],
                self.monitor: score(trial),
                **{key: trial.params.get(key) for key in keys},
                **{name: trial.user_attrs.get(name) for name in ("val_loss", "best_epoch", "epochs", "seconds")},
                "folder": trial.user_attrs.get("folder"),
                "reason": trial.user_attrs.get("reason") or _silent(trial),
                "mode": self.mode,
            }
            for trial in self.trials
        ]

    def write(self, folder: Path) -> list[Path]:
        """Write the files of the search and return their names."""
        written = [folder / "search.csv"]
        metrics_table.write(written[0], self.rows())
        drawn = [trial for trial in self.trials if _WORDS[trial.state] in ("complete", "pruned")]
        if any(OMEGA_0 in trial.params and score(trial) is not None for trial in drawn):
            written.append(self._draw(folder / "omega_0.png"))
        if best := next(iter(self.ranked()), None):
            head = f"# The best of {len(self.trials)} trials: {self.monitor} {best.value:.6g}, trial {best.number}.\n"
            written.append(folder / "best.yaml")
            with replacing(written[-1]) as file:
                file.write((head + yaml.safe_dump(presets.nested(best.params), sort_keys=False)).encode())
        return written

    def _draw(self, path: Path) -> Path:
        """Plot the metric against omega_0: one point per trial, hollow if it was pruned."""
        figure = Figure(figsize=(7, 4.2), layout="constrained")
        axis = figure.subplots()
        for state, colour, inside in (("complete", "#0072b2", "#0072b2"), ("pruned", "#d55e00", "white")):
            chosen = [trial for trial in self.trials if _WORDS[trial.state] == state and OMEGA_0 in trial.params]
            points = [(trial.params[OMEGA_0], value) for trial in chosen if (value := score(trial)) is not None]
            label = f"{len(points)} {state}" + (", best value until then" if state == "pruned" else "")
            if points:
                axis.plot(*zip(*points, strict=True), "o", markersize=5, label=label, color=colour, mfc=inside)
        if best := next((trial for trial in self.ranked() if OMEGA_0 in trial.params), None):
            axis.plot(best.params[OMEGA_0], best.value or 0.0, "o", markersize=13, mfc="none", color="black")
            where = f"best: {best.value:.4g} at omega_0 = {best.params[OMEGA_0]:.4g}"
            axis.set_title(where, loc="left", fontsize=10)
        axis.set(xscale="log", xlabel="omega_0", ylabel=self.monitor)
        axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        axis.xaxis.set_major_formatter("{x:g}")
        axis.xaxis.set_minor_formatter("")
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
        axis.legend(frameon=False, fontsize=9)
        picture = io.BytesIO()
        figure.savefig(picture, format="png", dpi=130)
        with replacing(path) as file:
            file.write(picture.getvalue())
        return path

    def show(self, console: Console) -> None:
        """Return a table of the best trials, and the number of trials in each state."""
        best = self.ranked()[:_SHOWN]
        keys = dict.fromkeys(key for trial in best for key in trial.params)
        if best:
            table = Table("trial", self.monitor, *keys, "best epoch", "epochs", "seconds", box=None, pad_edge=False)
            for trial in best:
                values = [short(trial.params[key]) for key in keys]
                notes = [str(trial.user_attrs.get(name, "")) for name in ("best_epoch", "epochs", "seconds")]
                table.add_row(str(trial.number), f"{trial.value:.4f}", *values, *notes)
            console.print(table)
        for row in self.rows():
            if row["state"] == "failed":
                console.print(f"trial {row['trial']} failed: {row['reason']}", markup=False)


def score(trial: FrozenTrial) -> float | None:
    """Return the value of a trial, or its best value so far."""
    if trial.state == TrialState.COMPLETE:
        return trial.value
    return trial.intermediate_values[max(trial.intermediate_values)] if trial.intermediate_values else None


def _silent(trial: FrozenTrial) -> str | None:
    return "its worker was not heard of any more" if trial.state == TrialState.FAIL else None
