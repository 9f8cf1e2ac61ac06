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

    Whatever happens, `path` holds the old content or the whole new one, and nothing else remains. The permissions
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
    remove_orphans(path.parent, path.name)
    writer = f"{_machine():08x}-{os.getpid()}-{process_started(os.getpid())}"
    part = path.with_name(f".{path.name}.{writer}-{secrets.token_hex(4)}.tmp")
    try:
        yield part
        if sync:
            with part.open("r+b") as file:
                os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def remove_orphans(folder: Path, name: str = "*") -> None:
    """Remove what killed writers of a file, or of any file in a folder, have left."""
    pattern = name if name == "*" else glob.escape(name)
    for part in folder.glob(f".{pattern}.*-*-*.tmp"):
        with contextlib.suppress(OSError):  # another process removes it too, or it belongs to another user
            if _is_orphan(part):
                part.unlink()


def _is_orphan(part: Path) -> bool:
    name = re.search(r"\.([0-9a-f]{8})-(\d+)-(?:(\d*)-)?[0-9a-f]+\.tmp$", part.name)
    if name is None:
        return False
    machine, process, started = name.groups()
    if int(machine, 16) == _machine() and os.name == "posix":  # elsewhere, signal 0 would end the process
        now = process_started(int(process))
        return not now or bool(started and now != started)
    return time.time() - part.stat().st_mtime > _ABANDONED_AFTER


def process_started(process: int) -> str:
    """Return when a process of this machine started, as the system counts; empty if there is no such process.

    Numbers of processes are used again, in a container after every start; two processes of one number differ in this.
    """
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        pass
    try:  # not Linux: whether there is one of this number must do
        os.kill(process, 0)
    except PermissionError:  # of another user
        return "0"
    except OSError:
        return ""
    return "0"


def _machine() -> int:
    """Return a short number for this machine, since the folder may be shared by several."""
    return zlib.crc32(platform.node().encode())


def check_output(path: Path, *endings: str) -> None:
    """What ``--output`` names must be a file that can be written; checked before the work begins.

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
