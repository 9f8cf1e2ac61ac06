"""One command trains and tests what is missing, resumes where it was stopped, and leaves the rest alone."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ckcnn import datamodules
from ckcnn.__main__ import main
from ckcnn.reproduce import estimate
from ckcnn.reproduce.description import Cell, Training
from ckcnn.reproduce.jobs import Job
from ckcnn.reproduce.runner import Runner
from ckcnn.reproduce.tables import TABLES
from ckcnn.runs.metrics_table import read
from ckcnn.runs.stopping import Stop

QUICK = [
    "--trainer.limit_train_batches=2",
    "--trainer.limit_val_batches=1",
    "--trainer.limit_test_batches=1",
    "--trainer.accelerator=cpu",
]
COPY = ["reproduce", "stress", "--only", "copy", "--rows", "CKCNN", "--columns", "100", "--epochs-scale", "0.04"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CKCNN_DATA", str(tmp_path / "data"))
    return tmp_path


def test_does_what_is_missing_once(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*COPY, "--seeds", "2", "--workers", "2", *QUICK]) == 0
    said = capfd.readouterr().out
    names = [f"copy_memory-length=100-epochs=2-seed={seed}" for seed in (0, 1)]
    assert all(f"{name}: begins, 2 epochs at most" in said for name in names)
    assert "the epochs of each run are in runs/reproduce/<run>/log.txt" in said
    assert all("\nepoch   1  " in (here / "runs/reproduce" / name / "log.txt").read_text() for name in names)
    rows = read(here / "tables/stress.csv")
    assert [(row["seed"], row["epochs"], row["planned"], row["short"]) for row in rows] == [
        ("0", "2", "50", "True"),
        ("1", "2", "50", "True"),
    ]
    assert [row["run"] for row in rows] == [f"runs/reproduce/{name}/version_0" for name in names]
    before = {path: path.stat().st_mtime_ns for path in (here / "runs").rglob("*") if path.is_file()}
    assert main([*COPY, "--seeds", "2", *QUICK]) == 0
    assert "begins" not in capfd.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in (here / "runs").rglob("*") if path.is_file()} == before
    assert main([*COPY, "--seeds", "2", "--list", *QUICK]) == 0
    assert capfd.readouterr().out.split("time left")[1].split()[:6] == ["stress", "1", "2", "2", "0", "-"]


def test_names_and_titles_of_tables_never_run_together(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "runs/reproduce").mkdir(parents=True)
    known = estimate.Estimates(Path()).machine
    shape = estimate.shape_of(Job(Training("character_trajectories"), 0, here).settings)
    (here / "runs/reproduce/seconds_per_epoch.json").write_text(json.dumps({known: {shape: 1.0}}))
    assert main(["reproduce", "resolution", "--only", "ct", "--overlays", "separable", "--list"]) == 0
    assert "resolution-separable  Sampling rates" in capsys.readouterr().out


def job(tmp_path: Path, options: dict[str, object] | None = None) -> Job:
    return Job(Training("digits", options or {}), 0, tmp_path / "runs")


def runner(job: Job, stop: Stop, told: list[str], *others: str) -> Runner:
    steps = {1: "1", 2: "1/2"}
    cells = [Cell("digits", name, "digits", job.training, test_dt=step) for step, name in steps.items()]
    words = ("--trainer.accelerator=cpu", "--model.hidden_channels=4", *others)
    return Runner(cells, stop, words, threads=1, tell=told.append)


class AfterTwoEpochs(Stop):
    """A budget that is used up when the run in a folder has done two epochs."""

    folder: Path

    def now(self) -> bool:
        if any(len(read(path)) >= 2 for path in self.folder.rglob("metrics.csv")):
            self.reason = "the budget is used up"
        return bool(self.reason)


def test_what_is_cut_off_is_tested_and_goes_on(here: Path) -> None:
    task, stop = job(here), AfterTwoEpochs()
    stop.folder = here
    told: list[str] = []
    runner(task, stop, told).run([task])
    run = task.run()
    assert run is not None
    cut = len(run.epochs)
    assert 2 <= cut < 20
    assert {test["data"]["test_dt"] for test in run.tests} == {1, 2}
    assert told[-2].endswith("so far, interrupted")
    assert told[-1].endswith(f": accuracy {100 * (run.score or 0):.2f} %"), "and tested"
    runner(task, Stop(), told).run([task])
    run = task.run()
    assert run is not None
    assert [row["epoch"] for row in run.epochs] == list(range(20))
    assert any(f"resumes after epoch {cut}" in line for line in told)


def test_a_failing_run_is_told_and_the_others_go_on(here: Path) -> None:
    bad, good = job(here, {"model.omega_0": -1}), job(here, {"model.omega_0": 10})
    working = runner(good, Stop(), [], "--trainer.max_epochs=1")
    working.run([bad, good])
    assert list(working.failures) == [bad.name]
    assert "omega_0" in working.failures[bad.name]
    run = good.run()
    assert run is not None
    assert run.score is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name the tables to make, or all; --list explains them: stress, discrete"),
        (["stres"], "there is no table 'stres'; did you mean stress?"),
        (["stress", "--only", "mnist"], "--only has no benchmark 'mnist'; did you mean "),
        (
            ["stress", "--only", "ct"],
            "stress: no cell is left with --only, --rows and --columns; the benchmarks are copy, adding",
        ),
        (
            ["discrete", "--only", "ptb", "--rows", "CKCNN"],
            "no cell is left with --only, --rows and --columns; the rows are 'CKCNN-Big', the columns 'ptb'",
        ),
        (["stress", "--seeds", "0"], "--seeds must be at least 1, got 0"),
        (["stress", "--epochs-scale", "2"], "--epochs-scale must be in (0, 1], a fraction of the epochs, got 2"),
        (["stress", "--budget", "soon"], "must be a time such as 90s"),
        (["stress", "--overlays", "fats"], "there is no file fats, nor a preset of this name; did you mean fast?"),
        (["stress", "--job", "30"], "--job must be in 0 ... 29, the trainings of these tables, got 30"),
        (["stress", "--trainer.max_epoch=3"], "max_epoch"),
        (["stress", "--model.omega_zero=3"], "omega_zero"),
        (["stress", "--model.omega_0"], "--model.omega_0 needs a value"),
    ],
)
def test_mistakes(here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main(["reproduce", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not list(here.iterdir())


def test_a_job_array_has_a_job_for_each_training(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["reproduce", "resolution", "--only", "ct", "--overlays", "fast", "--seeds", "3", "--submit", "slurm"]
    assert main([*words, "--trainer.precision=bf16"]) == 0
    script = (here / "reproduce.sbatch").read_text()
    assert "#SBATCH --array=0-11\n" in script
    assert (
        "ckcnn reproduce resolution --seeds=3 --runs=runs/reproduce --output=tables --epochs-scale=1 --only ct "
        "--overlays fast" in script
    )
    assert '--trainer.precision=bf16 --job "$SLURM_ARRAY_TASK_ID"' in script
    assert "12 jobs written to reproduce.sbatch" in capsys.readouterr().out


def test_estimates_are_measured_once(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    estimates = estimate.Estimates(here / "seconds.json", measure=True)
    first = estimates.seconds(job(here))
    assert 0 < first < 20 * 60
    assert not estimates.rough
    monkeypatch.setattr(estimate, "seconds_per_epoch", lambda _: pytest.fail("measured again"))
    again = estimate.Estimates(here / "seconds.json")
    assert again.seconds(Job(Training("digits", {"model.omega_0": 3.0}), 1, here, 0.5)) == pytest.approx(first / 2)


def test_a_slow_first_step_is_a_warm_up(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that takes longer than all steps together should."""
    ticks = iter([0.0, 100.0, 100.0, 103.0])
    monkeypatch.setattr(estimate, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    seconds = estimate.seconds_per_epoch([*job(here).training.arguments(), "--model.hidden_channels=2"])
    assert seconds == 3.0 * estimate.batches(datamodules.Digits(batch_size=64))


def test_what_was_not_measured_is_estimated_from_its_size(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(estimate, "seconds_per_epoch", lambda words: asked.append(words) or 6.5)
    estimates = estimate.Estimates(here / "seconds.json")
    letters = Job(Training("character_trajectories"), 0, here)
    times = [estimates.seconds(Job(training, 0, here)) for table in TABLES.values() for training in table.trainings()]
    assert len(asked) == 1, "one training is measured, to learn how fast the machine is"
    assert all(time > 0 for time in times)
    assert estimates.seconds(letters) == pytest.approx(6.5 * letters.epochs)
    assert estimates.rough


@pytest.mark.parametrize(
    ("preset", "options", "seconds"),
    [
        ("character_trajectories", {}, 0.036),
        ("pmnist", {}, 0.179),
        ("pmnist", {"model.hidden_channels": 100}, 0.905),
        ("speech_raw", {"data.batch_size": 32}, 3.1),
        ("pmnist", {"model": "GRU"}, 0.179 * 4.5),
    ],
)
def test_estimates_are_near_the_steps_that_the_readme_has(preset: str, options: dict[str, Any], seconds: float) -> None:
    settings = Job(Training(preset, options), 0, Path()).settings
    data = getattr(datamodules, settings["data"]["class_path"])(**settings["data"]["init_args"])
    assert estimate.by_size(settings) / estimate.batches(data) == pytest.approx(seconds, rel=0.3)


def test_an_epoch_has_as_many_batches_as_in_training() -> None:
    from ckcnn.datamodules import CharacterTrajectories, PennTreebank

    letters = CharacterTrajectories(batch_size=32)
    assert estimate.batches(letters) == 63 + 14 / 3
    assert estimate.random_batch(CharacterTrajectories(batch_size=32, train_dt=2)).x.shape == (32, 3, 91)
    text = PennTreebank(batch_size=24)
    assert estimate.random_batch(text).x.shape[0] == 24
