"""``ckcnn search`` on real data: trials, files, going on, kills, and what it says to mistakes."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import optuna
import pytest
import yaml
from optuna.trial import TrialState

from ckcnn.__main__ import main
from ckcnn.cli.processes import shares, threads
from ckcnn.cli.rehearsal import WeightlessRehearsal
from ckcnn.runs import checkpoints, metrics_table
from ckcnn.runs.folder import RunFolder
from ckcnn.search import storage
from ckcnn.search.objective import Objective

SMALL = [
    "--config",
    "digits.yaml",
    "--model.hidden_channels=4",
    "--trainer.accelerator=cpu",
    "--trainer.limit_train_batches=4",
    "--trainer.limit_val_batches=2",
]
SEARCH = ["search", *SMALL, "--trainer.max_epochs=2"]
PATIENCE = 300  # seconds for a few epochs on a machine that is busy with other things


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "search.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four trials of two workers; the learning rate of some of them is beyond all reason."""
    folder = tmp_path_factory.mktemp("searched")
    words = [
        "--trials=4",
        "--workers=2",
        "--strategy=grid",
        "--space=model.learning_rate=2e-3,1e30",
        f"--runs={folder}",
    ]
    assert main([*SEARCH, *words, f"--data.root={folder}"]) == 0
    return folder / "digits_search"


def test_each_trial_is_a_run_whose_best_validation_metric_counts(searched: Path) -> None:
    rows = table(searched)
    assert len(rows) == 4
    for row in rows:
        (run,) = RunFolder.all(searched / row["folder"])
        settings = yaml.safe_load(run.config.read_text())["model"]["init_args"]
        assert settings["omega_0"] == float(row["model.omega_0"])
        assert settings["learning_rate"] == float(row["model.learning_rate"])
        if row["state"] == "complete":
            epochs = metrics_table.read(run.metrics)
            assert len(epochs) == 2
            assert float(row["val/accuracy"]) == max(float(epoch["val/accuracy"]) for epoch in epochs)
            assert not any(name.startswith("test/") for name in epochs[0])  # the test set is not touched
            assert not run.results.exists()


def test_a_diverged_trial_is_recorded_and_the_search_goes_on(searched: Path) -> None:
    failed = [row for row in table(searched) if row["state"] == "failed"]
    assert {float(row["model.learning_rate"]) for row in failed} == {1e30}
    assert all("the loss became" in row["reason"] for row in failed)
    assert sum(row["state"] == "complete" for row in table(searched)) == 2


