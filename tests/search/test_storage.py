"""One study for many processes, in SQLite, a journal file or PostgreSQL: nothing is lost when one of them dies."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from ckcnn.search import storage
from ckcnn.search.outcome import Outcome

optuna.logging.set_verbosity(optuna.logging.ERROR)
WORKER = """
import sys, time, warnings, optuna
warnings.simplefilter("ignore")
from ckcnn.search.storage import open_storage, this_worker
study = optuna.load_study(study_name="s", storage=open_storage(sys.argv[1]))
def objective(trial):
    trial.set_user_attr("worker", this_worker())
    time.sleep(float(sys.argv[3]))
    return trial.suggest_float("x", 0, 1)
study.optimize(objective, n_trials=int(sys.argv[2]))
"""


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The address of a server of our own; Debian's package postgresql has the programs."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    found = shutil.which("initdb") or (programs and programs[-1] / "initdb")
    if not found:
        pytest.skip("no PostgreSQL on this machine; apt-get install postgresql")
    runuser = shutil.which("runuser") or "/usr/sbin/runuser"
    alone = [runuser, "-u", "postgres", "--"] if os.getuid() == 0 else []  # it refuses to run as root
    place = tempfile.TemporaryDirectory()  # pytest's own is closed to other users
    folder = Path(place.name)
    if alone:
        shutil.chown(folder, "postgres")

    def run(program: str, *words: str) -> None:
        done = subprocess.run([*alone, Path(found).parent / program, *words], capture_output=True, text=True, cwd="/")
        assert done.returncode == 0, done.stdout + done.stderr

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data = folder / "data"
    run("initdb", "-D", str(data), "-U", "me", "--auth=trust", "--no-sync")
    run(
        "pg_ctl", "-D", str(data), "-w", "-l", str(folder / "log"), "-o", f"-p {port} -k {folder} -h 127.0.0.1", "start"
    )
    try:
        yield f"postgresql://me@127.0.0.1:{port}/postgres"
    finally:
        run("pg_ctl", "-D", str(data), "-m", "immediate", "stop")
        place.cleanup()


@pytest.fixture(params=["sqlite", "journal", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgresql"))
    return f"sqlite:///{tmp_path}/new/search.db" if request.param == "sqlite" else str(tmp_path / "new/search.log")


@pytest.fixture
def opened(place: str) -> Iterator[Any]:
    opened = storage.open_storage(place)
    yield opened
    if isinstance(opened, optuna.storages.RDBStorage):
        opened.remove_session()
        opened.engine.dispose()


@pytest.fixture
def study(opened: Any) -> Iterator[optuna.Study]:
    study = optuna.create_study(study_name="s", storage=opened, direction="maximize")
    study.set_user_attr("monitor", "val/accuracy")
    yield study
    optuna.delete_study(study_name="s", storage=opened)


def worker(place: str, trials: int, seconds: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WORKER, place, str(trials), str(seconds)])


def test_two_processes_share_a_study(study: optuna.Study, place: str) -> None:
    workers = [worker(place, 5, 0.05) for _ in range(2)]
    assert [process.wait(60) for process in workers] == [0, 0]
    assert sorted(trial.number for trial in study.trials) == list(range(10))
    assert len({trial.user_attrs["worker"] for trial in study.trials}) == 2
    assert {trial.state for trial in study.trials} == {TrialState.COMPLETE}


def test_the_trial_of_a_killed_worker_is_queued_again(study: optuna.Study, place: str) -> None:
    process = worker(place, 1, 600)
    while not study.get_trials(states=(TrialState.RUNNING,)) or "worker" not in study.trials[0].user_attrs:
        time.sleep(0.05)
    storage.fail_dead(study)
    assert study.trials[0].state == TrialState.RUNNING  # it lives
    process.kill()
    process.wait()
    storage.fail_dead(study)
    storage.fail_dead(study)  # noticed twice, done once
    assert [trial.state for trial in study.trials] == [TrialState.FAIL, TrialState.WAITING]
    assert study.trials[0].user_attrs["reason"] == "its worker died"
    assert Outcome.of(study).states() == {0: "retried", 1: "waiting"}


@pytest.mark.filterwarnings("ignore:Heartbeat of storage")  # asked for by hand
def test_a_worker_on_another_machine_is_missed_after_a_while(
    study: optuna.Study, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = study.ask()
    lost.set_user_attr("worker", "elsewhere 1 1")
    lost.set_user_attr("folder", "trial_0")
    opened.record_heartbeat(lost._trial_id)
    storage.fail_dead(study)
    assert study.trials[0].state == TrialState.RUNNING
    time.sleep(2.1)  # SQLite counts whole seconds
    monkeypatch.setattr(opened, "grace_period", 1, raising=False)  # of the databases
    monkeypatch.setattr(storage, "HEARTBEAT", 0.5)  # of the journal
    storage.fail_dead(study)
    assert Outcome.of(study).states() == {0: "retried", 1: "waiting"}
    assert study.trials[1].user_attrs == {"folder": "trial_0", "deaths": 1}


@pytest.mark.filterwarnings("ignore:Heartbeat of storage")  # asked for by hand
def test_a_trial_that_kills_its_workers_is_given_up(tmp_path: Path) -> None:
    study = optuna.create_study(storage=storage.open_storage(str(tmp_path / "log")), direction="maximize")
    study.set_user_attr("monitor", "x")
    gone = f"{storage.this_worker()}9"  # this process, but started at another time
    for _ in range(10):
        if study.get_trials(states=(TrialState.WAITING,)) or not study.trials:
            study.ask().set_user_attr("worker", gone)
            storage.fail_dead(study)
    assert len(study.trials) == 4
    assert Outcome.of(study).states()[3] == "failed"


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("postgresql://me:secret@127.0.0.1:1/x", r"postgresql://me:\*\*\*@127.0.0.1:1/x cannot be used: .*refused"),
        ("nosuch://x", "nosuch://x cannot be used"),
        ("sqlite:////proc/none/x.db", "cannot be used: .*No such file"),
        ("/proc/none/x.log", "cannot be used: .*No such file"),
    ],
)
def test_what_cannot_be_reached(address: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        storage.open_storage(address)


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ValueError, match=r"needs the package psycopg; .*ckcnn\[postgresql\]"):
        storage.open_storage("postgresql://me@127.0.0.1:1/x")
