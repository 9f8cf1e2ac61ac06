from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import socket
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from ckcnn import datamodules
from ckcnn.datamodules import DataError, SequentialCIFAR10, SequentialMNIST
from ckcnn.datamodules.downloads import Download, fetch, unpack


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers with what is queued: a status, the content, and how many bytes are announced."""

    answers: ClassVar[list[tuple[int, bytes, int]]] = []
    encoding: ClassVar[str] = ""

    def do_GET(self) -> None:
        status, content, announced = self.answers.pop(0)
        self.send_response(status)
        self.send_header("Content-Length", str(announced))
        if self.encoding:
            self.send_header("Content-Encoding", self.encoding)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    server = http.server.HTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    def queue(*answers: bytes | int) -> str:
        _Handler.answers = [
            (200, answer, len(answer)) if isinstance(answer, bytes) else (answer, b"", 0) for answer in answers
        ]
        return f"http://127.0.0.1:{server.server_port}/file"

    yield queue
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)


def _ignore(what: str, done: int, total: int) -> None: ...


def test_fetch_tells_how_far_it_is(serve: Callable[..., str], tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    checksum = "sha256:" + hashlib.sha256(b"content").hexdigest()
    download = Download((serve(b"content"),), "folder/file", checksum)
    fetch(download, tmp_path, lambda *progress: told.append(progress))
    assert (tmp_path / "folder" / "file").read_bytes() == b"content"
    assert told == [("downloading file", 7, 7)]
    fetch(download, tmp_path, _ignore)  # nothing is queued: it must not ask again


def test_fetch_tries_again(serve: Callable[..., str], tmp_path: Path) -> None:
    fetch(Download((serve(503, 503, b"content"),), "file"), tmp_path, _ignore)
    assert (tmp_path / "file").read_bytes() == b"content"


def test_fetch_tries_the_next_address(serve: Callable[..., str], tmp_path: Path) -> None:
    url = serve(404, b"content")
    fetch(Download((url, url + "2"), "file"), tmp_path, _ignore)
    assert (tmp_path / "file").read_bytes() == b"content"


def test_a_wrong_checksum_is_not_kept(serve: Callable[..., str], tmp_path: Path) -> None:
    url = serve(b"evil", b"evil", b"evil")
    with pytest.raises(OSError, match="the checksum is not md5:0123"):
        fetch(Download((url,), "file", "md5:0123"), tmp_path, _ignore)
    assert not list(tmp_path.iterdir())


def test_a_broken_connection_leaves_nothing(serve: Callable[..., str], tmp_path: Path) -> None:
    url = serve()
    _Handler.answers = [(200, b"half", 8)] * 3
    with pytest.raises(OSError, match=r"127\.0\.0\.1"):
        fetch(Download((url,), "file"), tmp_path, _ignore)
    assert not list(tmp_path.iterdir())


def test_a_packed_file_is_kept_as_it_is(
    serve: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers announce ``.gz`` files as encoded, and a client that decodes them breaks their checksum."""
    content = gzip.compress(b"pixels")
    monkeypatch.setattr(_Handler, "encoding", "x-gzip")
    checksum = "md5:" + hashlib.md5(content).hexdigest()
    fetch(Download((serve(content),), "file.gz", checksum), tmp_path, _ignore)
    assert (tmp_path / "file.gz").read_bytes() == content


