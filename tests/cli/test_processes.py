"""Two processes train as one with batches twice as large, count every sample once, and share one run folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from ckcnn.datamodules import Digits
from ckcnn.datamodules.sequences import DataError
from ckcnn.runs import checkpoints
from ckcnn.runs.metrics_table import read

# 39 steps of 32 sequences and one of 9, which two processes cannot share evenly; float64: only rounding differs.
FIT = [
    "fit",
    "--config",
    "digits.yaml",
    "--model.hidden_channels=6",
    "--model.dropout=0",
    "--model.input_dropout=0",
    "--model.schedule=plateau",
    "--trainer.accelerator=cpu",
    "--trainer.enable_progress_bar=false",
    "--trainer.max_epochs=2",
    "--trainer.precision=64-true",
]
TWO = ["--data.batch_size=16", "--trainer.devices=2", "--trainer.strategy=ddp"]
TOLERANCE = 1e-9  # of the weights after 80 steps


def run(folder: Path, *command: str) -> str:
    environment = {**os.environ, "CKCNN_DATA": str(folder / "data")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    run(folder, sys.executable, "-m", "ckcnn", *FIT, "--data.batch_size=32")
    return folder


@pytest.mark.parametrize("launcher", ["lightning", "torchrun"])
def test_two_processes_are_one_with_twice_the_batch(launcher: str, alone: Path, tmp_path: Path) -> None:
    start = [sys.executable, "-m", "ckcnn"]
    if launcher == "torchrun":
        start = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc_per_node=2",
            "-m",
            "ckcnn",
        ]
    run(tmp_path, *start, *FIT, *TWO)
    assert [path.name for path in (tmp_path / "runs/digits").iterdir()] == ["version_0"]  # one run folder
    assert len(list((tmp_path / "data/cache").glob("*.h5"))) == 1  # prepared once
    place = Path("runs/digits/version_0")
    ours, theirs = (torch.load(f / place / "checkpoints/last.ckpt", weights_only=True) for f in (tmp_path, alone))
    worst = max(float((ours["state_dict"][key] - value).abs().max()) for key, value in theirs["state_dict"].items())
    print(f"largest difference of a weight: {worst:.1e}")
    assert worst < TOLERANCE
    for row, expected in zip(*(read(folder / place / "metrics.csv") for folder in (tmp_path, alone)), strict=True):
        for name in ("train/loss", "train/accuracy", "val/loss", "val/accuracy"):
            assert float(row[name]) == pytest.approx(float(expected[name]), rel=1e-6), name


def test_two_processes_test_every_sample_once(alone: Path) -> None:
    """270 test sequences are odd for four processes of batches of 16; the result is that of one process."""
    figures, confusions = [], []
    for options in (["--data.batch_size=7"], TWO):
        shown = run(alone, sys.executable, "-m", "ckcnn", "test", "--ckpt_path=runs/digits/version_0", *options)
        figures.append(shown.split("test/accuracy")[1].split()[0])
        confusions.append(json.loads((alone / "runs/digits/version_0/results.json").read_text())["confusion"])
    assert figures[0] == figures[1]
    assert confusions[0] == confusions[1]
    assert sum(map(sum, confusions[1])) == 270


@pytest.mark.slow
def test_two_processes_stop_together_and_go_on(tmp_path: Path) -> None:
    """SIGTERM reaches one process in the middle of an epoch; the other one must not wait for it for ever."""
    fit = [sys.executable, "-m", "ckcnn", *FIT, *TWO, "--model.dropout=0.2", "--name"]
    environment = {**os.environ, "CKCNN_DATA": str(tmp_path / "data")}
    run(tmp_path, *fit, "whole")
    last = [tmp_path / "runs" / name / "version_0/checkpoints/last.ckpt" for name in ("whole", "stopped")]
    with (tmp_path / "log.txt").open("wb") as log:
        process = subprocess.Popen([*fit, "stopped"], cwd=tmp_path, env=environment, stdout=log, stderr=log)
    while not last[1].exists():
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=120) == 143
    assert checkpoints.load(last[1])["global_step"] % 40
    run(tmp_path, *fit, "stopped", "--ckpt_path=last")
    whole, stopped = (torch.load(path, weights_only=True)["state_dict"] for path in last)
    assert all(torch.equal(whole[key], stopped[key]) for key in whole)
    tables = [read(path.parents[1] / "metrics.csv") for path in last]
    for row, expected in zip(*tables, strict=True):
        assert float(row["train/accuracy"]) == float(expected["train/accuracy"])
        assert float(row["train/loss"]) == pytest.approx(float(expected["train/loss"]), rel=1e-6)  # order of sums


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 4])
def test_another_number_of_processes_goes_on_within_the_epoch(number: int, alone: Path, tmp_path: Path) -> None:
    """Two processes are stopped in the middle of an epoch; one or four of them take the same steps from there."""
    start = [sys.executable, "-m", "ckcnn", *FIT]
    last = tmp_path / "runs/digits/version_0/checkpoints/last.ckpt"
    environment = {**os.environ, "CKCNN_DATA": str(tmp_path / "data")}
    with (tmp_path / "log.txt").open("wb") as log:
        process = subprocess.Popen([*start, *TWO], cwd=tmp_path, env=environment, stdout=log, stderr=log)
    while not last.exists():
        assert process.poll() is None, (tmp_path / "log.txt").read_text()
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=120) == 143
    stopped = checkpoints.load(last)["global_step"]
    assert stopped % 40
    print(f"stopped after step {stopped}")
    others = [] if number == 1 else [f"--trainer.devices={number}", "--trainer.strategy=ddp"]
    run(tmp_path, *start, *others, f"--data.batch_size={32 // number}", "--ckpt_path=last")
    ours, theirs = (
        torch.load(folder / "runs/digits/version_0/checkpoints/last.ckpt", weights_only=True)["state_dict"]
        for folder in (tmp_path, alone)
    )
    worst = max(float((ours[key] - value).abs().max()) for key, value in theirs.items())
    print(f"largest difference of a weight: {worst:.1e}")
    assert worst < TOLERANCE


def test_a_run_keeps_the_size_of_its_steps(tmp_path: Path) -> None:
    data = Digits(root=tmp_path, batch_size=16)
    data.load_state_dict({"given": 3, "together": 16})
    message = "trained with 32 sequences a step, but 1 process with --data.batch_size 16 make 16; set --data.batch_size"
    with pytest.raises(DataError, match=message):
        data.load_state_dict({"given": 3, "together": 32})


@pytest.mark.slow
def test_the_others_end_with_one_sentence_if_a_process_is_killed(tmp_path: Path) -> None:
    fit = [sys.executable, "-m", "ckcnn", *FIT, *TWO, "--trainer.max_epochs=500"]
    environment = {**os.environ, "CKCNN_DATA": str(tmp_path / "data")}
    with (tmp_path / "log.txt").open("wb") as log:
        process = subprocess.Popen(fit, cwd=tmp_path, env=environment, stdout=log, stderr=log)
    last = tmp_path / "runs/digits/version_0/checkpoints/last.ckpt"
    while not last.exists():
        assert process.poll() is None, (tmp_path / "log.txt").read_text()
        time.sleep(0.01)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for child in map(int, children):
        if b"ckcnn" in Path(f"/proc/{child}/cmdline").read_bytes():
            os.kill(child, signal.SIGKILL)
    assert process.wait(timeout=60) == 1
    said = (tmp_path / "log.txt").read_text().splitlines()
    assert said[-1] == "ckcnn: error: another process of this run has ended; resume with --ckpt_path last"
    assert "Traceback" not in "".join(said)
