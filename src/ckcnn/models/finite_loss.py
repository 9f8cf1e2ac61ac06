"""Ends a training whose loss is no longer a number, before anything that it spoiled is saved."""

from __future__ import annotations

import math
from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from torch import Tensor
from torch.nn.utils import get_total_norm

from ckcnn.processes import Agreement


class DivergenceError(RuntimeError):
    """The loss or a weight is no longer a number; the message says since when."""


class FiniteLoss(Callback):
    """Notes on the device when the loss stops being finite, and ends the training in all processes.

    No step waits for it: the note is read every few steps, and always before a validation and before a checkpoint is
    written, when the weights are looked at, too. One process on a CPU reads it before every change of the weights.
    """

    def __init__(self) -> None:
        self._first = torch.tensor(math.inf)  # the first step whose loss is not finite
        self._agreement = Agreement()

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        self._first = torch.full((), math.inf, device=module.device)
        self._agreement = Agreement()

    def on_before_backward(self, trainer: Trainer, module: LightningModule, loss: Tensor) -> None:
        self._note(loss.detach().isfinite(), trainer.global_step)
        if self._free(trainer):
            self._check(trainer, module)

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if not self._free(trainer) and self._agreement.due():
            self._check(trainer, module)

    def on_validation_start(self, trainer: Trainer, module: LightningModule) -> None:
        if trainer.training and not trainer.sanity_checking:
            self._check_weights(trainer, module)

    def on_save_checkpoint(self, trainer: Trainer, module: LightningModule, checkpoint: dict[str, Any]) -> None:
        self._check_weights(trainer, module)

    def _free(self, trainer: Trainer) -> bool:
        """Whether reading the note costs nothing."""
        return trainer.world_size == 1 and self._first.device.type == "cpu"

    def _note(self, finite: Tensor, step: int) -> None:
        self._first = torch.where(finite, self._first, self._first.clamp(max=float(step)))

    def _check_weights(self, trainer: Trainer, module: LightningModule) -> None:
        """A gradient that is not finite spoils the weights one step before the loss shows it."""
        weights = [weight.detach() for weight in module.parameters()]
        self._note(get_total_norm(weights, math.inf).isfinite(), trainer.global_step - 1)
        self._check(trainer, module)

    def _check(self, trainer: Trainer, module: LightningModule) -> None:
        first = self._agreement.lowest(self._first)
        if math.isinf(first):
            return
        rate = trainer.optimizers[0].param_groups[0]["lr"]
        value = module.hparams.get("omega_0")
        omega_0 = f", omega_0 {value:g}" if isinstance(value, float) else ""
        raise DivergenceError(
            f"the loss became NaN or infinite at step {first:.0f} (epoch {trainer.current_epoch}), "
            f"learning rate {rate:g}{omega_0}; "
            "try a smaller --model.learning_rate or --trainer.gradient_clip_val 1"
        )
