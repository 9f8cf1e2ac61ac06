"""A callback that ends its own process at a moment that no timer would hit."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from pytorch_lightning import Callback

MOMENTS = ("setup", "start", "first batch", "middle batch", "last batch", "validation", "saving", "renaming", "renamed")


class StopAt(Callback):
    """Sends a signal to this process.

    Args:
        moment: one of `MOMENTS`.
        number: of the signal.
        epoch: from which on.
        rank: of the process that gets it.
    """

    def __init__(self, moment: str, number: int, epoch: int = 0, rank: int = 0) -> None:
        self.moment, self.number, self.epoch, self.rank = moment, number, epoch, rank
        self.sent = False

    def _reached(self, moment: str, trainer: Any) -> None:
        due = moment in ("setup", "start") or trainer.current_epoch >= self.epoch
        if due and moment == self.moment and not self.sent and trainer.global_rank == self.rank:
            self._send()

    def _send(self) -> None:
        self.sent = True
        os.kill(os.getpid(), self.number)

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._reached("setup", trainer)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._reached("start", trainer)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        last = trainer.num_training_batches - 1
        for moment, index in {"first batch": 0, "middle batch": last // 2, "last batch": last}.items():
            if batch_idx == index:
                self._reached(moment, trainer)

    def on_validation_batch_start(self, trainer: Any, *_: Any) -> None:
        self._reached("validation", trainer)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Wait for the next file that is written: what comes after this are the row and the checkpoint of the epoch."""
        if self.sent or trainer.current_epoch < self.epoch or trainer.global_rank != self.rank:
            return
        if self.moment == "saving":
            self._before_fsync()
        elif self.moment in ("renaming", "renamed"):
            self._around_replace()

    def _before_fsync(self) -> None:
        fsync = os.fsync

        def stopped(file: int) -> None:
            os.fsync = fsync
            self._send()
            fsync(file)

        os.fsync = stopped

    def _around_replace(self) -> None:
        replace, calls = Path.replace, [0]

        def stopped(source: Path, target: Any) -> Path:
            calls[0] += 1
            checkpoint = calls[0] == 2  # after the row
            if checkpoint:
                Path.replace = replace  # type: ignore[method-assign]
            if checkpoint and self.moment == "renaming":
                self._send()
            result = replace(source, target)
            if checkpoint and self.moment == "renamed":
                self._send()
            return result

        Path.replace = stopped  # type: ignore[method-assign]


def flags(moment: str, number: signal.Signals, epoch: int, rank: int) -> list[str]:
    """The options of ``ckcnn fit`` that add the callback."""
    options = {"moment": moment, "number": int(number), "epoch": epoch, "rank": rank}
    words = ["--trainer.callbacks+=tests.campaign.moments.StopAt"]
    return words + [f"--trainer.callbacks.{name}={value}" for name, value in options.items()]
