"""Processes train as one with larger batches, count every sample once, and share one run folder."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ckcnn.__main__ import main
from ckcnn.datamodules import Digits
from ckcnn.datamodules.sequences import DataError
from ckcnn.runs import checkpoints
from ckcnn.runs.metrics_table import read
from tests.ranks import Ranks

STEPS = 20  # an epoch: 19 of 64 sequences and one of 41, which neither two nor four processes can share evenly
FIT = [
    "fit",
    "--config=digits.yaml",
    "--model.hidden_channels=6",
    "--model.dropout=0",
    "--model.input_dropout=0",
    "--model.schedule=plateau",
    "--trainer.accelerator=cpu",
    "--trainer.enable_progress_bar=false",
    "--trainer.max_epochs=2",
    "--trainer.precision=64-true",  # only rounding differs
]
TOLERANCE = 1e-9  # of the weights after 40 steps
RUN = Path("runs/digits/version_0")
LAST = RUN / "checkpoints/last.ckpt"


def on(number: int) -> list[str]:
    """Options that train with the same steps on so many processes."""
    return [f"--data.batch_size={64 // number}", f"--trainer.devices={number}", "--trainer.strategy=ddp"][: 1 + number]


def stop(number: signal.Signals, rank: int) -> list[str]:
    """Options that send a signal to one process in the middle of the second epoch."""
    options = {"moment": "middle batch", "number": int(number), "epoch": 1, "rank": rank}
    return [
        "--trainer.callbacks+=tests.campaign.moments.StopAt",
        *(f"--trainer.callbacks.{name}={value}" for name, value in options.items()),
    ]


def finish(number: int, folder: Path, data: Path, *arguments: str) -> str:
    """Run a command on so many processes, and return what the first of them prints."""
    ranks = Ranks(number, folder, main, arguments, data)
    assert ranks.wait() == [0] * number, "\n".join(map(ranks.printed, range(number)))
    return ranks.printed()


def assert_same_training(folder: Path, other: Path) -> None:
    ours, theirs = (torch.load(place / LAST, weights_only=True)["state_dict"] for place in (folder, other))
    worst = max(float((ours[key] - value).abs().max()) for key, value in theirs.items())
    print(f"largest difference of a weight: {worst:.1e}")
    assert worst < TOLERANCE
    for row, expected in zip(*(read(place / RUN / "metrics.csv") for place in (folder, other)), strict=True):
        for name in ("train/loss", "train/accuracy", "val/loss", "val/accuracy"):
            assert float(row[name]) == pytest.approx(float(expected[name]), rel=1e-6), name


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """The folder of a training in one process."""
    folder = tmp_path_factory.mktemp("alone")
    finish(1, folder, data, *FIT, *on(1))
    return folder


@pytest.mark.parametrize("launcher", ["ckcnn", "torchrun"])
def test_two_processes_are_one_with_twice_the_batch(launcher: str, alone: Path, tmp_path: Path) -> None:
    module = {"ckcnn": [], "torchrun": ["torch.distributed.run", "--standalone", "--nproc_per_node=2", "-m"]}[launcher]
    command = [sys.executable, "-m", *module, "ckcnn", *FIT, *on(2)]
    environment = {**os.environ, "CKCNN_DATA": str(tmp_path / "data")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "runs/digits").iterdir()] == ["version_0"]  # one run folder
    assert len(list((tmp_path / "data/cache").glob("*.h5"))) == 1  # prepared once
    assert_same_training(tmp_path, alone)


def test_four_processes_are_one_with_four_times_the_batch(alone: Path, data: Path, tmp_path: Path) -> None:
    finish(4, tmp_path, data, *FIT, *on(4))
    assert_same_training(tmp_path, alone)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """The folder of a training of two processes that SIGTERM stopped; it reached one of them."""
    folder = tmp_path_factory.mktemp("stopped")
    ranks = Ranks(2, folder, main, [*FIT, *on(2), *stop(signal.SIGTERM, rank=1)], data)
    assert ranks.wait() == [143, 143], ranks.printed()
    assert STEPS < checkpoints.load(folder / LAST)["global_step"] < 2 * STEPS
    return folder


@pytest.mark.parametrize("number", [1, 2, 4])
def test_any_number_of_processes_resumes_within_the_epoch(
    number: int, alone: Path, stopped: Path, data: Path, tmp_path: Path
) -> None:
    shutil.copytree(stopped, tmp_path, dirs_exist_ok=True)
    finish(number, tmp_path, data, *FIT, *on(number), "--ckpt_path=last")
    assert_same_training(tmp_path, alone)


@pytest.mark.parametrize("rank", [0, 1])
def test_the_other_ends_with_one_sentence_if_a_process_is_killed(
    rank: int, alone: Path, data: Path, tmp_path: Path
) -> None:
    ranks, other = Ranks(2, tmp_path, main, [*FIT, *on(2), *stop(signal.SIGKILL, rank)], data), 1 - rank
    codes = ranks.wait(60)
    assert (codes[rank], codes[other]) == (-signal.SIGKILL, 1), ranks.printed(other)
    said = ranks.printed(other)
    assert said.splitlines()[-1] == "ckcnn: error: another process of this run has ended; resume with --ckpt_path last"
    assert "Traceback" not in said
    finish(1, tmp_path, data, *FIT, *on(1), "--ckpt_path=last")
    assert_same_training(tmp_path, alone)


def test_two_processes_test_every_sample_once(alone: Path, data: Path) -> None:
    """270 test sequences are odd for four processes of batches of 16; the result is that of one process."""
    accuracies, confusions = [], []
    for number, options in ((1, ["--data.batch_size=7"]), (2, [*on(2), "--data.batch_size=16"])):
        shown = finish(number, alone, data, "test", f"--ckpt_path={RUN}", *options)
        accuracies.append(shown.split("test/accuracy")[1].split()[0])
        confusions.append(json.loads((alone / RUN / "results.json").read_text())["confusion"])
    assert accuracies[0] == accuracies[1]
    assert confusions[0] == confusions[1]
    assert sum(map(sum, confusions[1])) == 270


@pytest.mark.slow
def test_two_processes_stop_together_and_resume_exactly(data: Path, tmp_path: Path) -> None:
    """SIGTERM reaches one process in the middle of an epoch; with dropout, the rest is the same to the last bit."""
    fit = [*FIT, *on(2), "--model.dropout=0.2", "--runs"]
    finish(2, tmp_path, data, *fit, "whole")
    ranks = Ranks(2, tmp_path, main, [*fit, "stopped", *stop(signal.SIGTERM, rank=1)], data)
    assert ranks.wait() == [143, 143], ranks.printed()
    finish(2, tmp_path, data, *fit, "stopped", "--ckpt_path=last")
    places = [tmp_path / name / RUN.relative_to("runs") for name in ("whole", "stopped")]
    whole, again = (torch.load(place / "checkpoints/last.ckpt", weights_only=True)["state_dict"] for place in places)
    assert all(torch.equal(whole[key], again[key]) for key in whole)
    for row, expected in zip(*(read(place / "metrics.csv") for place in places), strict=True):
        assert float(row["train/accuracy"]) == float(expected["train/accuracy"])
        assert float(row["train/loss"]) == pytest.approx(float(expected["train/loss"]), rel=1e-6)  # order of sums


def test_a_run_keeps_the_size_of_its_steps(tmp_path: Path) -> None:
    data = Digits(root=tmp_path, batch_size=16)
    data.load_state_dict({"given": 3, "together": 16})
    message = "trained with 32 sequences a step, but 1 process with --data.batch_size 16 make 16; set --data.batch_size"
    with pytest.raises(DataError, match=message):
        data.load_state_dict({"given": 3, "together": 32})
