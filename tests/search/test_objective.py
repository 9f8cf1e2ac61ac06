"""A trial as the search sees it: rows that appear in its table, and the ways in which it can end."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import optuna
import pytest
from optuna.trial import TrialState

from ckcnn.cli.processes import CommandProcess
from ckcnn.runs.metrics_table import MetricsTable
from ckcnn.runs.stopping import Stop
from ckcnn.search import objective as module
from ckcnn.search.objective import Objective, TrialFailed, TrialInterrupted
from ckcnn.search.space import parse

SPACE = parse([], (1.0, 100.0))
NAN = float("nan")


class Scripted:
    """A process that writes one row whenever it is waited for, and then ends."""

    started: ClassVar[list[Scripted]] = []

    def __init__(self, arguments: list[str], log: Path, environment: dict[str, str], threads: int | None) -> None:
        self.arguments, self.log, self.environment, self.stopped = arguments, log, environment, False
        self.rows = [*self.script]
        self.table = MetricsTable(log.parent / "version_0/metrics.csv")
        Scripted.started.append(self)

    script: Sequence[tuple[float, float]] = ()
    exit: int = 0

    def wait(self, seconds: float) -> bool:
        if self.rows and not self.stopped:
            accuracy, loss = self.rows.pop(0)
            epoch = len(self.table.rows)
            row = {"epoch": epoch, "step": epoch + 1, "val/accuracy": accuracy, "val/loss": loss, "seconds": 2.0}
            self.table.append(row)
            return False
        return True

    def stop(self) -> None:
        self.stopped = True

    def was_terminated(self) -> bool:
        return self.exit in (-signal.SIGTERM, 143)

    def was_killed(self) -> bool:
        return self.exit == -signal.SIGKILL

    def failure(self) -> str:
        return "the loss became nan" if self.exit else ""


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> type[Scripted]:
    monkeypatch.setattr(CommandProcess, "start", Scripted)
    Scripted.started, Scripted.script, Scripted.exit = [], (), 0
    return Scripted


def objective(folder: Path, **options: Any) -> Objective:
    return Objective(["--config", "x"], SPACE, "val/accuracy", "max", folder, options.pop("stop", Stop()), **options)


def trial_of(study: optuna.Study, target: Objective) -> optuna.trial.FrozenTrial:
    study.optimize(target, n_trials=1, catch=(TrialFailed, TrialInterrupted))
    return study.trials[-1]


def test_the_value_is_that_of_the_best_epoch(scripted: type[Scripted], tmp_path: Path) -> None:
    scripted.script = [(0.5, 1.0), (0.9, 0.4), (0.9, 0.3), (0.8, 0.2)]
    trial = trial_of(optuna.create_study(direction="maximize"), objective(tmp_path))
    assert trial.value == 0.9
    notes = {key: trial.user_attrs[key] for key in ("best_epoch", "epochs", "val_loss", "seconds")}
    assert notes == {"best_epoch": 2, "epochs": 4, "val_loss": 0.3, "seconds": 8.0}  # of equal ones the smaller loss
    assert trial.intermediate_values == {1: 0.5, 2: 0.9, 3: 0.9, 4: 0.9}  # the best so far


def test_small_is_good_where_the_metric_is_an_error(scripted: type[Scripted], tmp_path: Path) -> None:
    scripted.script = [(0.5, 1.0), (0.2, 0.4), (NAN, 0.3)]
    target = objective(tmp_path)
    target.mode = "min"
    assert trial_of(optuna.create_study(direction="minimize"), target).value == 0.2


def test_a_trial_is_an_ordinary_run(scripted: type[Scripted], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    scripted.script = [(0.5, 1.0)]
    trial = trial_of(optuna.create_study(direction="maximize"), objective(tmp_path, shares=[{"X": "1"}]))
    (process,) = scripted.started
    assert process.arguments == [
        "fit",
        "--config",
        "x",
        f"--model.omega_0={trial.params['model.omega_0']!r}",
        f"--runs={tmp_path}",
        "--name=trial_0",
        "--trainer.enable_progress_bar=false",
    ]
    assert process.environment["X"] == "1"
    assert "SLURM_JOB_ID" not in process.environment  # a pruned trial would requeue the job of the search


def test_rows_of_an_older_run_in_the_folder_are_not_its_own(scripted: type[Scripted], tmp_path: Path) -> None:
    old = MetricsTable(tmp_path / "trial_0/version_0/metrics.csv")
    old.append({"epoch": 0, "step": 1, "val/accuracy": 1.0, "val/loss": 0.0, "seconds": 1})
    scripted.script = [(0.5, 1.0)]
    trial = trial_of(optuna.create_study(direction="maximize"), objective(tmp_path))
    assert trial.user_attrs["reason"] == "no epoch ended with val/accuracy"  # the scripted one writes to version_0


def test_a_bad_trial_is_stopped(scripted: type[Scripted], tmp_path: Path) -> None:
    study = optuna.create_study(
        direction="maximize", pruner=optuna.pruners.ThresholdPruner(lower=0.3, n_warmup_steps=2)
    )
    scripted.script = [(0.1, 1.0), (0.2, 1.0), (0.25, 1.0), (0.9, 1.0)]
    trial = trial_of(study, objective(tmp_path))
    assert trial.state.name == "PRUNED"
    assert trial.user_attrs["epochs"] == 3
    assert scripted.started[0].rows == [(0.9, 1.0)]  # the last epoch was never trained


@pytest.mark.parametrize(
    ("script", "code", "reason"),
    [
        ([(0.5, 1.0)], 1, "the loss became nan"),
        ([], 0, "no epoch ended with val/accuracy"),
        ([(NAN, 1.0)], 0, "val/accuracy was not a number"),
    ],
)
def test_a_failed_trial_has_a_reason(
    script: list[tuple[float, float]], code: int, reason: str, scripted: type[Scripted], tmp_path: Path
) -> None:
    scripted.script, scripted.exit = script, code
    trial = trial_of(optuna.create_study(direction="maximize"), objective(tmp_path))
    assert (trial.state.name, trial.user_attrs["reason"]) == ("FAIL", reason)
    assert "interrupted" not in trial.user_attrs


def test_a_trial_that_was_stopped_is_to_go_on(scripted: type[Scripted], tmp_path: Path) -> None:
    scripted.script, scripted.exit = [(0.5, 1.0)], 143
    trial = trial_of(optuna.create_study(direction="maximize"), objective(tmp_path))
    assert trial.user_attrs["interrupted"]


def test_the_budget_ends_what_is_running(scripted: type[Scripted], tmp_path: Path) -> None:
    scripted.script = [(0.5, 1.0)] * 5
    stop = Stop(deadline=time.monotonic() - 1)
    trial = trial_of(optuna.create_study(direction="maximize"), objective(tmp_path, stop=stop))
    assert trial.user_attrs["interrupted"]
    assert trial.user_attrs["reason"] == "the budget is used up"
    assert scripted.started[0].rows  # it had more to do


def test_a_retried_trial_goes_on_in_its_folder(scripted: type[Scripted], tmp_path: Path) -> None:
    scripted.script = [(0.5, 1.0)]
    study = optuna.create_study(direction="maximize")
    study.enqueue_trial({"model.omega_0": 5.0}, user_attrs={"folder": "trial_7"})
    trial_of(study, objective(tmp_path))
    assert scripted.started[0].arguments[-2:] == ["--trainer.enable_progress_bar=false", "--ckpt_path=last"]
    assert scripted.started[0].log == tmp_path / "trial_7/log.txt"


def test_side_by_side_each_has_its_own_share(scripted: type[Scripted], tmp_path: Path) -> None:
    scripted.script = [(0.5, 1.0)] * 3
    study = optuna.create_study(direction="maximize")
    study.optimize(objective(tmp_path, shares=[{"X": "0"}, {"X": "1"}]), n_trials=4, n_jobs=2)
    assert {process.environment["X"] for process in scripted.started} == {"0", "1"}


def test_a_killed_process_most_likely_had_no_memory(tmp_path: Path) -> None:
    process = CommandProcess.start(["fit", "--config=digits.yaml"], tmp_path / "log.txt", {}, None)
    process.process.kill()
    assert process.failure() == "killed by signal 9, by somebody or because the memory ran out"
    assert not process.was_terminated()


def test_the_last_line_of_the_log_is_the_reason(tmp_path: Path) -> None:
    process = CommandProcess.start(["fit", "--config=nosuch.yaml"], tmp_path / "log.txt", {}, 1)
    assert process.wait(60)
    assert process.failure().startswith("there is no file nosuch.yaml")


def test_polling_is_quick() -> None:
    assert module._POLL <= 0.5  # seconds of training that a pruned trial wastes


@pytest.mark.parametrize(("code", "killed"), [(-signal.SIGKILL, True), (1, False), (-signal.SIGTERM, False)])
def test_a_killed_trial_is_noted_as_such(scripted: type[Scripted], tmp_path: Path, code: int, killed: bool) -> None:
    scripted.exit = code
    trial = trial_of(optuna.create_study(direction="maximize"), objective(tmp_path))
    assert trial.state == TrialState.FAIL
    assert ("killed" in trial.user_attrs) == killed
