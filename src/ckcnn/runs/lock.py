"""One process at a time trains in a run folder."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path

from ckcnn.runs.folder import RunFolder

_WAIT = 3.0  # seconds: a process that was killed a moment ago may still be ending
_POLL = 0.05
_BUSY = (errno.EACCES, errno.EAGAIN)
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # a file system that has none
_held: dict[Path, int] = {}


def hold(run: RunFolder) -> None:
    """Lock a run folder against training by other processes, until this process ends or releases it.

    The lock is one of the process, on an empty file in the folder: the workers that a process starts do not have it, so
    none of them keeps it when the process dies. Who only reads a run asks for no lock.

    Raises:
        ValueError: if another process trains there, or the folder cannot be written.
    """
    if run.lock in _held:
        return
    try:
        file = os.open(run.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise ValueError(
            f"{run.path} cannot be written ({error.strerror}), so training cannot resume there; "
            "make it writable, or resume from a copy of it"
        ) from None
    if not _acquired(file, time.monotonic() + _WAIT):
        os.close(file)
        raise ValueError(
            f"another process is training in {run.path}; wait until it has ended, "
            "or leave out --ckpt_path to start a new run"
        )
    _held[run.lock] = file


def release() -> None:
    """Release all run folders that this process has locked."""
    while _held:
        os.close(_held.popitem()[1])


def _acquired(file: int, deadline: float) -> bool:
    while True:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _WITHOUT_LOCKS:
                return True
            if error.errno not in _BUSY or time.monotonic() > deadline:
                return False
            time.sleep(_POLL)
        else:
            return True
