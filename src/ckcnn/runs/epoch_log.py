"""The report of each epoch: a row in ``metrics.csv``, and a line for the terminal or a cluster's log."""

from __future__ import annotations

from typing import Any

from lightning_utilities.core.rank_zero import rank_zero_info
from pytorch_lightning import LightningModule, Trainer

from ckcnn.compat.lightning import LateCallback
from ckcnn.runs.best_epoch import BestEpoch
from ckcnn.runs.epoch_clock import EpochClock
from ckcnn.runs.folder import RunFolder
from ckcnn.runs.metrics_table import MetricsTable


class EpochLog(LateCallback):
    """Writes a row and prints a line after every epoch.

    Args:
        run: the run folder.
        clock: knows how long the epoch took.
        best: knows whether the epoch is the best so far.
    """

    def __init__(self, run: RunFolder, clock: EpochClock, best: BestEpoch) -> None:
        self.run, self.clock, self.best = run, clock, best
        self.table = MetricsTable(run.metrics)

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Drop the rows of epochs after the checkpoint; they will be trained again."""
        self.table = MetricsTable(self.run.metrics, trainer.global_step)

    def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        if trainer.is_global_zero and not trainer.fast_dev_run:  # type: ignore[attr-defined]
            values = {name: float(value) for name, value in sorted(trainer.callback_metrics.items())}
            row = {"epoch": trainer.current_epoch, "step": trainer.global_step, **values}
            row["seconds"] = round(self.clock.seconds(), 3)
            self.table.append(row)
            rank_zero_info(line(row, self.best.is_new))


def line(row: dict[str, Any], best: bool) -> str:
    """Return an epoch in one line.

    Example:
        >>> line({"epoch": 5, "step": 240, "val/accuracy": 0.91234, "seconds": 3.21}, best=True)
        'epoch   5  val/accuracy 0.9123  3.2 s  best'
    """
    metrics = [f"{name} {value:.4g}" for name, value in row.items() if "/" in name]
    return f"epoch {row['epoch']:3}  {'  '.join(metrics)}  {row['seconds']:.1f} s{'  best' if best else ''}"
