"""Private parts of Optuna: what lets the workers of a study notice that one of them died, and take over its trial."""

from __future__ import annotations

import abc
import time

from optuna import Study
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages._heartbeat import BaseHeartbeat
from optuna.storages.journal import JournalFileBackend, JournalStorage
from optuna.trial import FrozenTrial, TrialState


class HeartbeatJournal(JournalStorage, BaseHeartbeat):
    """Optuna's journal file, with the sign of life that only its databases have: an attribute of the trial.

    Private: Optuna asks a storage for silent trials only if it inherits from ``BaseHeartbeat``, which no public module
    exports. It asks for the identifiers of the trials in the storage, and calls the methods of a storage that
    "are not supposed to be directly accessed". System attributes of a trial are documented nowhere.

    A subclass says how often to give a sign of life, and what to do with a silent trial, by implementing Optuna's
    ``get_heartbeat_interval`` and ``get_heartbeat_stale_trial_callback``; a worker that has been silent for twice as
    long as the interval counts as dead.

    Args:
        path: the journal file.
    """

    def __init__(self, path: str) -> None:
        super().__init__(JournalFileBackend(path))

    @abc.abstractmethod
    def get_heartbeat_interval(self) -> int: ...

    def record_heartbeat(self, trial_id: int) -> None:
        if not self.get_trial(trial_id).state.is_finished():
            self.set_trial_system_attr(trial_id, "heartbeat", time.time())

    def _get_stale_trial_ids(self, study_id: int) -> list[int]:
        running = self.get_all_trials(study_id, deepcopy=False, states=(TrialState.RUNNING,))
        silent = time.time() - 2 * self.get_heartbeat_interval()
        return [trial._trial_id for trial in running if _last_heard_of(trial) < silent]


def _last_heard_of(trial: FrozenTrial) -> float:
    began = trial.datetime_start.timestamp() if trial.datetime_start else time.time()
    return float(trial.system_attrs.get("heartbeat", began))


def fail_trial(study: Study, trial: FrozenTrial, reason: str) -> bool:
    """End a running trial of another worker as failed, with a note; return False if another worker was faster.

    Private: the storage of a study and the identifier of a trial in it. ``Study.tell`` sets no attributes, asks the
    sampler, which may stop the study, and does not say which of two workers was faster.
    """
    try:
        study._storage.set_trial_user_attr(trial._trial_id, "reason", reason)
        study._storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
    except UpdateFinishedTrialError:
        return False
    return True


def is_taken_over(error: Exception) -> bool:
    """Return whether Optuna refuses to end a trial because another worker has ended it as failed.

    Undocumented: ``Study.optimize`` raises a plain `ValueError` with this text, or the more exact error, depending on
    when the other worker did it.
    """
    return isinstance(error, UpdateFinishedTrialError) or str(error) == "Cannot tell a FAIL trial."
