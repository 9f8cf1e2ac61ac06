"""No work is lost: a run that was stopped at any moment ends as one that was never stopped, to the last bit."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from ckcnn.__main__ import main
from ckcnn.runs import checkpoints, lock
from ckcnn.runs.folder import RunFolder
from ckcnn.runs.metrics_table import MetricsTable, read
from tests.campaign.kills import EXTRAS, SCHEDULES, Campaign, Settings
from tests.ranks import Ranks, command

EPOCHS = 4
# Everything random or stateful: dropout, shuffling, a plateau at every epoch without improvement.
FIT = [
    "fit",
    "--config",
    "digits.yaml",
    "--model.hidden_channels=6",
    "--model.schedule=plateau",
    "--model.patience=0",
    "--data.batch_size=32",
    "--trainer.accelerator=cpu",
    "--trainer.enable_progress_bar=false",
    f"--trainer.max_epochs={EPOCHS}",
]
LAST = Path("runs/digits/version_0/checkpoints/last.ckpt")
KEPT = ("BestEpoch", "KeepCheckpoints", "EpochClock")  # callbacks with a state


def start(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ckcnn", *FIT, *options]
    with (folder / "log.txt").open("ab") as log:
        return subprocess.Popen(command, cwd=folder, stderr=log, stdout=log, env=os.environ | {"PYTHONPATH": _path()})


def _path() -> str:
    """The working folder, so that a run finds the callback of a test."""
    return os.pathsep.join(["", *filter(None, [os.environ.get("PYTHONPATH")])]) or "."


def wait_for(path: Path, process: subprocess.Popen[bytes], after: float = 0.0) -> None:
    deadline = time.monotonic() + 120
    while not (path.exists() and path.stat().st_mtime > after):
        assert process.poll() is None, "the run ended too early"
        assert time.monotonic() < deadline
        time.sleep(0.005)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    rows = read(folder / "runs/digits/version_0/metrics.csv")
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def assert_same_run(folder: Path, reference: Path) -> None:
    ours, theirs = (torch.load(place / LAST, weights_only=True) for place in (folder, reference))
    assert ours["epoch"] == EPOCHS - 1
    assert all(torch.equal(ours["state_dict"][key], value) for key, value in theirs["state_dict"].items())
    current, expected = (content.get("current_model_state", {}) for content in (ours, theirs))
    assert all(torch.equal(current[key], value) for key, value in expected.items())
    assert (
        ours["optimizer_states"][0]["param_groups"][0]["lr"] == theirs["optimizer_states"][0]["param_groups"][0]["lr"]
    )
    assert {key: ours["callbacks"][key] for key in KEPT} == {key: theirs["callbacks"][key] for key in KEPT}
    assert rows_of(folder) == rows_of(reference)
    assert len(rows_of(folder)) == EPOCHS
    best = [[path.name for path in (place / LAST).parent.glob("best-*")] for place in (folder, reference)]
    assert best[0] == best[1]
    assert len(best[0]) == 1
    assert [path.name for path in (folder / "runs/digits").iterdir()] == ["version_0"]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody stopped."""
    folder = tmp_path_factory.mktemp("whole")
    assert start(folder).wait() == 0
    return folder


def test_killed_at_several_points(reference: Path, tmp_path: Path) -> None:
    """Before the first checkpoint, just after one was written, and in the middle of an epoch."""
    run = start(tmp_path, "--ckpt_path=last")
    wait_for(tmp_path / "runs/digits/version_0/config.yaml", run)
    run.kill()
    run.wait()
    run = start(tmp_path, "--ckpt_path=last")
    wait_for(tmp_path / LAST, run)
    run.kill()
    run.wait()
    written = (tmp_path / LAST).stat().st_mtime
    run = start(tmp_path, "--ckpt_path=last")
    wait_for(tmp_path / LAST, run, after=written)
    time.sleep(0.3)
    run.kill()
    run.wait()
    assert checkpoints.load(tmp_path / LAST)["epoch"] < EPOCHS - 1
    assert start(tmp_path, "--ckpt_path=last").wait() == 0
    assert_same_run(tmp_path, reference)


