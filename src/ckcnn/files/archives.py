"""Zip archives of ``torch.save`` in which no bit can change unnoticed.

The reader of torch compares no checksums. Python's does, but an archive has bytes that none of its checksums cover,
such as headers and padding. So the archives that ckcnn writes end in a seal: a zip comment with a checksum of all bytes
before it, which other readers skip.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

_SEAL = b"ckcnn crc32 %08x"
_SIZE = len(_SEAL % 0)
_END = struct.Struct("<4s4H2LH")  # the last record of an archive; its last number is the size of the comment


def sealed(archive: bytes) -> bytes:
    """Return an archive that has no comment with its seal."""
    covered = archive[:-2] + struct.pack("<H", _SIZE)
    return covered + _SEAL % zlib.crc32(covered)


def check_archive(content: bytes) -> None:
    """Compare the seal, or the checksums of the members where there is none (earlier versions, other programs).

    Raises:
        ValueError: if a checksum does not match, or the archive unpacks to more than its own size, which no file of
            ``torch.save`` does.
        Exception: whatever else `zipfile` raises for anything that is not an archive.
    """
    if _has_comment(content):
        if content[-_SIZE:] != _SEAL % zlib.crc32(content[:-_SIZE]):
            raise ValueError("the checksum of the file does not match")
        return
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if sum(member.file_size for member in archive.infolist()) > len(content):
            raise ValueError("it unpacks to more than its own size")
        if damaged := archive.testzip():
            raise ValueError(f"the checksum of {damaged} does not match")


def _has_comment(content: bytes) -> bool:
    """Return whether the file does not simply end with the last record, as it does without a seal."""
    last = content[-_END.size :]
    return not (len(last) == _END.size and last.startswith(b"PK\x05\x06") and last.endswith(b"\0\0"))
