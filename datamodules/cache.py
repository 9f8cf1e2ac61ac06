"""One HDF5 file per benchmark: written whole or not at all, by one process at a time, and checked before it is used.

The checksums of a cache are compared when it is written, and again only when its size or time stamp has changed since
then; what was checked is remembered in a small file beside it, or in memory where the folder is read-only.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from ckcnn.datamodules.sequences import DataError, RawSequences
from ckcnn.files import remove_orphans, replacing, replacing_path

FORMAT = 1  # of the file; a cache of another version is rebuilt
_CHUNK_BYTES = 1 << 16  # of one piece of a file, so that a long row can be read without its neighbours
_READ_BYTES = 1 << 24
_MARGIN = 1 << 16  # bytes for what HDF5 writes besides the values

log = logging.getLogger(__name__)
_checked: dict[Path, str] = {}  # the state in which each cache was whole, for folders that are read-only


@dataclass(frozen=True)
class CacheKey:
    """What a cache was made of.

    Attributes:
        recipe: the options that change what is stored, and the version of the code that reads the source.
        source: fingerprint of the source files, or None if they are not there to compare with.
    """

    recipe: dict[str, Any]
    source: str | None

    def recipe_text(self) -> str:
        """The recipe, and the format of the file, as they are stored."""
        return json.dumps({"format": FORMAT, **self.recipe}, sort_keys=True)


def fingerprint(files: Iterable[Path]) -> str:
    """Changes when a file does: names, sizes and times of change."""
    stats = [(path.name, path.stat()) for path in files]
    return json.dumps([(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats])


def ensure(path: Path, key: Callable[[], CacheKey], chunks: Callable[[], Iterable[RawSequences]]) -> None:
    """Make sure that a good cache lies at `path`; a broken or outdated one is rebuilt with one line in the log.

    Args:
        path: of the cache.
        key: what it must have been made of; asked again when it has been made, since `chunks` may download files.
        chunks: reads the source; called only if the cache has to be written.

    Raises:
        DataError: if the folder cannot be written. Whatever `chunks` raises passes through; no file is left then.
    """
    if find_problem(path, key()) is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path.with_name(f".{path.stem}.lock"))
        lock.acquire()
    except OSError as error:
        raise DataError(
            f"cannot write the cache {path} ({error}); set the option cache to a folder that can be written"
        ) from error
    try:
        problem = find_problem(path, key())  # another process may have written it meanwhile
        if problem is None:
            return
        if path.exists():
            log.warning("rebuilding the cache %s: %s", path, problem)
        remove_orphans(path.parent)
        _write(path, key, chunks())
    except BaseException:
        if not path.exists():
            _leave_nothing(path, lock)
        raise
    finally:
        lock.release()


def _leave_nothing(path: Path, lock: FileLock) -> None:
    """Remove what was made for a cache that could not be written; whoever waits for the lock will look again."""
    with contextlib.suppress(OSError):
        Path(lock.lock_file).unlink(missing_ok=True)
        path.parent.rmdir()  # if it is empty


def find_problem(path: Path, key: CacheKey, whole: bool = True, remember: bool = True) -> str | None:
    """Why the cache at `path` cannot be used, or None if it can.

    Args:
        path: of the cache.
        key: what it must have been made of.
        whole: whether its content must be undamaged too.
        remember: whether to write down that it is.
    """
    if not path.exists():
        return "it does not exist"
    try:
        with open_cache(path) as file:
            if file.attrs.get("recipe") != key.recipe_text():
                return f"it was made by another version or with other options: {file.attrs.get('recipe')}"
            if key.source is not None and file.attrs.get("source") != key.source:
                return "the source files have changed"
        return _find_damage(path, remember) if whole else None
    except (OSError, RuntimeError, KeyError) as error:  # h5py has no error of its own for a broken file
        return f"it is broken ({error})"


def _find_damage(path: Path, remember: bool) -> str | None:
    """Compare the checksums, unless that was done since the file last changed."""
    state = fingerprint([path])
    if _remembered(path) == state:
        return None
    if damage := _compare_checksums(path):
        return damage
    if remember:
        _remember(path, state)
    return None


def _remembered(path: Path) -> str | None:
    if path.absolute() not in _checked:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            _checked[path.absolute()] = _record(path).read_text(encoding="ascii")
    return _checked.get(path.absolute())


def _remember(path: Path, state: str) -> None:
    _checked[path.absolute()] = state
    with contextlib.suppress(OSError), replacing(_record(path), sync=False) as file:  # the folder may be read-only
        file.write(state.encode("ascii"))


def _compare_checksums(path: Path) -> str | None:
    with open_cache(path) as file:
        wrong = [name for name, data in file.items() if _checksum(data) != data.attrs.get("crc32")]
    return f"the checksum of {', '.join(wrong)} does not match" if wrong else None


def _record(path: Path) -> Path:
    """Return the name of the file that holds the `fingerprint` of a cache that was found whole."""
    return path.with_name(f".{path.stem}.checked")


def open_cache(path: Path) -> h5py.File:
    """Open a cache for reading; a finished cache never changes, so no lock is needed, not even on a read-only disk."""
    return h5py.File(path, "r", locking=False)


def _write(path: Path, key: Callable[[], CacheKey], chunks: Iterable[RawSequences]) -> None:
    with replacing_path(path) as part:
        part.touch()
        _reserve(part, _MARGIN, path)
        with h5py.File(part, "w") as file:
            _reserve(part, _MARGIN, path)  # opening has emptied it
            count = _append_all(file, chunks, lambda size: _reserve(part, size, path))
            made_of = key()
            file.attrs["recipe"] = made_of.recipe_text()
            file.attrs["source"] = made_of.source or ""
            file.flush()
            end = file.id.get_filesize()
        os.truncate(part, end)  # what was reserved and not needed
        if not count:
            raise DataError(f"the source of {path.name} holds no sequences")
        if damage := _compare_checksums(part):
            raise DataError(f"the cache {path} was not stored as it was written ({damage}); check the disk")
    _remember(path, fingerprint([path]))


def _reserve(part: Path, size: int, path: Path) -> None:
    """Take room for a file on the disk before HDF5 writes to it: a write of HDF5 that fails ends the process.

    Raises:
        DataError: if there is not enough.
    """
    if not hasattr(os, "posix_fallocate"):  # macOS
        return
    with part.open("r+b") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            raise DataError(
                f"cannot write the cache {path}: {error.strerror} (it needs {size:,} bytes by now); "
                "make room, or set the option cache to another folder"
            ) from None


def _append_all(file: h5py.File, chunks: Iterable[RawSequences], reserve: Callable[[int], None]) -> int:
    count = 0
    for chunk in chunks:
        arrays = chunk.arrays()
        # Rows go into pieces of a fixed size, of which the last one of each array is not full.
        values = sum(array.nbytes + max(_CHUNK_BYTES, array[:1].nbytes) for array in arrays.values())
        reserve(file.id.get_filesize() + values + values // 16 + _MARGIN)
        for name, array in arrays.items():
            _append(file, name, np.ascontiguousarray(array))
        count += len(chunk.x)
    return count


def _append(file: h5py.File, name: str, array: NDArray[np.generic]) -> None:
    if name not in file:
        row_bytes = max(1, array[:1].nbytes)
        rows = max(1, _CHUNK_BYTES // row_bytes)
        file.create_dataset(
            name, (0, *array.shape[1:]), array.dtype, maxshape=(None, *array.shape[1:]), chunks=(rows, *array.shape[1:])
        )
        file[name].attrs["crc32"] = np.uint32(0)
    data = file[name]
    start = len(data)
    data.resize(start + len(array), axis=0)
    data[start:] = array
    data.attrs["crc32"] = np.uint32(zlib.crc32(array.data, int(data.attrs["crc32"])))


def _checksum(data: h5py.Dataset) -> int:
    checksum = 0
    for part in pieces(data):
        checksum = zlib.crc32(part.data, checksum)
    return checksum


def pieces(data: h5py.Dataset) -> Iterator[NDArray[np.generic]]:
    """The rows of a data set, a few megabytes at a time."""
    rows = max(1, _READ_BYTES // max(1, data.dtype.itemsize * int(np.prod(data.shape[1:]))))
    for start in range(0, len(data), rows):
        yield np.ascontiguousarray(data[start : start + rows])