def as_before_the_split(callbacks: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The states of callbacks as ckcnn wrote them when one callback did the work of all."""
    best, keep, clock = (callbacks.pop(key) for key in KEPT)
    names = {"best_epoch": best["epoch"], "best_score": best["value"], "best_loss": best["loss"]}
    return {**callbacks, "RunKeeper": {**names, **keep, **clock}}


@pytest.mark.parametrize("old", [False, True], ids=["this version", "earlier version"])
def test_sigterm_keeps_the_steps_of_an_epoch(reference: Path, tmp_path: Path, old: bool) -> None:
    run = start(tmp_path, "--data.num_workers=1")  # a worker reads ahead
    wait_for(tmp_path / LAST, run)
    time.sleep(0.2)
    run.send_signal(signal.SIGTERM)
    assert run.wait() == 143
    content = checkpoints.load(tmp_path / LAST)
    assert content["global_step"] % 40, "it should have been stopped in the middle of an epoch"
    assert f"stopped by SIGTERM at step {content['global_step']}" in (tmp_path / "log.txt").read_text()
    clock = content["callbacks"]["EpochClock"]
    assert clock["spent"] > 0
    clock["spent"] = 1000.0
    if old:
        content["callbacks"] = as_before_the_split(content["callbacks"])
    checkpoints.save(content, tmp_path / LAST)
    assert start(tmp_path, "--data.num_workers=1", "--ckpt_path=last").wait() == 0
    assert_same_run(tmp_path, reference)
    seconds = [float(row["seconds"]) for row in read(tmp_path / "runs/digits/version_0/metrics.csv")]
    assert [value > 1000 for value in seconds] == [number == content["epoch"] for number in range(EPOCHS)]


KILL = """
import os, signal
from pytorch_lightning import Callback

class KillAt(Callback):
    def __init__(self, batch: int) -> None:
        self.batch = batch

    def on_train_batch_start(self, trainer, module, batch, index):
        if trainer.fit_loop.total_batch_idx == self.batch:
            os.kill(os.getpid(), signal.SIGTERM)
"""


MINE = """
import torch

class Signs(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, momentum=0.9):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure):
        with torch.enable_grad():
            loss = closure()
        for group in self.param_groups:
            for weight in group["params"]:
                mean = self.state[weight].setdefault("mean", torch.zeros_like(weight))
                mean.lerp_(weight.grad, 1 - group["momentum"])
                weight.sub_(mean.sign(), alpha=group["lr"])
        return loss
