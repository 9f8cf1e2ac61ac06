"""The randomness of a step depends on seed, step and process, and on nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from ckcnn.runs.seeding import StepSeed


def drawn(seed: int, step: int, rank: int = 0, world_size: int = 1) -> float:
    trainer: Any = SimpleNamespace(
        fit_loop=SimpleNamespace(total_batch_idx=step), world_size=world_size, global_rank=rank
    )
    module: Any = SimpleNamespace(device=torch.device("cpu"))
    StepSeed(seed).on_train_batch_start(trainer, module, None, 0)
    return float(torch.rand(()))


def test_the_same_step_draws_the_same() -> None:
    first = drawn(0, 5)
    torch.rand(100)
    assert drawn(0, 5) == first


def test_other_steps_seeds_and_processes_draw_something_else() -> None:
    values = [drawn(seed, step, rank, 2) for seed in range(2) for step in range(3) for rank in range(2)]
    assert len(set(values)) == len(values)
