"""The callbacks that make a run reproducible and resumable."""

from __future__ import annotations

from pytorch_lightning import Callback

from ckcnn.runs.best_epoch import BestEpoch
from ckcnn.runs.epoch_clock import EpochClock
from ckcnn.runs.epoch_log import EpochLog
from ckcnn.runs.folder import RunFolder
from ckcnn.runs.keep_checkpoints import KeepCheckpoints
from ckcnn.runs.ranking import Mode
from ckcnn.runs.seeding import StepSeed
from ckcnn.runs.sigterm import SaveOnSigterm, StopOnSigterm


def run_callbacks(run: RunFolder, monitor: str, mode: Mode, seed: int) -> list[Callback]:
    """Return the callbacks of a run, in the order in which they must be called.

    At the end of an epoch, the best epoch is known before the log names it, and the row is written before the
    checkpoint: a kill in between leaves a row too many, which is dropped when the run resumes, not one too few.

    Args:
        run: the run folder.
        monitor: the logged metric that says how good an epoch is.
        mode: whether a good value of it is large or small.
        seed: of the run.
    """
    clock, best = EpochClock(), BestEpoch(run, monitor, mode)
    return [
        clock,
        StopOnSigterm(),
        best,
        EpochLog(run, clock, best),
        KeepCheckpoints(run, clock, best),
        SaveOnSigterm(run, clock),
        StepSeed(seed),
    ]