"""
SGD = ["--optimizer=SGD", "--optimizer.lr=0.1", "--optimizer.momentum=0.9"]
AVERAGE = ["--trainer.callbacks+=EMAWeightAveraging", "--trainer.callbacks.decay=0.9"]
COARSE = ["--model.schedule=one_cycle", "--trainer.limit_train_batches=9", "--data.schedule_dt=4:1,2:1,1:2"]


@pytest.mark.parametrize(
    ("batch", "options"),
    [
        (12, ["--model.schedule=one_cycle"]),
        pytest.param(17, ["--model.schedule=one_cycle", "--trainer.limit_train_batches=9"], marks=pytest.mark.slow),
        (10, ["--model.schedule=constant", "--trainer.limit_train_batches=9", "--trainer.accumulate_grad_batches=4"]),
        pytest.param(12, [*COARSE, "--data.num_workers=1"], marks=pytest.mark.slow),
        (17, COARSE),
        pytest.param(12, [*SGD, "--lr_scheduler=ExponentialLR", "--lr_scheduler.gamma=0.5"], marks=pytest.mark.slow),
        (10, [*AVERAGE, "--model.schedule=one_cycle", "--trainer.limit_train_batches=9"]),
        (17, ["--optimizer=mine.Signs", "--model.schedule=cosine", "--model.warm_up=0.2"]),
    ],
    ids=[
        "one-cycle",
        "last batch of a limited epoch",
        "while gradients accumulate",
        "coarse",
        "switch of the rate",
        "SGD",
        "average",
        "own",
    ],
)
def test_sigterm_at_any_batch(tmp_path: Path, batch: int, options: list[str]) -> None:
    """A schedule that asks for the number of steps makes the loader before the loops are restored."""
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    whole.mkdir()
    stopped.mkdir()
    (stopped / "kill.py").write_text(KILL)
    for folder in (whole, stopped):
        (folder / "mine.py").write_text(MINE)
    untouched = Ranks(1, whole, command, [*FIT, *options], tmp_path / "data")
    kill = ["--trainer.callbacks+=kill.KillAt", f"--trainer.callbacks.batch={batch}"]
    for more, code in ((kill, 143), (["--ckpt_path=last"], 0)):
        run = Ranks(1, stopped, command, [*FIT, *options, *more], tmp_path / "data")
        assert run.wait() == [code], run.printed()
    assert untouched.wait() == [0], untouched.printed()
    assert_same_run(stopped, whole)


def test_a_finished_run_stays_as_it_is(reference: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(reference)
    before, config = LAST.read_bytes(), LAST.parents[1] / "config.yaml"
    config.write_text(config.read_text().replace("    antialias: false\n", ""))  # of an earlier version
    assert main([*FIT, "--ckpt_path", "last"]) == 0
    assert LAST.read_bytes() == before


def test_a_run_that_was_good_enough_does_not_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*FIT, "--early_stopping.stopping_threshold=0.05"]) == 0
    before = LAST.read_bytes()
    assert checkpoints.load(LAST)["epoch"] < EPOCHS - 1
    assert main([*FIT, "--ckpt_path", "last"]) == 0
    assert LAST.read_bytes() == before


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            "--model.omega_0=3",
            "was trained with model.omega_0 50.0, got 3.0; keep it as it was to resume",
        ),
        ("--data.drop_rate=0.5", "was trained with data.drop_rate 0.0, got 0.5; keep it as it was to resume"),
        ("--model=GRU", "holds a CKCNN, not a GRU"),
    ],
)
def test_other_settings_are_refused(
    reference: Path, option: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(reference)
    assert main([*FIT, "--ckpt_path", "last", option]) == 2
    assert message in capsys.readouterr().err


def test_options_that_are_newer_than_a_run_had_their_defaults(
    reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(reference / "runs", "runs")
    config = LAST.parents[1] / "config.yaml"
    settings = yaml.safe_load(config.read_text())
    for name in ("augment", "schedule_dt"):  # of digits, and of all data modules
        del settings["data"]["init_args"][name]
    config.write_text(yaml.safe_dump(settings))
    content = checkpoints.load(LAST)
    del content["hyper_parameters"]["causal"]
    checkpoints.save(content, LAST)
    assert main([*FIT, "--ckpt_path", "last"]) == 0
    assert main([*FIT, "--ckpt_path", "last", "--model.causal=false"]) == 2
    assert "was trained with model.causal True, got False" in capsys.readouterr().err


def test_a_truncated_checkpoint_is_refused_with_a_good_one(
    reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path("runs/digits/version_0/checkpoints")
    folder.mkdir(parents=True)
    for path in (reference / LAST).parent.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (folder.parent / "config.yaml").write_bytes((reference / LAST).parents[1].joinpath("config.yaml").read_bytes())
    LAST.write_bytes(LAST.read_bytes()[:5000])
    best = next(folder.glob("best-*"))
    assert main([*FIT, "--ckpt_path", "last"]) == 2
    message = capsys.readouterr().err
    assert f"{LAST} is not a whole checkpoint of ckcnn" in message
    assert f"the newest whole one is {best}" in message
    best.unlink()
    assert main([*FIT, "--ckpt_path", "last"]) == 2
    assert "there is no other checkpoint beside it" in capsys.readouterr().err


def test_loading_never_runs_code(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "sprung",)

    torch.save({"state_dict": {}, "model_class": "CKCNN", "extra": Trap()}, tmp_path / "bad.ckpt")
    with pytest.raises(ValueError, match="is not a whole checkpoint"):
        checkpoints.load(tmp_path / "bad.ckpt")
    assert not (tmp_path / "sprung").exists()


def test_a_full_disk_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "last.ckpt"
    checkpoints.save({"state_dict": {}, "model_class": "old"}, path)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=f"No space left on device.*{path.name}.* the previous one is whole"):
        checkpoints.save({"state_dict": {}, "model_class": "new"}, path)
    assert checkpoints.load(path)["model_class"] == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["last.ckpt"]


def test_rows_after_the_checkpoint_are_dropped(tmp_path: Path) -> None:
    table = MetricsTable(tmp_path / "metrics.csv")
    for step in (10, 20, 30):
        table.append({"epoch": step // 10, "step": step})
    MetricsTable(tmp_path / "metrics.csv", steps=20).append({"epoch": 3, "step": 30, "new": 1.5})
    rows = read(tmp_path / "metrics.csv")
    assert [row["step"] for row in rows] == ["10", "20", "30"]
    assert [row["new"] for row in rows] == ["", "", "1.5"]


def test_a_folder_in_the_place_of_the_table(tmp_path: Path) -> None:
    """It is refused when the run is prepared, before anything is written."""
    with pytest.raises(ValueError, match="must be a table, got a folder; move it away"):
        MetricsTable(tmp_path)


def _create(folder: Path, start: Barrier, found: SimpleQueue[list[str]]) -> None:
    start.wait(60)
    found.put([RunFolder.create(folder).path.name for _ in range(20)])


def test_two_runs_never_share_a_folder(tmp_path: Path) -> None:
    """Four processes at the same time, as the jobs of an array that a cluster starts together."""
    context = multiprocessing.get_context("fork")
    start, found = context.Barrier(4), context.SimpleQueue()
    processes = [context.Process(target=_create, args=(tmp_path / "x", start, found)) for _ in range(4)]
    for process in processes:
        process.start()
    folders = [name for _ in processes for name in found.get()]
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0, 0]
    assert sorted(folders) == sorted(f"version_{number}" for number in range(80))


def state_of(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of change of everything in a folder."""
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in [folder, *folder.rglob("*")]}


