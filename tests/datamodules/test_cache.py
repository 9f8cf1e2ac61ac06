from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import h5py
import numpy as np
import pytest
import torch

from ckcnn.datamodules import DataError, Digits, RawSequences
from ckcnn.datamodules import cache as caches
from ckcnn.datamodules.datasets import LazyRows, Store


def _digits(folder: Path) -> Digits:
    return Digits(root=folder)


@pytest.fixture
def prepared(tmp_path: Path) -> Digits:
    module = _digits(tmp_path)
    module.prepare_data()
    return module


def test_a_good_cache_is_left_alone(prepared: Digits, caplog: pytest.LogCaptureFixture) -> None:
    before = prepared.cache_path.stat()
    _digits(prepared.root).prepare_data()
    after = prepared.cache_path.stat()  # reading may change the time of access
    assert (after.st_ino, after.st_mtime_ns, after.st_size) == (before.st_ino, before.st_mtime_ns, before.st_size)
    assert not caplog.records


def _flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(bytes(content))


def _other_format(path: Path) -> None:
    with h5py.File(path, "a") as file:
        file.attrs["recipe"] = file.attrs["recipe"].replace('"format": 1', '"format": 0')


def _unfinished(path: Path) -> None:
    with h5py.File(path, "a") as file:
        del file["y"].attrs["crc32"]


