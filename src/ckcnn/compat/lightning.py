"""Parts of PyTorch Lightning that are private, or public in name but documented nowhere."""

from __future__ import annotations

from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import Checkpoint
from pytorch_lightning.trainer.connectors import data_connector


class LateCallback(Checkpoint):
    """A callback whose ``on_train_epoch_end`` runs after the module has logged the metrics of the epoch.

    Undocumented: Lightning calls this hook of ordinary callbacks, then of the module, and then of checkpoint and early
    stopping callbacks. Callbacks of this class come last of all, in the order in which the trainer was given them.
    """


def stop_after_this_step(trainer: Trainer) -> None:
    """Make the trainer raise `SIGTERMException` when the step at hand is complete.

    Private: the flag that Lightning's own handler of SIGTERM sets. A callback that raised the exception itself would do
    so before Lightning has counted the step, and a resumed run would train on the same batch twice.
    """
    trainer._signal_connector.received_sigterm = True


def take_over_sigterm(trainer: Trainer) -> bool:
    """Return whether Lightning's own handler has noted SIGTERM, and make it forget it.

    Private: the same flag. Lightning would stop after the next batch, also if its gradients are being accumulated and
    are in no checkpoint.
    """
    received = bool(trainer.received_sigterm)
    trainer._signal_connector.received_sigterm = False
    return received


def batches_done(trainer: Trainer) -> int:
    """Return how many batches were trained on since the run began, before it was resumed included.

    Undocumented: a property of the fit loop. ``trainer.global_step`` counts steps of the optimizer, which are fewer if
    gradients are accumulated.
    """
    return int(trainer.fit_loop.total_batch_idx)


def begin_epoch_again(trainer: Trainer) -> None:
    """Make a new iterator of the training batches.

    Private: the part of the fit loop that holds it. To be called when no batch of the epoch was taken yet.
    """
    if trainer.fit_loop._data_fetcher is not None:
        iter(trainer.fit_loop._data_fetcher)


def ask_no_process_about_sigterm(trainer: Trainer) -> None:
    """Keep Lightning from asking the first process before every step whether it got SIGTERM.

    Private: a method of the training loop that costs a collective operation and, on a GPU, a wait for it. It is not
    needed where `ckcnn.runs.sigterm` stops all processes together.
    """
    trainer.fit_loop.epoch_loop._broadcast_sigterm_tensor = lambda: None  # type: ignore[method-assign]


def attached_trainer(module: LightningModule) -> Trainer | None:
    """Return the trainer of a module, or None if it has none.

    Private: the attribute behind the property `trainer`, which raises where there is no trainer.
    """
    return module._trainer


def use_hook_beside_data(hook: str) -> None:
    """Let a module have a data hook and be trained with a data module, without a warning that says so.

    Undocumented: the texts that Lightning has warned of already. It would call the hook of the module as we want it.
    """
    data_connector.warning_cache.add(
        f"You have overridden `{hook}` in `LightningModule` but have passed in a `LightningDataModule`. It will use "
        "the implementation from `LightningModule` instance."
    )
