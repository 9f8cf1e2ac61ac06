"""Trains a model on data in memory with Lightning's Trainer; writes no file."""

from __future__ import annotations

import copy
import logging
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.callbacks import TQDMProgressBar

from ckcnn.compat.lightning import LateCallback
from ckcnn.datamodules import SequenceDataModule
from ckcnn.models.sequence_module import SequenceModule
from ckcnn.runs.ranking import rank
from ckcnn.runs.seeding import StepSeed


class History(LateCallback):
    """Notes the metrics of every epoch.

    Attributes:
        epochs: one dictionary an epoch, such as ``{"train/loss": 0.3, "train/accuracy": 0.9}``.
    """

    def __init__(self) -> None:
        self.epochs: list[dict[str, float]] = []

    def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        self.epochs.append({name: float(value) for name, value in trainer.callback_metrics.items()})


class KeepBest(LateCallback):
    """Gives a model the weights of its best epoch, and stops when no better one came for a while.

    Args:
        patience: epochs without a better one after which training stops.
    """

    def __init__(self, patience: int) -> None:
        self.patience, self.epoch, self.best = patience, -1, (math.inf, math.inf)
        self.weights: dict[str, Any] = {}

    def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        assert isinstance(module, SequenceModule)
        metrics = trainer.callback_metrics
        found = rank(float(metrics[module.monitor]), float(metrics["val/loss"]), module.mode)
        if found < self.best or self.epoch < 0:
            self.best, self.epoch, self.weights = found, trainer.current_epoch, copy.deepcopy(module.state_dict())
        elif trainer.current_epoch - self.epoch >= self.patience:
            trainer.should_stop = True

    def on_fit_end(self, trainer: Trainer, module: LightningModule) -> None:
        module.load_state_dict(self.weights)


def train(
    model: SequenceModule,
    data: SequenceDataModule,
    max_epochs: int,
    seed: int,
    patience: int,
    verbose: bool = False,
    accelerator: str = "auto",
) -> list[dict[str, float]]:
    """Train a model, and return the metrics of every epoch.

    Args:
        model: to train; afterwards it is on the CPU, ready to predict.
        data: what to train on; where it has validation sequences, the best epoch is kept.
        max_epochs: the number of epochs, unless training stops before.
        seed: of what is random in the steps of training.
        patience: epochs without a better one after which training stops, where there is validation.
        verbose: whether to show a progress bar.
        accelerator: where to compute, as Lightning calls it.
    """
    history = History()
    callbacks: list[Callback] = [StepSeed(seed), history]
    data.setup()
    if len(data.splits["val"]):
        callbacks.append(KeepBest(patience))
    if verbose:
        callbacks.append(TQDMProgressBar())
    with quiet():
        trainer = Trainer(
            accelerator=accelerator,
            devices=1,
            max_epochs=max_epochs,
            callbacks=callbacks,
            limit_val_batches=1.0 if len(data.splits["val"]) else 0,
            num_sanity_val_steps=0,
            logger=False,
            enable_model_summary=False,
            enable_progress_bar=verbose,
        )
        trainer.fit(model, data)
    model.trainer = None
    model.cpu().eval()
    return history.epochs


@contextmanager
def quiet() -> Iterator[None]:
    """Leave out what Lightning says about its surroundings, and leave its loggers as they were."""
    loggers = [logging.getLogger(f"{name}.utilities.rank_zero") for name in ("pytorch_lightning", "lightning_fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def epochs_of(steps: int, sequences: int, batch_size: int) -> int:
    """Return how many epochs take about this many steps, at least one.

    Example:
        >>> epochs_of(1000, sequences=100, batch_size=16)
        143
    """
    return max(1, round(steps / math.ceil(sequences / batch_size)))


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch, and give the caller's random numbers back afterwards."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield
