"""A training that diverges ends in all processes, saves nothing spoiled, and no step waits for the check."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning import Trainer
from torch.utils.data import DataLoader

from ckcnn import CKCNN, processes
from ckcnn.datamodules import SequenceBatch
from ckcnn.models.finite_loss import DivergenceError
from tests.models import collectives
from tests.ranks import Ranks

BUCKETS = {"c10d::allreduce_": 1}  # of gradients: the network fits into one


def two_processes(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    """What each process wrote."""
    ranks = Ranks(2, folder, collectives.train, arguments)
    assert ranks.wait() == [0, 0], ranks.printed()
    return [json.loads((folder / f"rank_{rank}.json").read_text()) for rank in range(2)]


def test_processes_exchange_gradients_and_now_and_then_one_flag(tmp_path: Path) -> None:
    for answer in two_processes(tmp_path):
        steps = answer["collectives"]
        assert len(steps) == 120
        # DDP rebuilds its buckets in the second step; the last two end the epoch.
        asked = [index for index, counts in enumerate(steps[:-2]) if index > 1 and counts != BUCKETS]
        assert asked == [50, 100]
        assert all(steps[index] == {"c10d::allreduce_": 3} for index in asked)  # divergence and SIGTERM


def test_all_processes_end_together_and_save_nothing(tmp_path: Path) -> None:
    answers = two_processes(tmp_path, "7")
    assert all("the loss became NaN or infinite at step 7 (epoch 0)" in answer["message"] for answer in answers)
    assert len({len(answer["collectives"]) for answer in answers}) == 1  # after the same step
    assert not any(answer["saved"] for answer in answers)
    assert not list(tmp_path.glob("*.ckpt"))


def test_weights_that_a_gradient_spoiled_are_not_saved(tmp_path: Path) -> None:
    """The loss of the last step is fine, its gradient is not: no later loss would show it."""
    model = CKCNN(in_channels=1, out_channels=2, task="classification", horizon=8, hidden_channels=4, num_blocks=1)
    weight = next(model.parameters())
    weight.register_hook(lambda gradient: gradient * math.nan)
    batch = SequenceBatch(torch.randn(2, 1, 8), torch.tensor([0, 1]))
    trainer = Trainer(
        accelerator="cpu", max_epochs=1, logger=False, enable_progress_bar=False, enable_model_summary=False,
        default_root_dir=tmp_path,
    )  # fmt: skip
    with warnings.catch_warnings(action="ignore"), pytest.raises(DivergenceError, match="at step 0"):
        trainer.fit(model, DataLoader([batch], batch_size=None))  # type: ignore[arg-type]
    assert not list(tmp_path.rglob("*.ckpt"))


@pytest.mark.parametrize(("seconds", "steps"), [(0.001, 50), (0.1, 20), (0.5, 4), (3.0, 1), (0.0, 50)])
def test_questions_are_two_seconds_or_fifty_steps_apart(
    seconds: float, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(processes.time, "monotonic", lambda: now)
    agreement = processes.Agreement()
    assert agreement.due()
    now += seconds
    assert agreement.lowest(torch.tensor(-3.0)) == -3.0
    assert [agreement.due() for _ in range(steps)] == [False] * (steps - 1) + [True]
