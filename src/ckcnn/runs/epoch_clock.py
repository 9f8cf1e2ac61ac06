"""The duration of an epoch, including the time before an interruption."""

from __future__ import annotations

import time
from typing import Any

from pytorch_lightning import Callback, LightningModule, Trainer


class EpochClock(Callback):
    """Measure an epoch; if it was interrupted and resumed, add up both parts."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.spent = 0.0  # seconds on this epoch before the run was interrupted

    def seconds(self) -> float:
        """Return the seconds spent on the current epoch so far."""
        return self.spent + time.monotonic() - self.started

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        self.started = time.monotonic()  # Lightning calls `on_train_epoch_start` for no epoch that it resumes

    def on_train_epoch_start(self, trainer: Trainer, module: LightningModule) -> None:
        self.started = time.monotonic()

    def interrupt(self) -> None:
        """Store the time spent on this epoch in the checkpoint that the run will resume from."""
        self.spent = self.seconds()

    def reset(self) -> None:
        """Reset the clock, because the epoch is complete."""
        self.spent = 0.0

    def state_dict(self) -> dict[str, Any]:
        return {"spent": self.spent}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        vars(self).update(state_dict)
