"""Two processes train as one with batches twice as large, count every sample once, and share one run folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ckcnn.metrics_table import read

# 39 steps of 32 sequences and one of 8, which two processes can share; float64, so that only rounding differs.
FIT = [
    *("fit", "--config", "digits.yaml", "--trainer.accelerator=cpu", "--trainer.enable_progress_bar=false"),
    *("--model.hidden_channels=6", "--model.dropout=0", "--model.input_dropout=0", "--model.schedule=plateau"),
    *("--trainer.max_epochs=2", "--trainer.limit_train_batches=39", "--trainer.precision=64-true"),
]
TWO = ["--data.batch_size=16", "--trainer.devices=2", "--trainer.strategy=ddp"]
TOLERANCE = 1e-9  # of the weights after 78 steps; measured 1e-10


def run(folder: Path, *command: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CKCNN_DATA": str(folder / "data")}
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
            "--nproc_per_node=2",
            "--master_port=29611",
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
    one = run(alone, sys.executable, "-m", "ckcnn", "test", "--ckpt_path=runs/digits/version_0", "--data.batch_size=7")
    two = run(alone, sys.executable, "-m", "ckcnn", "test", "--ckpt_path=runs/digits/version_0", *TWO)
    figures = [text.split("test/accuracy")[1].split()[0] for text in (one, two)]
    assert figures[0] == figures[1]
