"""Files are written whole or not at all, whoever writes them and whenever the writer is killed."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ckcnn.files import replacing, replacing_path

KILLED_WHILE_WRITING = """
import os, signal, sys
from pathlib import Path
from ckcnn.files import replacing
with replacing(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_new_content_takes_the_place_of_the_old(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file"
    for content in (b"old", b"new"):
        with replacing(path) as file:
            file.write(content)
        assert path.read_bytes() == content
    with replacing_path(path) as part:
        part.write_bytes(b"newest")
        assert path.read_bytes() == b"new"
    assert path.read_bytes() == b"newest"
    assert names(path.parent) == ["file"]


@pytest.mark.parametrize("error", [RuntimeError("on fire"), KeyboardInterrupt(), OSError(28, "No space left")])
def test_a_failure_leaves_the_old_file_alone(error: BaseException, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def write() -> None:
        with replacing(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(type(error)):
        write()
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_without_an_old_file_the_message_names_none(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"No space left while writing .*file$"), replacing(tmp_path / "file"):
        raise OSError(28, "No space left")
    assert names(tmp_path) == []


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_the_umask_decides_who_may_read(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        with replacing(tmp_path / "file") as file:
            file.write(b"content")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~umask


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "file"
    killed = subprocess.run([sys.executable, "-c", KILLED_WHILE_WRITING, str(path)])
    assert killed.returncode == -9
    assert len(names(tmp_path)) == 1
    with replacing(tmp_path / "other") as file:
        file.write(b"another target")
    assert len(names(tmp_path)) == 2
    with replacing(path) as file:
        file.write(b"whole")
    assert names(tmp_path) == ["file", "other"]


def test_a_writer_that_is_alive_is_left_in_peace(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with replacing(path) as first:
        first.write(b"first")
        with replacing(path) as second:
            second.write(b"second")
    assert path.read_bytes() == b"first"
    assert names(tmp_path) == ["file"]


def test_files_of_another_machine_go_after_a_day(tmp_path: Path) -> None:
    new, old = tmp_path / ".file.00000000-1-ab.tmp", tmp_path / ".file.00000000-2-ab.tmp"
    for part in (new, old):
        part.write_bytes(b"half")
    yesterday = time.time() - 90_000
    os.utime(old, (yesterday, yesterday))
    with replacing(tmp_path / "file") as file:
        file.write(b"whole")
    assert names(tmp_path) == [new.name, "file"]
