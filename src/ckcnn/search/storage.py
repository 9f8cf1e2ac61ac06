"""Storage of a study: any number of workers share it, and no trial is lost."""

from __future__ import annotations

import copy
import os
import socket
import time
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import BaseStorage, RDBStorage, RetryHeartbeatStaleTrialCallback, fail_stale_trials
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import SQLAlchemyError

from ckcnn.compat.optuna import HeartbeatJournal, fail_trial
from ckcnn.files import process_started

HEARTBEAT = 60  # seconds; a worker that has been silent for twice as long counts as dead
_DEATHS = 3  # of its workers, then a trial is given up: its values may be what kills them
_WAIT = 10  # seconds for a server to answer
_ATTEMPTS = 10  # to find a database that somebody else is making


def check_place(place: str) -> None:
    """Refuse a folder before anything is prepared.

    Raises:
        ValueError: if it is one.
    """
    if "://" not in place and Path(place).is_dir():
        raise ValueError(f"--storage must be an address or the path of a journal file, got the folder {place}")


def open_storage(place: str) -> BaseStorage:
    """The storage at an address such as ``sqlite:///search.db`` or ``postgresql://…``; a plain path is a journal file.

    Raises:
        ValueError: if it cannot be reached.
    """
    try:
        if "://" not in place:
            Path(place).parent.mkdir(parents=True, exist_ok=True)
            return JournalWithHeartbeat(place)
        url = make_url(place)
        if url.get_backend_name() == "sqlite" and url.database:
            Path(url.database).parent.mkdir(parents=True, exist_ok=True)
        return _open_database(url)
    except ImportError as error:
        missing = getattr(error.__cause__, "name", None) or error.name
        raise ValueError(
            f"{shown(place)} needs the package {missing}; for PostgreSQL: pip install ckcnn[postgresql]"
        ) from None
    except (
        SQLAlchemyError,
        OSError,
        RuntimeError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        AssertionError,
    ) as error:
        said = getattr(error, "orig", None) or (error if isinstance(error, OSError) else "")
        known = str(getattr(said, "strerror", None) or said).strip().splitlines()
        reason = known[0] if known else "it is damaged, of another kind, or cannot be reached"
        raise ValueError(
            f"the storage {shown(place)} cannot be used: {reason}; "
            "give --storage sqlite:///FILE, postgresql://USER@HOST/DATABASE or the path of a journal file"
        ) from None


def _open_database(url: URL) -> RDBStorage:
    """Connect, and retry once if another worker is creating the tables at the same moment."""
    wait = {"timeout": 60} if url.get_backend_name() == "sqlite" else {"connect_timeout": _WAIT}
    for attempt in range(_ATTEMPTS):
        try:
            return RDBStorage(
                url.render_as_string(hide_password=False),
                engine_kwargs={"connect_args": wait, "pool_pre_ping": True},
                heartbeat_interval=HEARTBEAT,
                grace_period=2 * HEARTBEAT,
                heartbeat_stale_trial_callback=retry,
            )
        except SQLAlchemyError as error:
            if attempt == _ATTEMPTS - 1 or not ("UNIQUE" in str(error) or "already exists" in str(error)):
                raise
            time.sleep(0.5)
    raise AssertionError


def shown(place: str) -> str:
    """An address without its password."""
    try:
        return make_url(place).render_as_string(hide_password=True)
    except SQLAlchemyError:
        return place


class JournalWithHeartbeat(HeartbeatJournal):
    """A journal file whose stale trials are queued again, as in a database."""

    def get_heartbeat_interval(self) -> int:
        return HEARTBEAT

    def get_heartbeat_stale_trial_callback(self) -> Any:
        return retry


def retry(study: optuna.Study, trial: FrozenTrial) -> None:
    """Queue an interrupted trial again; it will resume from its last checkpoint."""
    deaths = trial.user_attrs.get("deaths", 0) + ("interrupted" not in trial.user_attrs)
    if deaths > _DEATHS:
        return
    kept = {"folder": trial.user_attrs.get("folder"), "deaths": deaths}
    RetryHeartbeatStaleTrialCallback()(study, _with_notes(trial, kept))


def _with_notes(trial: FrozenTrial, notes: dict[str, Any]) -> FrozenTrial:
    other = copy.copy(trial)
    other.user_attrs = notes
    return other


def fail_dead(study: optuna.Study) -> None:
    """Mark the trials of dead workers as failed and queue them again: at once those of this machine."""
    for trial in study.get_trials(states=(TrialState.RUNNING,)):
        gone = _is_gone(str(trial.user_attrs.get("worker", "")))
        if gone and fail_trial(study, trial, "its worker died"):
            retry(study, trial)
    fail_stale_trials(study)


def this_worker() -> str:
    """Return a name for this process that lets others check whether it is alive."""
    return f"{socket.gethostname()} {os.getpid()} {process_started(os.getpid())}"


def _is_gone(worker: str) -> bool:
    host, _, rest = worker.partition(" ")
    pid, _, started = rest.partition(" ")
    return host == socket.gethostname() and process_started(int(pid)) != started


def is_retry(trial: FrozenTrial) -> bool:
    """Return whether a trial has the values of an earlier one that did not end by itself."""
    return bool(RetryHeartbeatStaleTrialCallback.retry_history(trial))


def superseded(trials: list[FrozenTrial]) -> set[int]:
    """Return the numbers of trials that were or will be run again."""
    return {number for trial in trials for number in RetryHeartbeatStaleTrialCallback.retry_history(trial)}
