"""Write to the run folder only when training starts, because the run may still be refused until then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lightning_utilities.core.rank_zero import rank_zero_info
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.loggers import TensorBoardLogger

from ckcnn.files import remove_orphans, replacing
from ckcnn.runs.folder import RunFolder


class LateTensorBoard(TensorBoardLogger):
    """A TensorBoard logger that writes nothing before `begin`, and stops after a failed write.

    What it writes is in ``metrics.csv`` too, so a full disk ends a run when a checkpoint does not fit, not before.
    """

    def __init__(self, run: RunFolder, purge_step: int | None) -> None:
        place = (run.path.parent.parent, run.path.parent.name, run.path.name)
        super().__init__(*place, default_hp_metric=False, purge_step=purge_step)
        self.is_open = False
        self.waiting: list[Any] = []  # hyperparameters that Lightning has logged before training starts

    @property
    def experiment(self) -> Any:
        """The writer; None before `begin`, because Lightning asks for it in setup, when a run may still be refused."""
        return super().experiment if self.is_open else None

    def log_hyperparams(self, params: Any, *others: Any, **options: Any) -> None:
        if self.is_open:
            self._try(super().log_hyperparams, params, *others, **options)
        else:
            self.waiting.append(params)

    def log_metrics(self, *metrics: Any, **options: Any) -> None:
        self._try(super().log_metrics, *metrics, **options)

    def save(self) -> None:
        self._try(super().save)

    def finalize(self, status: str) -> None:
        self._try(super().finalize, status)

    def begin(self) -> None:
        """Write what was held back."""
        self.is_open = True
        for params in self.waiting:
            self.log_hyperparams(params)
        self.save()

    def _try(self, write: Callable[..., None], *arguments: Any, **options: Any) -> None:
        if self.is_open:
            try:
                write(*arguments, **options)
            except OSError as error:
                self.is_open = False
                rank_zero_info(f"the TensorBoard log is no longer written: {error.strerror}")


class BeginRun(Callback):
    """Writes ``config.yaml`` and opens the log when the first step is about to begin.

    Until then nothing in the folder of a resumed run has changed, and that of a new one can be removed.

    Args:
        run: the run folder.
        config: returns the settings of the run, as YAML.
        tensorboard: opened here.

    Attributes:
        begun: whether training has started.
    """

    def __init__(self, run: RunFolder, config: Callable[[], str], tensorboard: LateTensorBoard) -> None:
        self.run, self.config, self.tensorboard = run, config, tensorboard
        self.begun = False

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        if trainer.fast_dev_run:  # type: ignore[attr-defined]
            return
        if trainer.is_global_zero:
            for folder in (self.run.path, self.run.checkpoints):
                remove_orphans(folder)
            with replacing(self.run.config) as file:
                file.write(self.config().encode())
            self.tensorboard.begin()
        self.begun = True