@pytest.fixture(scope="module")
def cycle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with a one-cycle schedule."""
    folder = tmp_path_factory.mktemp("cycle")
    assert start(folder, *CYCLE).wait() == 0
    return folder


CYCLE = ["--model.schedule=one_cycle", "--trainer.limit_train_batches=3"]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ([], 0, "runs/digits/version_0 is finished: it has 4 epochs, and --trainer.max_epochs is 4; leave out"),
        (["--trainer.max_epochs=2"], 0, "is finished: it has 4 epochs, and --trainer.max_epochs is 2"),
        (["--trainer.max_epochs=-1", "--trainer.max_steps=5"], 0, "is finished: it has 12 steps"),
        (["--trainer.max_epochs=6"], 2, "started with trainer.max_epochs 4 and schedule one_cycle, got 6, and a"),
        (["--trainer.max_epochs=6", "--data.num_workers=1"], 2, "a cycle cannot be extended or shortened"),
        (["--model.dropout=0.7"], 2, "was trained with model.dropout 0.1, got 0.7"),
    ],
)
def test_nothing_changes_before_a_resume_is_accepted(
    cycle: Path,
    options: list[str],
    code: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(cycle)
    before = state_of(Path("runs"))
    with caplog.at_level("INFO"):
        assert main([*FIT, *CYCLE, "--ckpt_path", "last", *options]) == code
    assert message in capsys.readouterr().err + caplog.text
    assert state_of(Path("runs")) == before


def test_a_run_that_fails_before_it_starts_leaves_no_folder(cycle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(cycle)
    checkpoint = f"--ckpt_path={next(LAST.parent.glob('best-*'))}"
    for options in (["--data.cache=/proc/nowhere"], [checkpoint, "--model.dropout=0.7"], [checkpoint, "--model=GRU"]):
        assert main([*FIT, *CYCLE, *options]) == 2
        assert [path.name for path in Path("runs/digits").iterdir()] == ["version_0"]
    assert main([*FIT, "--name=other", "--data.cache=/proc/nowhere"]) == 2
    assert not Path("runs/other").exists()


def test_a_folder_without_a_checkpoint_is_never_tested(cycle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Left by a run that was killed in its first epoch, or before."""
    monkeypatch.chdir(cycle)
    killed, empty = Path("runs/digits/version_1"), Path("runs/digits/version_2")
    killed.mkdir()
    (killed / "config.yaml").write_bytes((LAST.parents[1] / "config.yaml").read_bytes())
    empty.mkdir()
    (empty / ".lock").touch()
    try:
        assert RunFolder.trained(Path("runs/digits")) == RunFolder(Path("runs/digits/version_0"))
        assert RunFolder.begun(Path("runs/digits")) == RunFolder(killed)
        assert main(["test", "--config", "digits.yaml", "--trainer.accelerator=cpu"]) == 0
        assert (LAST.parents[1] / "results.json").is_file()
    finally:
        RunFolder(killed).remove()
        RunFolder(empty).remove()


