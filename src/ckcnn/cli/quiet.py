"""What a person sees while training: one bar, and none of the lines that are no news."""

from __future__ import annotations

import logging
import threading
import warnings
from typing import Any

from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import RichProgressBar

_NO_NEWS = ("Tip:", "GPU available", "TPU available", "Loading `train_dataloader`", "Seed set to")
_HARMLESS = (
    r"\s*.* was deprecated in v4[.\d]+ and will be removed in v5",  # between Lightning and its argument parser
    r"\s*By default only one Jsonargparse",
    ".*is smaller than the logging interval",  # metrics are logged once an epoch
    ".*does not have many workers",  # most of the data is in memory
    ".*isinstance.treespec, LeafSpec",  # between Lightning and torch
    ".*conditioned on metric .* which is not available",  # somebody trains without validation
    ".*is not resumable",  # our loader is
    "You have overridden `on_before_batch_transfer` in `LightningModule` but",  # it checks batches of any data
    ".*It is recommended to use .self.log",  # values are computed over all processes already
)


class ProgressBar(RichProgressBar):
    """Lightning's bar without the metrics, which are in the line of each epoch."""

    def __init__(self) -> None:
        super().__init__(refresh_rate=10)

    def get_metrics(self, trainer: Trainer, model: LightningModule) -> dict[str, Any]:
        return {}


def make_quiet() -> None:
    """Leave out what Lightning says to everybody."""
    for name in ("pytorch_lightning", "lightning_fabric"):
        for logger in (name, f"{name}.utilities.rank_zero", f"{name}.utilities.seed"):
            logging.getLogger(logger).addFilter(_is_news)
    for message in _HARMLESS:
        warnings.filterwarnings("ignore", message=message)
    threading.excepthook = _without_disk_errors


def _without_disk_errors(failed: threading.ExceptHookArgs) -> None:
    """Print no traceback of the thread that writes TensorBoard's log: its logger hears of the error and says so."""
    if not isinstance(failed.exc_value, OSError):
        threading.__excepthook__(failed)


def _is_news(record: logging.LogRecord) -> bool:
    return not any(part in record.getMessage() for part in _NO_NEWS)
