"""The benchmark compares like with like, and measures what it says."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

from benchmarks.adding import NEAR, describe, errors
from benchmarks.cases import BOUND, MODELS, SHAPES, Shape, _make_net, make_step
from benchmarks.step import Result
from benchmarks.textbook import TextbookConv
from ckcnn.datamodules import AddingProblem
from ckcnn.nn import CKConv

SMALL = Shape("small", batch=2, in_channels=3, length=40, hidden=6, classes=4, rounds=1, steps=1)


@pytest.mark.parametrize("length", [7, 8, 182])
def test_textbook_gives_the_same_result(length: int) -> None:
    ours, theirs = CKConv(3, 4, length).double(), TextbookConv(3, 4, length).double()
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(2, 3, length, dtype=torch.float64)
    assert (ours(x) - theirs(x)).abs().max() < 1e-10


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_peers_have_about_the_same_size(shape: Shape) -> None:
    sizes = {model: sum(p.numel() for p in _make_net(model, shape).parameters()) for model in MODELS}
    for model, size in sizes.items():
        assert size == pytest.approx(sizes["ckcnn"], rel=0.05), model


@pytest.mark.parametrize(
    "model", [*MODELS[1:], BOUND]
)  # the first and the bound keep memory, which stays with a process
def test_a_step_runs(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.cases.keep_memory", lambda: True)
    make_step(model, SMALL)()


def test_worker_answers_with_times_and_peak() -> None:
    command = [sys.executable, "-m", "benchmarks.worker", "ckcnn", "CT"]
    answer = subprocess.run(command, input="time\npeak\n", capture_output=True, text=True, check=True).stdout
    seconds, peak = map(json.loads, answer.splitlines())
    assert len(seconds) == next(shape.steps for shape in SHAPES if shape.name == "CT")
    assert all(second > 0 for second in seconds)
    assert 1e6 < peak < 1e9


def test_ratio_is_taken_within_rounds() -> None:
    slow, fast = Result([2.0, 20.0, 2.0], peak=1), Result([1.0, 10.0, 0.5], peak=1)
    assert slow.times(fast) == 2.0
    assert slow.seconds == 2.0


def test_errors_of_the_adding_problem_are_told_by_the_place_of_the_second_number() -> None:
    class ForgetsTheEnd(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x[:, 0] * x[:, 1])[:, :-NEAR].sum(1, keepdim=True)

    data = AddingProblem(length=100, batch_size=50)
    data.prepare_data()
    data.setup()
    squares, lags = errors(ForgetsTheEnd(), data.test_dataloader())
    assert 0 < (lags < NEAR).sum() < len(lags) == 1000
    assert squares[lags >= NEAR].max() < 1e-10 < squares[lags < NEAR].mean()
    assert ": 100% of the error" in describe(squares, lags)
