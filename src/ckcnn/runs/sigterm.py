"""What SIGTERM does to a run: it completes its step, saves, and asks the cluster to be run again."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

from lightning_utilities.core.rank_zero import rank_zero_info
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.utilities.exceptions import SIGTERMException

from ckcnn.compat.lightning import LateCallback, stop_after_this_step
from ckcnn.runs.epoch_clock import EpochClock
from ckcnn.runs.folder import RunFolder
from ckcnn.runs.requeue import requeue


class StopOnSigterm(Callback):
    """Notes SIGTERM and stops all processes after the same step, whichever of them got it, so they can save together.

    Attributes:
        asked: whether this process got the signal.
    """

    def __init__(self) -> None:
        self.asked = False

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._note)  # the trainer restores the previous one

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.asked = True

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        stop = self.asked
        if trainer.world_size > 1:
            stop = trainer.strategy.reduce_boolean_decision(stop, all=False)
        # Gradients that are still being accumulated are in no checkpoint, so their optimiser step is completed first.
        accumulated = (batch_idx + 1) % trainer.accumulate_grad_batches == 0 or trainer.is_last_batch
        if stop and accumulated:
            stop_after_this_step(trainer)


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
        self.clock.interrupt()
        trainer.save_checkpoint(self.run.last, weights_only=False)
        rank_zero_info(f"stopped by SIGTERM at step {trainer.global_step}, saved {self.run.last}")
        if trainer.is_global_zero:
            requeue()
