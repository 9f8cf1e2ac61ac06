"""Makes what is random in training repeatable."""

from __future__ import annotations

from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule, Trainer

from ckcnn.compat.lightning import batches_done, begin_epoch_again

_STRIDE = 1_000_003  # between the seeds of two runs


class StepSeed(Callback):
    """Makes the randomness of a step (dropout) a function of seed, step and process alone.

    So a resumed run draws what an uninterrupted one would have drawn. Loaders of ours have an order of their own; what
    others draw for an epoch, such as its order, is a function of seed, epoch and process.

    Args:
        seed: of the run.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._is_first = True

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        self._is_first = True

    def on_train_epoch_start(self, trainer: Trainer, module: LightningModule) -> None:
        if getattr(trainer.train_dataloader, "knows_its_place", False):
            return
        self._seed(trainer, module)
        if self._is_first:  # the iterator of the first epoch was made before anything was called
            begin_epoch_again(trainer)
        self._is_first = False

    def on_train_batch_start(self, trainer: Trainer, module: LightningModule, batch: Any, index: int) -> None:
        self._seed(trainer, module)

    def _seed(self, trainer: Trainer, module: LightningModule) -> None:
        seed = self.seed * _STRIDE + batches_done(trainer) * trainer.world_size + trainer.global_rank
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would take 1.6 ms where there is no GPU
        if module.device.type == "cuda":
            torch.cuda.manual_seed(seed)
        elif module.device.type == "mps":
            torch.mps.manual_seed(seed)
