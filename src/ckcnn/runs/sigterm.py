"""On SIGTERM, a run completes its step, saves a checkpoint and asks the cluster to requeue it."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

import torch
from lightning_utilities.core.rank_zero import rank_zero_info
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.utilities.exceptions import SIGTERMException

from ckcnn.compat.lightning import (
    LateCallback,
    ask_no_process_about_sigterm,
    stop_after_this_step,
    take_over_sigterm,
)
from ckcnn.processes import Agreement
from ckcnn.runs.epoch_clock import EpochClock
from ckcnn.runs.folder import RunFolder
from ckcnn.runs.requeue import requeue


class StopOnSigterm(Callback):
    """Stop all processes after the same step if any of them receives SIGTERM, so they save together.

    One process stops after the step at hand, several of them within about two seconds.

    Attributes:
        asked: whether this process got the signal.
    """

    def __init__(self) -> None:
        self.asked = False
        self._agreed = False  # that at least one process got it
        self._agreement = Agreement()

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        self._agreement = Agreement()
        ask_no_process_about_sigterm(trainer)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._note)  # the trainer restores the previous one
        self.asked = self.asked or take_over_sigterm(trainer)  # it may have come since the trainer began

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.asked = True

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.is_last_batch:
            return  # a validation that is cut short would be lost, so the epoch is completed
        due = self._agreement.due() or batch_idx + 2 == trainer.num_training_batches
        # Gradients that are still being accumulated are in no checkpoint, so their optimiser step is completed first.
        accumulated = (batch_idx + 1) % trainer.accumulate_grad_batches == 0
        if self._is_agreed(trainer, module, due) and accumulated:
            stop_after_this_step(trainer)

    def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        if self._is_agreed(trainer, module, due=True):
            stop_after_this_step(trainer)  # when the epoch is saved

    def _is_agreed(self, trainer: Trainer, module: LightningModule, due: bool) -> bool:
        """Return whether any process received the signal; processes communicate only when it is due."""
        if trainer.world_size == 1:
            return self.asked
        if due:
            vote = torch.full((), -float(self.asked), device=module.device)
            self._agreed = self._agreement.lowest(vote) < 0
        return self._agreed


class SaveOnSigterm(LateCallback):
    """Saves the part of the epoch that is done when SIGTERM has stopped training, and requeues the job.

    Args:
        run: the run folder.
        clock: notes what was spent on the epoch before it is saved.
    """

    def __init__(self, run: RunFolder, clock: EpochClock) -> None:
        self.run, self.clock = run, clock

    def on_exception(self, trainer: Trainer, module: LightningModule, exception: BaseException) -> None:
        if not (isinstance(exception, SIGTERMException) and trainer.training):
            return
        place = f"stopped by SIGTERM at step {trainer.global_step}"
        if getattr(trainer.train_dataloader, "knows_its_place", False):
            self.clock.interrupt()
            trainer.save_checkpoint(self.run.last, weights_only=False)
            rank_zero_info(f"{place}, saved {self.run.last}")
        else:  # resuming in the middle would give the first sequences of the epoch twice and the last ones never
            data = type(getattr(trainer, "datamodule", None)).__name__
            rank_zero_info(f"{place}; {data} cannot resume in the middle of an epoch, so this epoch will begin again")
        if trainer.is_global_zero:
            requeue()