def test_a_space_beyond_the_memory_is_refused_before_anything_is_trained(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--space=model.kernel_hidden=8,3000000", "--low=30", "--high=30", "--strategy=grid", "--trials=2"]
    assert main([*SEARCH, *words]) == 2
    assert "kernel_hidden 3000000 on sequences of 64 samples would take" in capsys.readouterr().err
    assert not Path("runs").exists()


def test_the_picture_and_the_overlay_of_the_winner(searched: Path) -> None:
    assert (searched / "omega_0.png").read_bytes().startswith(b"\x89PNG")
    best = max(
        (row for row in table(searched) if row["state"] == "complete"), key=lambda row: float(row["val/accuracy"])
    )
    values = yaml.safe_load((searched / "best.yaml").read_text())["model"]["init_args"]
    assert values == {"omega_0": float(best["model.omega_0"]), "learning_rate": 2e-3}
    config = WeightlessRehearsal("fit", [*SMALL, "--config", str(searched / "best.yaml")]).config
    assert config.model.init_args.omega_0 == values["omega_0"]


def test_the_overlay_wins_over_the_row_of_the_paper(tmp_path: Path) -> None:
    (tmp_path / "best.yaml").write_text("model: {init_args: {omega_0: 12.5}}")
    words = ["--config", "copy_memory.yaml", "--config", "best.yaml", "--data.length=200"]
    config = WeightlessRehearsal("fit", words).config
    assert config.model.init_args.omega_0 == 12.5  # the preset has 34.71 for this length
    assert config.paper["size"] == 15526


def test_the_same_command_goes_on(searched: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*SEARCH, "--strategy=random", "--space=model.learning_rate=2e-3,1e30", f"--runs={searched.parent}"]
    words += [f"--data.root={searched.parent}"]
    assert main([*words, "--trials=4"]) == 0  # nothing to do
    assert len(table(searched)) == 4
    assert "4 of 4 trials done, 2 failed" in capsys.readouterr().out
    assert main([*words, "--trials=5"]) == 0
    assert len(table(searched)) == 5
    said = capsys.readouterr().out
    assert "best val/accuracy" in said
    assert f"ckcnn fit {' '.join(words[1:2])}" in said  # how to train the winner
    assert "optuna-dashboard sqlite:///" in said
    assert ("pip install 'ckcnn[dashboard]'" in said) == (find_spec("optuna_dashboard") is None)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--space=model.droput=0:0.3"], "CKCNN has no option --model.droput; did you mean --model.dropout?"),
        (["--space=dropout=0:0.3"], "must name its part, such as model; did you mean model.dropout?"),
        (["--space=model.dropout=0.0:3.0"], "dropout must lie in [0, 1), got 3.0"),
        (["--low=10", "--high=2"], "--low must not be above --high, got 10 and 2"),
        (["--low=-1"], "must begin above 0, got -1"),
        (["--storage=postgresql://me@127.0.0.1:1/x"], "cannot be used"),
        (["--storage=."], "--storage must be an address or the path of a journal file, got the folder ."),
        (["--ckpt_path=last"], "--ckpt_path=last is not for a search"),
        (["--trial=3"], "there is no option --trial=3; did you mean --trials?"),
        (["--trials=none"], "--trials must be a whole number from 1, got 'none'"),
        (["--budget=soon"], "must be a time such as 90s, 30m, 2h or 1h30m, got 'soon'"),
        (["--model=GRU"], "GRU has no omega_0; name what to search with --space"),
        (["--data=Arrays", "--data.path=none.npz"], "none.npz"),
    ],
)
def test_mistakes(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SEARCH, *words]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not Path("runs").exists()  # nothing was trained


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--config=copy_memory.yaml", "--space=model.learning_rate=2e-3,1e30"],
            "created with preset digits, got copy_memory",
        ),
        (
            [*SEARCH[1:], "--model.dropout=0.3", "--space=model.learning_rate=2e-3,1e30"],
            "created with model.dropout 0.1, got 0.3",
        ),
        (SEARCH[1:], "created with --space"),
    ],
)
def test_a_study_that_was_made_for_something_else(
    searched: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = table(searched)
    assert (
        main(["search", *words, f"--runs={searched.parent}", "--name=digits_search", f"--data.root={searched.parent}"])
        == 2
    )
    assert message in capsys.readouterr().err
    assert table(searched) == before


def test_torchrun_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(SEARCH) == 2
    assert "not by torchrun" in capsys.readouterr().err


def test_workers_share_the_gpus() -> None:
    assert shares(1, 4, None) == [{}]
    assert shares(2, 0, None) == [{}, {}]
    assert [share["CUDA_VISIBLE_DEVICES"] for share in shares(2, 4, None)] == ["0,2", "1,3"]
    assert [share["CUDA_VISIBLE_DEVICES"] for share in shares(3, 2, "5,7")] == ["5", "7", "5"]


def test_workers_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert [threads(workers) for workers in (1, 2, 3, 16)] == [None, 4, 2, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert threads(2) == 3


def test_a_search_that_cannot_work_ends_early(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SEARCH, "--model.learning_rate=1e30", "--trials=50", "--workers=2"]) == 1
    assert "trials all failed: the loss became" in capsys.readouterr().out
    assert 5 <= sum(row["state"] == "failed" for row in table(Path("runs/digits_search"))) <= 6
    assert not Path("runs/digits_search/best.yaml").exists()


def test_a_trial_that_was_taken_over_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after a suspended laptop: another worker has marked the trial and queued it again."""
    call = Objective.__call__

    def silent(self: Objective, trial: optuna.Trial) -> float:
        if trial.number == 0:
            storage.retry(trial.study, trial.study.trials[0])
            trial.storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
        return call(self, trial)

    monkeypatch.setattr(Objective, "__call__", silent)
    assert main([*SEARCH, "--trials=1"]) == 0
    assert "another worker took over a trial" in capsys.readouterr().out
    assert [row["state"] for row in table(Path("runs/digits_search"))] == ["retried", "complete"]


def start(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ckcnn", "search", *SMALL, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for_rows(run: RunFolder, count: int, workers: Sequence[subprocess.Popen[str]] = ()) -> None:
    """Until a run has this many epochs; not in vain, if all its workers have ended."""
    end = time.monotonic() + PATIENCE
    while len(metrics_table.read(run.metrics)) < count:
        assert time.monotonic() < end, f"{run} has no {count} rows after {PATIENCE} seconds"
        assert not workers or any(worker.poll() is None for worker in workers), workers[0].communicate()[0]
        time.sleep(0.1)


def test_a_clone_in_the_working_folder_is_not_taken_for_the_package() -> None:
    """A folder ``ckcnn`` without an ``__init__.py`` came first where the package is installed for development."""
    Path("ckcnn").mkdir()
    command = [str(Path(sys.executable).with_name("ckcnn")), *SEARCH, "--trials=1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [row["state"] for row in table(Path("runs/digits_search"))] == ["complete"]


def test_a_killed_worker_loses_nothing() -> None:
    """Two processes on one study; one of them is killed in the middle of a trial, the other one ends it."""
    words = ["--trials=2", "--trainer.max_epochs=80", "--pruner=none"]
    workers = [start(*words), start(*words)]
    folder = Path("runs/digits_search")
    run = RunFolder(folder / "trial_0/version_0")
    wait_for_rows(run, 2, workers)
    victim, survivor = sorted(workers, key=lambda process: process.pid != owner_of(0))
    victim.kill()
    victim.communicate()
    said, _ = survivor.communicate(timeout=PATIENCE)
    assert survivor.returncode == 0, said
    rows = table(folder)
    assert sorted(row["state"] for row in rows) == ["complete", "complete", "retried"]
    assert rows[0]["state"] == "retried"
    assert rows[0]["reason"] == "its worker died"
    again = next(row for row in rows[1:] if row["folder"] == "trial_0")
    assert again["model.omega_0"] == rows[0]["model.omega_0"]
    assert [row["epoch"] for row in metrics_table.read(run.metrics)] == [str(epoch) for epoch in range(80)]
    assert len(RunFolder.all(folder / "trial_0")) == 1  # it went on where it was


def owner_of(number: int) -> int:
    study = optuna.load_study(study_name="digits_search", storage="sqlite:///runs/digits_search/search.db")
    return int(study.trials[number].user_attrs["worker"].split()[1])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stopped_search_goes_on(number: signal.Signals, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path("runs/digits_search")
    run = RunFolder(folder / "trial_0/version_0")
    words = ["search", *SMALL, "--trials=1", "--trainer.max_epochs=40"]

    def interrupt() -> None:
        wait_for_rows(run, 2)
        os.kill(os.getpid(), number)

    threading.Thread(target=interrupt).start()
    assert main(words) == code
    assert "0 of 1 trials are done, run the same command to resume" in capsys.readouterr().out
    assert [row["state"] for row in table(folder)] == ["retried", "waiting"]
    assert len(metrics_table.read(run.metrics)) < 40
    assert main(words) == 0
    assert [row["state"] for row in table(folder)] == ["retried", "complete"]
    assert [row["epoch"] for row in metrics_table.read(run.metrics)] == [str(epoch) for epoch in range(40)]


def test_a_trial_on_two_devices_is_pruned_whole() -> None:
    """Five trials, four of them good, then one with two processes that learns nothing."""
    words = ["search", *SMALL, "--trainer.max_epochs=20", "--space=model.learning_rate=1e-12:1e-2:log"]
    assert main([*words, "--trials=1"]) == 0
    study = optuna.load_study(study_name="digits_search", storage="sqlite:///runs/digits_search/search.db")
    study.enqueue_trial({"model.omega_0": 30.0, "model.learning_rate": 5e-3})
    assert main([*words, "--trials=2", "--pruner=none"]) == 0
    study.add_trials([study.trials[1]] * 3)  # as good as it, without the time
    study.enqueue_trial({"model.omega_0": 30.0, "model.learning_rate": 1e-12})
    assert main([*words, "--trials=6", "--trainer.devices=2", "--trainer.strategy=ddp", "--data.batch_size=64"]) == 0
    row = table(Path("runs/digits_search"))[5]
    assert row["state"] == "pruned"
    assert 2 <= int(row["epochs"]) < 20
    (run,) = RunFolder.all(Path("runs/digits_search/trial_5"))
    assert "Traceback" not in (run.path.parent / "log.txt").read_text()  # neither process ended in the middle of a step
    assert checkpoints.load(run.last)["global_step"] >= 8  # of two epochs at least
    assert not [line for line in processes() if str(run.path.parent.name) in line]


def processes() -> list[str]:
    return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout.splitlines()
