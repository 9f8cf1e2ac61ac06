"""Remembers the best epoch of a run."""

from __future__ import annotations

from typing import Any

from pytorch_lightning import LightningModule, Trainer

from ckcnn.compat.lightning import LateCallback
from ckcnn.runs.folder import RunFolder
from ckcnn.runs.ranking import Mode, rank


class BestEpoch(LateCallback):
    """Compares each epoch with the best one so far.

    Args:
        run: the run folder.
        monitor: the logged metric that says how good an epoch is.
        mode: whether a good value of it is large or small.

    Attributes:
        is_new: whether the epoch that has just ended is the best one so far.
    """

    def __init__(self, run: RunFolder, monitor: str, mode: Mode) -> None:
        self.run, self.monitor, self.mode = run, monitor, mode
        self.epoch, self.value, self.loss = -1, float("nan"), float("inf")
        self.is_new = False

    @property
    def best_model_path(self) -> str:
        """The best checkpoint, or nothing; Lightning asks for it by this name."""
        return str(self.run.best_of(self.epoch)) if self.epoch >= 0 else ""

    def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        metrics = trainer.callback_metrics
        if self.monitor not in metrics:  # somebody trains without validation
            self.is_new = False
            return
        value, loss = float(metrics[self.monitor]), float(metrics["val/loss"])
        self.is_new = self.epoch < 0 or rank(value, loss, self.mode) < rank(self.value, self.loss, self.mode)
        if self.is_new:
            self.epoch, self.value, self.loss = trainer.current_epoch, value, loss

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "value": self.value, "loss": self.loss}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        vars(self).update(state_dict)