def test_a_full_disk_is_not_asked_again(
    serve: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    url = serve(b"content")  # once: a second request would fail
    with pytest.raises(OSError, match=r"No space left on device while writing .*file$"):
        fetch(Download((url,), "file"), tmp_path, _ignore)
    assert not list(tmp_path.iterdir())


def test_addresses_are_those_of_torchvision(tmp_path: Path) -> None:
    downloads = SequentialMNIST(root=tmp_path).downloads
    assert [download.path for download in downloads] == [f"{name}.gz" for name in SequentialMNIST.files]
    assert all(len(download.urls) > 1 and download.checksum.startswith("md5:") for download in downloads)
    (archive,) = SequentialCIFAR10(root=tmp_path).downloads
    assert archive.urls[0].startswith("https://")
    assert archive.path == "cifar-10-python.tar.gz"


def _zip(path: Path, names: list[str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, name)
    return path


def _tar(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(b"x" * member.size))
    return path


def _member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", size: int = 1) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.size = kind, target, size if kind == tarfile.REGTYPE else 0
    return member


def test_unpack(tmp_path: Path) -> None:
    unpack(_zip(tmp_path / "a.zip", ["one", "folder/two"]), tmp_path / "zip")
    assert (tmp_path / "zip" / "folder" / "two").read_text() == "folder/two"
    unpack(_tar(tmp_path / "a.tgz", _member("./folder/one")), tmp_path / "tar")
    assert (tmp_path / "tar" / "folder" / "one").read_text() == "x"
    unpack(tmp_path / "a.zip", tmp_path / "only", only=("two",))
    assert [path.name for path in (tmp_path / "only").iterdir()] == ["two"]


@pytest.mark.parametrize("name", ["../out", "/tmp/ckcnn-out", "folder/../../out", "..\\out"])
def test_nothing_leaves_the_folder(name: str, tmp_path: Path) -> None:
    for archive in (_zip(tmp_path / "a.zip", [name]), _tar(tmp_path / "a.tgz", _member(name))):
        with pytest.raises(DataError, match="outside of") as caught:
            unpack(archive, tmp_path / "folder")
        assert str(archive) in str(caught.value)
    assert not (tmp_path / "out").exists()
    assert not list((tmp_path / "folder").iterdir())


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_are_refused(kind: bytes, tmp_path: Path) -> None:
    archive = _tar(tmp_path / "a.tgz", _member("link", kind, "/etc/passwd"), _member("link/file"))
    with pytest.raises(DataError, match="'link', which is a link or a device"):
        unpack(archive, tmp_path / "folder")
    assert not list((tmp_path / "folder").iterdir())


def test_an_existing_link_is_not_followed_out(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link").symlink_to(tmp_path)
    with pytest.raises(DataError, match="outside of"):
        unpack(_zip(tmp_path / "a.zip", ["link/out"]), tmp_path / "folder")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", [b"not an archive", b"\x1f\x8b\x08\x00broken", b""])
def test_what_is_not_an_archive(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.zip is not a complete archive"):
        unpack(tmp_path / "a.zip", tmp_path / "folder")


def test_a_member_that_is_damaged(tmp_path: Path) -> None:
    path = _zip(tmp_path / "a.zip", ["one"])
    path.write_bytes(path.read_bytes().replace(b"one", b"two", 2).replace(b"two", b"one", 1))
    with pytest.raises(DataError, match=r"a\.zip is not a complete archive \(Bad CRC-32"):
        unpack(path, tmp_path / "folder")
    assert not list((tmp_path / "folder").iterdir())


def test_truncated_archive(tmp_path: Path) -> None:
    path = _tar(tmp_path / "a.tgz", *(_member(f"{number}", size=9999) for number in range(50)))
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match="not a complete archive"):
        unpack(path, tmp_path / "folder")


@pytest.mark.parametrize(
    "name",
    ["SequentialMNIST", "SequentialCIFAR10", "CharacterTrajectories", "SpeechCommands", "PhysioNet", "PennTreebank"],
)
def test_without_a_network_one_message_says_it_all(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: object, **__: object) -> None:
        raise socket.gaierror("Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", offline)
    module = getattr(datamodules, name)(root=tmp_path)
    with pytest.raises(DataError) as caught:
        module.prepare_data()
    message = str(caught.value)
    for file in module.files:
        assert file in message
    assert str(tmp_path) in message
    assert "Get them from http" in message
    assert "Name or service not known" in message
    assert "\n" not in message


def test_files_come_over_the_network(
    serve: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.datamodules.official import MNIST, write_mnist

    write_mnist(tmp_path / "server")
    contents = {path.name: path.read_bytes() for path in (tmp_path / "server" / MNIST).iterdir()}
    names = [Path(name).name for name in SequentialMNIST.files]
    url = serve(*(contents[name] for name in names))
    downloads = tuple(Download((url,), f"{MNIST}/{name}") for name in names)
    monkeypatch.setattr(SequentialMNIST, "downloads", downloads)
    module = SequentialMNIST(root=tmp_path / "client")
    module.prepare_data()
    module.setup()
    assert len(module.splits["test"]) == 40
    before = module.cache_path.stat()
    SequentialMNIST(root=tmp_path / "client").prepare_data()
    assert module.cache_path.stat() == before  # what was downloaded counts as the source