HOLD = """
import sys, time
from multiprocessing import Process
from pathlib import Path
from ckcnn.runs.folder import RunFolder
from ckcnn.runs.lock import hold
if __name__ == "__main__":
    hold(RunFolder(Path(sys.argv[1])))
    Process(target=time.sleep, args=(20,), daemon=True).start()  # a worker that outlives its parent
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_process_is_refused_until_the_first_one_is_dead(
    cycle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(cycle)
    monkeypatch.setattr(lock, "_WAIT", 0.2)
    before = state_of(Path("runs"))
    with subprocess.Popen([sys.executable, "-c", HOLD, str(LAST.parents[1])], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert main([*FIT, *CYCLE, "--ckpt_path", "last"]) == 2
        assert (
            "another process is training in runs/digits/version_0; wait until it has ended" in capsys.readouterr().err
        )
        assert state_of(Path("runs")) == before
        assert main(["test", "--config", "digits.yaml", "--trainer.accelerator=cpu"]) == 0  # reading needs no lock
        other.kill()
    assert main([*FIT, *CYCLE, "--ckpt_path", "last"]) == 0


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    return Campaign(tmp_path_factory.mktemp("campaign"))


MOMENTS = ("first batch", "last batch", "validation", "saving")
EVERY_MOMENT = [
    (Settings(schedule, 5, accumulate, workers, 1), moment, number)
    for schedule in ("one_cycle", "plateau", "constant")
    for accumulate, workers in ((1, 0), (3, 2))
    for moment in MOMENTS
    for number in (signal.SIGTERM, signal.SIGKILL)
]
FEW = [EVERY_MOMENT[index] for index in (3, 20, 38)]  # one of every schedule


@pytest.mark.parametrize(("settings", "moment", "number"), FEW)
def test_stopped_at_some_moments(campaign: Campaign, settings: Settings, moment: str, number: signal.Signals) -> None:
    assert campaign.aimed("some", settings, moment, number) == ""


@pytest.mark.slow
@pytest.mark.parametrize(("settings", "moment", "number"), [case for case in EVERY_MOMENT if case not in FEW])
def test_stopped_at_every_moment(campaign: Campaign, settings: Settings, moment: str, number: signal.Signals) -> None:
    """Every schedule, also while gradients accumulate and workers read ahead."""
    assert campaign.aimed("every", settings, moment, number) == ""


WAYS = [
    *(Settings(name, 5, 1, 0, 1) for name in SCHEDULES),
    *(Settings("plateau", 5, 3, 0, 1, name) for name in EXTRAS),
]


@pytest.mark.slow
@pytest.mark.parametrize("settings", WAYS, ids=lambda settings: f"{settings.schedule}, {settings.extra}")
@pytest.mark.parametrize("moment", ["middle batch", "validation"])
def test_every_way_to_train_resumes(campaign: Campaign, settings: Settings, moment: str) -> None:
    """Classes of torch, coarse to fine, augmentation, clipping, validation within epochs, other precisions, metrics."""
    assert campaign.aimed("way", settings, moment, signal.SIGTERM) == ""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(("schedule", "accumulate", "rank"), [("one_cycle", 1, 0), ("plateau", 3, 1)])
def test_two_processes_stopped_at_every_moment(
    campaign: Campaign, schedule: str, accumulate: int, rank: int, moment: str, number: signal.Signals
) -> None:
    """The signal reaches one of them."""
    if rank and moment == "saving":
        pytest.skip("the first process saves")
    assert campaign.aimed("pair", Settings(schedule, 5, accumulate, 0, 2), moment, number, rank) == ""
