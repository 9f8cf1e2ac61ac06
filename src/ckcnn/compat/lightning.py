"""Parts of PyTorch Lightning that are private, or public in name but documented nowhere."""

from __future__ import annotations

from pytorch_lightning import Trainer
from pytorch_lightning.callbacks import Checkpoint


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


def batches_done(trainer: Trainer) -> int:
    """Return how many batches were trained on since the run began, before it was resumed included.

    Undocumented: a property of the fit loop. ``trainer.global_step`` counts steps of the optimizer, which are fewer if
    gradients are accumulated.
    """
    return int(trainer.fit_loop.total_batch_idx)
