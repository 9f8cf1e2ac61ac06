"""Makes what is random in training repeatable."""

from __future__ import annotations

from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule, Trainer

from ckcnn.compat.lightning import batches_done

_STRIDE = 1_000_003  # between the seeds of two runs


class StepSeed(Callback):
    """Makes the randomness of a step (dropout) a function of seed, step and process alone.

    So a resumed run draws what an uninterrupted one would have drawn.

    Args:
        seed: of the run.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def on_train_batch_start(self, trainer: Trainer, module: LightningModule, batch: Any, index: int) -> None:
        seed = self.seed * _STRIDE + batches_done(trainer) * trainer.world_size + trainer.global_rank
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would take 1.6 ms where there is no GPU
        if module.device.type == "cuda":
            torch.cuda.manual_seed(seed)
        elif module.device.type == "mps":
            torch.mps.manual_seed(seed)
