"""What makes a run repeatable and keeps its work: a seed for every step, checkpoints, and what a signal does."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from lightning_utilities.core.rank_zero import rank_zero_info
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.callbacks import Checkpoint
from pytorch_lightning.utilities.exceptions import SIGTERMException

from ckcnn.runs.metrics_table import MetricsTable
from ckcnn.runs.ranking import Mode, rank
from ckcnn.runs.folder import RunFolder

_STRIDE = 1_000_003  # between the seeds of two runs


class StepSeed(Callback):
    """Makes the randomness of a step (dropout) a function of seed, step and process alone.

    So a run that goes on from a checkpoint draws what an uninterrupted one would have drawn.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def on_train_batch_start(self, trainer: Trainer, module: LightningModule, batch: Any, index: int) -> None:
        seed = self.seed * _STRIDE + trainer.fit_loop.total_batch_idx * trainer.world_size + trainer.global_rank
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would take 1.6 ms where there is no GPU
        if module.device.type == "cuda":
            torch.cuda.manual_seed(seed)
        elif module.device.type == "mps":
            torch.mps.manual_seed(seed)


class RunKeeper(Checkpoint):
    """Keeps what a run has done: after every epoch a row in ``metrics.csv`` and ``last.ckpt``, and the best epoch.

    Of equally good epochs the one with the smallest validation loss is kept, as in the authors' code: on a small
    validation set many epochs are equally good. A kill at any moment leaves a whole ``last.ckpt``, and the rows and the
    best checkpoint that belong to it.

    Args:
        run: the run folder.
        monitor: the logged metric that says how good an epoch is.
        mode: whether a good value of it is large or small.
    """

    def __init__(self, run: RunFolder, monitor: str, mode: Mode) -> None:
        self.run, self.monitor, self.mode = run, monitor, mode
        self.best_epoch, self.best_score, self.best_loss = -1, float("nan"), float("inf")
        self.finished = self.asked_to_stop = False
        self.table = MetricsTable(run.metrics)
        self.started = time.monotonic()
        self.spent = 0.0  # seconds on this epoch before it was stopped

    @property
    def best_model_path(self) -> str:
        """The best checkpoint; Lightning asks for it by this name."""
        return str(self.run.checkpoints / f"best-{self.best_epoch:03d}.ckpt") if self.best_epoch >= 0 else ""

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        self.table = MetricsTable(self.run.metrics, trainer.global_step)
        self.started = time.monotonic()  # Lightning starts no epoch where one goes on
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._note_signal)  # the trainer puts the old one back

    def _note_signal(self, number: int, frame: FrameType | None) -> None:
        self.asked_to_stop = True

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """All processes stop after the same step, whichever of them got the signal, so that they can save together."""
        stop = self.asked_to_stop
        if trainer.world_size > 1:
            stop = trainer.strategy.reduce_boolean_decision(stop, all=False)
        if stop:
            trainer._signal_connector.received_sigterm = True

    def on_train_epoch_start(self, trainer: Trainer, module: LightningModule) -> None:
        self.started = time.monotonic()

    def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        if getattr(trainer, "fast_dev_run", False):
            return
        self.finished = trainer.should_stop
        # In this order: a kill in between leaves the last checkpoint with the rows and the best one that it knows of.
        best = self._is_best(trainer)
        if trainer.is_global_zero:
            row = self._row(trainer)
            self.table.append(row)
            rank_zero_info(_sentence(row, best))
        self.spent = 0.0
        if not best:
            trainer.save_checkpoint(self.run.last, weights_only=False)
            return
        trainer.save_checkpoint(self.best_model_path, weights_only=False)
        if trainer.is_global_zero:
            path = Path(self.best_model_path)
            _link(path, self.run.last)
            for other in set(self.run.checkpoints.glob("best-*.ckpt")) - {path}:
                other.unlink()

    def _row(self, trainer: Trainer) -> dict[str, Any]:
        values = {name: float(value) for name, value in sorted(trainer.callback_metrics.items())}
        seconds = round(self.spent + time.monotonic() - self.started, 3)
        return {"epoch": trainer.current_epoch, "step": trainer.global_step, **values, "seconds": seconds}

    def _is_best(self, trainer: Trainer) -> bool:
        """Whether this epoch is the best so far."""
        if self.monitor not in trainer.callback_metrics:
            return False
        score, loss = float(trainer.callback_metrics[self.monitor]), float(trainer.callback_metrics["val/loss"])
        best = rank(self.best_score, self.best_loss, self.mode)
        if self.best_epoch < 0 or rank(score, loss, self.mode) < best:
            self.best_epoch, self.best_score, self.best_loss = trainer.current_epoch, score, loss
            return True
        return False

    def on_exception(self, trainer: Trainer, module: LightningModule, exception: BaseException) -> None:
        """After SIGTERM the step at hand is done; what there is of the epoch is kept, and the job asks to go on."""
        if isinstance(exception, SIGTERMException) and trainer.training:
            self.spent += time.monotonic() - self.started
            trainer.save_checkpoint(self.run.last, weights_only=False)
            rank_zero_info(f"stopped by SIGTERM at step {trainer.global_step}, saved {self.run.last}")
            if trainer.is_global_zero:
                requeue()

    def state_dict(self) -> dict[str, Any]:
        names = ("best_epoch", "best_score", "best_loss", "finished", "spent")
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        vars(self).update(state_dict)


def _sentence(row: dict[str, Any], best: bool) -> str:
    """An epoch in one line, for people and for the logs of a cluster."""
    figures = [f"{name} {value:.4g}" for name, value in row.items() if "/" in name]
    return f"epoch {row['epoch']:3}  {'  '.join(figures)}  {row['seconds']:.1f} s{'  best' if best else ''}"


def requeue() -> bool:
    """Asks SLURM to run this job again; whether there was a job to ask for."""
    job = os.environ.get("SLURM_JOB_ID")
    if job is None or os.environ.get("SLURM_JOB_NAME") in ("bash", "interactive"):
        return False
    if array := os.environ.get("SLURM_ARRAY_JOB_ID"):
        job = f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    try:
        done = subprocess.run(["scontrol", "requeue", job], check=False, capture_output=True, text=True)
    except OSError as error:
        rank_zero_info(f"SLURM could not be asked to run job {job} again: {error}")
        return False
    rank_zero_info(f"job {job} will run again" if done.returncode == 0 else f"scontrol requeue {job}: {done.stderr}")
    return done.returncode == 0


def _link(source: Path, target: Path) -> None:
    """Makes `target` the same file as `source`, in one step; a copy where the disk has no links."""
    part = target.with_name(f".{target.name}.link")
    part.unlink(missing_ok=True)
    try:
        os.link(source, part)
    except OSError:
        shutil.copyfile(source, part)
    part.replace(target)
