"""Keeps the last and the best checkpoint of a run."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from pytorch_lightning import LightningModule, Trainer

from ckcnn.compat.lightning import LateCallback
from ckcnn.files import replacing_path
from ckcnn.runs.best_epoch import BestEpoch
from ckcnn.runs.epoch_clock import EpochClock
from ckcnn.runs.folder import RunFolder


class KeepCheckpoints(LateCallback):
    """Saves ``last.ckpt`` after every epoch, and the best epoch under its own name.

    A kill at any time leaves a complete ``last.ckpt``, and the rows and the best checkpoint that belong to it.

    Args:
        run: the run folder.
        clock: its state is saved; the epoch is complete, so nothing of it remains to be counted.
        best: knows whether the epoch is the best so far.

    Attributes:
        finished: whether training has stopped because it was good enough, or no longer improved.
    """

    def __init__(self, run: RunFolder, clock: EpochClock, best: BestEpoch) -> None:
        self.run, self.clock, self.best = run, clock, best
        self.finished = False

    def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        if trainer.fast_dev_run:  # type: ignore[attr-defined]
            return
        self.finished = trainer.should_stop
        self.clock.reset()
        if not self.best.is_new:
            trainer.save_checkpoint(self.run.last, weights_only=False)
            return
        path = self.run.best_of(self.best.epoch)
        trainer.save_checkpoint(path, weights_only=False)
        if trainer.is_global_zero:
            # In this order: a kill in between leaves the last checkpoint with the best one that it knows of.
            _link(path, self.run.last)
            for other in set(self.run.checkpoints.glob("best-*.ckpt")) - {path}:
                other.unlink()

    def state_dict(self) -> dict[str, Any]:
        return {"finished": self.finished}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        vars(self).update(state_dict)


def _link(source: Path, target: Path) -> None:
    """Make `target` the same file as `source`, in one step; a copy where the disk has no links."""
    with replacing_path(target, sync=False) as part:  # the source is safe on the disk already
        try:
            os.link(source, part)
        except OSError:
            shutil.copyfile(source, part)
