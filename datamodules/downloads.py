"""Fetch official files, with retries and checksums, and unpack archives that are not trusted.

The transfer is written here because the libraries lose something: torchvision's helper writes to the final name, waits
without a time limit and falls back to plain HTTP, and `pooch` stores a ``.gz`` file unpacked where a server announces
``Content-Encoding: x-gzip``, so that its checksum never matches. Archives are unpacked here because both extract links.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import tarfile
import time
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from ckcnn.datamodules.sequences import DataError, Progress
from ckcnn.files import replacing

_ATTEMPTS = 3
_TIMEOUT = 30.0  # seconds without an answer
_BLOCK = 1 << 20
_BROKEN = (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError)


@dataclass(frozen=True)
class Download:
    """A file of a data set and where it comes from.

    Attributes:
        urls: addresses of the same file, tried in turn.
        path: where it is put, below the root of the data.
        checksum: such as ``"md5:..."`` or ``"sha256:..."``, if the source publishes one.
        unpack_to: folder below the root into which an archive is unpacked, or None if it stays as it is.
        only: names of the files to take out of the archive, without their folders; all of them if empty.
    """

    urls: tuple[str, ...]
    path: str
    checksum: str = ""
    unpack_to: str | None = None
    only: tuple[str, ...] = ()


def fetch(download: Download, root: Path, progress: Progress) -> None:
    """Download and unpack, unless the file is already there.

    Raises:
        OSError: if no address answers.
        DataError: if the file is not the expected one.
    """
    target = root / download.path
    if not target.exists():
        _fetch_any(download.urls, target, download.checksum, progress)
    elif download.checksum and not _matches(target, download.checksum):
        raise DataError(f"{target} is damaged: its checksum is not {download.checksum}; delete it and try again")
    if download.unpack_to is not None:
        unpack(target, root / download.unpack_to, download.only)


def unpack(archive: Path, folder: Path, only: tuple[str, ...] = ()) -> None:
    """Unpack the plain files of a zip or tar archive.

    Args:
        archive: the file.
        folder: nothing is ever written outside of it.
        only: names of the files to take, without their folders; all of them, with their folders, if empty.

    Raises:
        DataError: if the archive is broken, or a member would leave `folder` or is a link or a device.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for name, content in _members(archive):
            path = PurePosixPath(name)
            if only and path.name not in only:
                continue
            target = _inside(folder, PurePosixPath(path.name) if only else path, archive)
            # A data set may have 100,000 files, too many to wait for the disk after each; the archive is still there.
            with content, replacing(target, sync=False) as file:
                while block := _read_member(content):
                    file.write(block)
    except _BROKEN as error:
        raise DataError(f"{archive} is not a complete archive ({error}); delete it and try again") from error


def _read_member(content: IO[bytes]) -> bytes:
    try:
        return content.read(_BLOCK)
    except OSError as error:  # otherwise it would be taken for a failure to write
        raise EOFError(str(error)) from error


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for info in zipped.infolist():
                if not info.is_dir():
                    yield info.filename, zipped.open(info)
        return
    with tarfile.open(archive) as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isreg() else None
            if content is not None:
                yield member.name, content
            elif not member.isdir():
                raise DataError(
                    f"{archive} holds {member.name!r}, which is a link or a device; only files are unpacked"
                )


def _inside(folder: Path, path: PurePosixPath, archive: Path) -> Path:
    target = (folder / path).resolve()
    if path.is_absolute() or "\\" in str(path) or not target.is_relative_to(folder.resolve()):
        raise DataError(
            f"{archive} holds {str(path)!r}, which would be written outside of {folder}; it is not unpacked"
        )
    return target


class _TransferError(Exception):
    """An address that did not deliver the file; a mirror or a second attempt may."""


def _fetch_any(urls: tuple[str, ...], target: Path, checksum: str, progress: Progress) -> None:
    failures: list[str] = []
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(2.0 ** (attempt - 1))
        for url in urls:
            try:
                return _fetch(url, target, checksum, progress)
            except _TransferError as error:
                failures.append(f"{url}: {error}")
    raise OSError("; ".join(dict.fromkeys(failures)))


def _fetch(url: str, target: Path, checksum: str, progress: Progress) -> None:
    done = 0
    with _open(url) as answer, replacing(target) as file:
        total = int(answer.headers.get("Content-Length") or 0)
        while block := _read(answer):
            file.write(block)
            done += len(block)
            progress(f"downloading {target.name}", done, max(total, done))
        if total and done != total:
            raise _TransferError(f"the connection broke after {done} of {total} bytes")
        file.flush()
        if checksum and not _matches(Path(file.name), checksum):
            raise _TransferError(f"the checksum is not {checksum}")


def _open(url: str) -> http.client.HTTPResponse:
    request = urllib.request.Request(url, headers={"User-Agent": "ckcnn"})
    try:
        return urllib.request.urlopen(request, timeout=_TIMEOUT)
    except (OSError, http.client.HTTPException) as error:
        raise _TransferError(error) from error


def _read(answer: http.client.HTTPResponse) -> bytes:
    try:
        return answer.read(_BLOCK)
    except (OSError, http.client.HTTPException) as error:
        raise _TransferError(error) from error


def _matches(path: Path, checksum: str) -> bool:
    algorithm, _, expected = checksum.partition(":")
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest() == expected