DAMAGE = {
    "truncated": (lambda path: path.write_bytes(path.read_bytes()[:50_000]), "it is broken"),
    "not HDF5": (lambda path: path.write_text("hello"), "it is broken"),
    "flipped": (_flip_a_byte, "the checksum of x does not match"),
    "other version": (_other_format, "made by another version"),
    "no checksum": (_unfinished, "the checksum of y does not match"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_bad_cache_is_rebuilt_with_one_line(damage: str, prepared: Digits, caplog: pytest.LogCaptureFixture) -> None:
    good = Store.read(prepared.cache_path).x
    do, reason = DAMAGE[damage]
    do(prepared.cache_path)
    again = _digits(prepared.root)
    again.prepare_data()
    assert torch.equal(Store.read(again.cache_path).x, good)
    assert len(caplog.records) == 1
    assert caplog.records[0].levelno == logging.WARNING
    assert reason in caplog.text
    assert str(prepared.cache_path) in caplog.text


def test_nothing_is_left_of_a_failure(tmp_path: Path) -> None:
    def chunks() -> Iterator[RawSequences]:
        yield RawSequences(np.zeros((3, 1, 4)), np.zeros(3, dtype=int))
        raise RuntimeError("the disk is on fire")

    with pytest.raises(RuntimeError, match="on fire"):
        caches.ensure(tmp_path / "a.h5", lambda: caches.CacheKey({}, None), chunks)
    assert not tmp_path.exists() or not list(tmp_path.iterdir())


def test_a_failed_rebuild_leaves_the_next_one_free(prepared: Digits, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared.cache_path.write_text("broken")
    with monkeypatch.context() as patch:
        patch.setattr(Digits, "load", lambda self: iter([RawSequences(np.zeros((1, 1, 3)), np.zeros(1, dtype=int))]))
        with pytest.raises(DataError, match=r"Digits: x must have shape \(sequences, 1, 64\), got \(1, 1, 3\)"):
            _digits(prepared.root).prepare_data()
    _digits(prepared.root).prepare_data()
    assert Store.read(prepared.cache_path).shape == (1797, 1, 64)


def _die_while_writing(folder: Path) -> None:
    class Fatal(Digits):
        def load(self) -> Iterator[RawSequences]:
            yield from super().load()
            os.kill(os.getpid(), signal.SIGKILL)

    Fatal.__name__ = "Digits"  # the same cache
    Fatal(root=folder).prepare_data()


def test_what_a_killed_process_left_is_removed(prepared: Digits) -> None:
    prepared.cache_path.unlink()
    process = multiprocessing.get_context("fork").Process(target=_die_while_writing, args=(prepared.root,))
    process.start()
    process.join(60)
    (orphan,) = prepared.cache_path.parent.glob("*.tmp")
    _digits(prepared.root).prepare_data()
    assert not orphan.exists()


class TestChecksums:
    """A cache is read from end to end when it is written and when it has changed, not at every start."""

    @pytest.fixture
    def compared(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Names of the files whose checksums were compared, in processes that remember nothing."""
        compare, names = caches._compare_checksums, []

        def counted(path: Path) -> str | None:
            names.append(path.name)
            return compare(path)

        monkeypatch.setattr(caches, "_compare_checksums", counted)
        return names

    def start(self, root: Path) -> None:
        caches._checked.clear()  # as a new process
        _digits(root).prepare_data()

    def test_once_when_it_is_written(self, compared: list[str], tmp_path: Path) -> None:
        for _ in range(3):
            self.start(tmp_path)
        assert len(compared) == 1
        assert compared[0].endswith(".tmp")  # before it gets its name

    def test_again_when_the_time_stamp_changed(self, prepared: Digits, compared: list[str]) -> None:
        os.utime(prepared.cache_path)
        for _ in range(3):
            self.start(prepared.root)
        assert compared == ["digits.h5"]

    def test_again_when_the_size_changed(self, prepared: Digits, compared: list[str]) -> None:
        before = prepared.cache_path.stat()
        with prepared.cache_path.open("ab") as file:
            file.write(b" ")
        os.utime(prepared.cache_path, ns=(before.st_atime_ns, before.st_mtime_ns))
        self.start(prepared.root)
        assert compared == ["digits.h5"]

    @pytest.mark.parametrize("record", [None, b"", b"\xff"])
    def test_again_without_a_record(self, prepared: Digits, compared: list[str], record: bytes | None) -> None:
        path = prepared.cache_path.with_name(".digits.checked")
        path.unlink() if record is None else path.write_bytes(record)
        for _ in range(2):
            self.start(prepared.root)
        assert compared == ["digits.h5"]

    def test_once_in_a_process_where_the_folder_is_read_only(
        self, prepared: Digits, compared: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object, **__: object) -> NoReturn:
            raise OSError(errno.EROFS, "Read-only file system")

        monkeypatch.setattr(caches, "replacing", refuse)
        prepared.cache_path.with_name(".digits.checked").unlink()
        self.start(prepared.root)
        _digits(prepared.root).prepare_data()
        assert compared == ["digits.h5"]
        self.start(prepared.root)
        assert compared == ["digits.h5"] * 2

    def test_what_the_disk_garbled_is_not_kept(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(caches, "_checksum", lambda data: 0)
        with pytest.raises(
            DataError, match=r"was not stored as it was written \(the checksum of x, y does not match\)"
        ):
            _digits(tmp_path).prepare_data()
        assert not list((tmp_path / "cache").glob("*.h5*"))


def test_no_sequences_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.h5 holds no sequences"):
        caches.ensure(tmp_path / "a.h5", lambda: caches.CacheKey({}, None), list)
    assert not (tmp_path / "a.h5").exists()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="set the option cache to a folder that can be written"):
        Digits(root=tmp_path, cache=tmp_path / "file" / "cache").prepare_data()


def _prepare(folder: Path, start: object, builders: object) -> None:
    class Counted(Digits):
        def load(self) -> Iterator[RawSequences]:
            with builders.get_lock():  # type: ignore[attr-defined]
                builders.value += 1  # type: ignore[attr-defined]
            yield from super().load()

    start.wait()  # type: ignore[attr-defined]
    Counted(root=folder).prepare_data()


def test_several_processes_prepare_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    start, builders = context.Barrier(3), context.Value("i", 0)
    processes = [context.Process(target=_prepare, args=(tmp_path, start, builders)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert builders.value == 1
    assert [path.name for path in (tmp_path / "cache").glob("*.h5*")] == ["counted.h5"]


def test_setup_needs_a_good_cache(prepared: Digits, tmp_path: Path) -> None:
    _other_format(prepared.cache_path)
    with pytest.raises(DataError, match=r"another version.* call prepare_data\(\) first"):
        _digits(tmp_path).setup()
    prepared.cache_path.unlink()
    with pytest.raises(DataError, match=r"it does not exist; call prepare_data\(\) first"):
        _digits(tmp_path).setup()
    with pytest.raises(DataError, match="is not set up"):
        _digits(tmp_path).train_dataloader()


def test_lazy_rows_are_the_rows(prepared: Digits) -> None:
    store = Store.read(prepared.cache_path)
    lazy = LazyRows(prepared.cache_path, "x", store.shape)
    rows = torch.tensor([1796, 0, 5, 5])
    assert torch.equal(lazy[rows], store.x[rows])
