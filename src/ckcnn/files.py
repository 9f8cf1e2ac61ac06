"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import glob
import os
import platform
import re
import secrets
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_ABANDONED_AFTER = 86_400.0  # seconds, for writers on other machines, which cannot be asked whether they are alive


@contextmanager
def replacing(path: Path, sync: bool = True) -> Iterator[IO[bytes]]:
    """Open a file to write to, which takes the name `path` when it is safe on the disk.

    Whatever happens, `path` holds the old content or the whole new one, and nothing else stays behind. The permissions
    are those of any new file (the umask decides).

    Args:
        path: the file to write; its folder is made if it is not there.
        sync: whether to wait until the disk has it. Leave it out only for files that can be made again.

    Raises:
        OSError: if it cannot be written; the message names `path`.
    """
    try:
        with replacing_path(path, sync) as part, part.open("xb") as file:
            yield file
    except OSError as error:
        previous = "; the previous one is whole" if path.exists() else ""
        raise OSError(error.errno, f"{error.strerror or error} while writing {path}{previous}") from None


@contextmanager
def replacing_path(path: Path, sync: bool = True) -> Iterator[Path]:
    """Do the same for writers that open a file by its name, such as HDF5: yield the name of a file that is not there.

    What a killed writer of `path` left is removed first.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_orphans(path)
    part = path.with_name(f".{path.name}.{_machine():08x}-{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        yield part
        if sync:
            with part.open("r+b") as file:
                os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _remove_orphans(path: Path) -> None:
    for part in path.parent.glob(f".{glob.escape(path.name)}.*-*-*.tmp"):
        with contextlib.suppress(OSError):  # another process removes it too, or it belongs to another user
            if _is_orphan(part):
                part.unlink()


def _is_orphan(part: Path) -> bool:
    name = re.search(r"\.([0-9a-f]{8})-(\d+)-[0-9a-f]+\.tmp$", part.name)
    if name is None:
        return False
    if int(name[1], 16) == _machine() and os.name == "posix":  # elsewhere, signal 0 would end the process
        return not _is_alive(int(name[2]))
    return time.time() - part.stat().st_mtime > _ABANDONED_AFTER


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # of another user
        return True
    return True


def _machine() -> int:
    """Return a short number for this machine, since the folder may be shared by several."""
    return zlib.crc32(platform.node().encode())


def check_output(path: Path, *endings: str) -> None:
    """What ``--output`` names must be a file that can be written; told before the work begins.

    Raises:
        ValueError: if it is not.
    """
    if path.suffix not in endings:
        wanted = " or ".join(filter(None, [", ".join(endings[:-1]), endings[-1]]))
        raise ValueError(f"--output must end in {wanted}, got {path}")
    if path.is_dir():
        raise ValueError(f"--output {path} is a folder; choose another name")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"--output {path} lies in a folder that does not exist; make it first")
