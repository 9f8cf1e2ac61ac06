"""Trains in two processes and writes what they told each other at each step to ``rank_N.json``."""

from __future__ import annotations

import json
import math
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.data import DataLoader

from ckcnn import CKCNN, processes
from ckcnn.datamodules import SequenceBatch
from ckcnn.models.finite_loss import DivergenceError
from ckcnn.processes import leave_process_group
from ckcnn.runs.sigterm import StopOnSigterm

STEPS = 120


class MarkSteps(Callback):
    """Puts a mark into the profile where a step begins."""

    def on_train_batch_start(self, trainer: Trainer, module: LightningModule, batch: Any, batch_idx: int) -> None:
        with record_function("step"):
            pass


def collectives(events: Iterable[FunctionEvent]) -> list[dict[str, int]]:
    """The operations of torch.distributed, those that DDP starts included, between the marks of the steps."""
    steps: list[Counter[str]] = []
    for event in sorted(events, key=lambda event: event.time_range.start):
        if event.name == "step":
            steps.append(Counter())
        elif event.name.startswith("c10d::") and steps:
            steps[-1][event.name] += 1
    return [dict(step) for step in steps]


def train(arguments: Sequence[str]) -> int:
    """Train in this process, one of two.

    Args:
        arguments: at most one: the step at which the loss of the last process becomes infinite.
    """
    warnings.simplefilter("ignore")
    processes._SECONDS = math.inf  # so the questions do not depend on how fast this machine is
    torch.manual_seed(0)
    model = CKCNN(in_channels=1, out_channels=2, task="classification", horizon=8, hidden_channels=4, num_blocks=1)
    batch = SequenceBatch(torch.randn(2, 1, 8), torch.tensor([0, 1]))
    batches = [batch] * STEPS
    trainer = Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, use_distributed_sampler=False,
        callbacks=[StopOnSigterm(), MarkSteps()],
    )  # fmt: skip
    if arguments and trainer.global_rank == trainer.world_size - 1:
        batches[int(arguments[0])] = batch._replace(x=batch.x * float("inf"))
    message = ""
    try:
        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            trainer.fit(model, DataLoader(batches, batch_size=None))  # type: ignore[arg-type]
    except DivergenceError as error:
        message = str(error)
    saved = True
    try:
        trainer.save_checkpoint("spoiled.ckpt", weights_only=False)
    except DivergenceError:
        saved = False
    answer = Path(f"rank_{trainer.global_rank}.json")
    answer.write_text(json.dumps({"collectives": collectives(profiled.events()), "message": message, "saved": saved}))
    leave_process_group()
    return 0
