"""A machine that is full, small or strange: a command works, or says in one sentence why not; nothing is lost."""

from __future__ import annotations

import getpass
import io
import multiprocessing
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pytorch_lightning import Callback, LightningModule, Trainer

from ckcnn.__main__ import main
from ckcnn.runs import checkpoints
from tests.campaign.kills import difference

FIT = [
    "fit",
    "--config=digits.yaml",
    "--model.hidden_channels=6",
    "--trainer.accelerator=cpu",
    "--trainer.enable_progress_bar=false",
    "--trainer.limit_train_batches=2",
    "--trainer.limit_val_batches=1",
    "--trainer.max_epochs=3",
]
LAST = Path("runs/digits/version_0/checkpoints/last.ckpt")


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """As ``ulimit -f`` does, for the time being; what would be larger fails as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def one_sentence(capsys: pytest.CaptureFixture[str]) -> str:
    shown = capsys.readouterr().err
    assert "Traceback" not in shown
    (line,) = [line for line in shown.splitlines() if line.startswith("ckcnn: error: ")]
    return line


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a disk with enough room."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(FIT) == 0
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("size", [1_000, 70_000, 200_000])
def test_no_room_to_prepare_data(size: int, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with largest_file(size):
        assert main(FIT) == 2
    assert "cannot write the cache data/cache/digits.h5: File too large (it needs " in one_sentence(capsys)
    assert not Path("data/cache").exists()
    assert not Path("runs/digits").exists()


@pytest.mark.parametrize("size", [100, 10_000])
def test_no_room_for_a_checkpoint(size: int, here: Path, whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fit = [*FIT, f"--data.cache={whole}/data/cache", "--ckpt_path=last"]
    with largest_file(size):
        assert main(fit) == 2
    assert "File too large while writing runs/digits/version_0/" in one_sentence(capsys)
    assert list(Path("runs").rglob("*.tmp")) == []
    assert main(fit) == 0
    assert difference(here / "runs/digits", whole / "runs/digits") == ""


def test_no_room_while_training(here: Path, whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fit = [*FIT, f"--data.cache={whole}/data/cache"]
    with largest_file(resource.RLIM_INFINITY):  # the callback changes it
        assert main([*fit, "--trainer.callbacks+=tests.test_machine.FullAfterOneEpoch"]) == 2
    assert "the previous one is whole" in one_sentence(capsys)
    assert checkpoints.load(LAST)["epoch"] == 0
    assert main([*fit, "--ckpt_path=last"]) == 0
    assert difference(here / "runs/digits", whole / "runs/digits") == ""


class FullAfterOneEpoch(Callback):
    """Leaves no room for anything larger than 500 bytes."""

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.current_epoch == 1:
            resource.setrlimit(resource.RLIMIT_FSIZE, (500, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


@pytest.mark.parametrize("target", ["nowhere", "runs"])
@pytest.mark.parametrize("link", ["runs", "runs/digits"])
def test_links_that_lead_nowhere(
    link: str, target: str, here: Path, whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(link).parent.mkdir(exist_ok=True)
    Path(link).symlink_to(target if target == "nowhere" else Path(link).name)
    assert main([*FIT, f"--data.cache={whole}/data/cache"]) == 2
    assert f"{link} is a link to" in one_sentence(capsys)


def test_a_file_in_the_place_of_a_folder(here: Path, whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("runs").touch()
    assert main([*FIT, f"--data.cache={whole}/data/cache"]) == 2
    assert "runs is a file; make it a folder, or give another folder with --runs" in one_sentence(capsys)


def test_without_shared_memory(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def none() -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(multiprocessing, "Lock", none)
    assert main([*FIT, "--data.num_workers=2"]) == 2
    assert "num_workers 2 needs shared memory, and this machine gives none in /dev/shm" in one_sentence(capsys)
    assert not Path("runs/digits").exists()


def test_a_user_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch asks for the name when it is imported."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "")

    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert main(["--version"]) == 0
    assert getpass.getuser() == f"uid-{os.getuid()}"


@pytest.mark.parametrize("command", [["presets"], ["test", "--config=digits.yaml", "--name=größe→", "--runs=läufe"]])
def test_a_terminal_that_knows_only_ascii(
    command: list[str], here: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("läufe").mkdir()
    Path("läufe/größe→").symlink_to(whole / "runs/digits")
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert main(command) == 0


def test_what_killed_writers_left_goes_at_the_next_start(here: Path, whole: Path) -> None:
    """Whichever file they were writing: number 1 is alive, but it is another process by now."""
    from ckcnn.files import replacing

    with replacing(Path("example")) as file:
        machine = file.name.split(".")[-2].split("-")[0]
    run = LAST.parents[1]
    LAST.parent.mkdir(parents=True)
    left = [run / f".metrics.csv.{machine}-1-0-ab.tmp", LAST.parent / f".best-007.ckpt.{machine}-4194999-5-ab.tmp"]
    for path in left:
        path.write_bytes(b"half")
    assert main([*FIT, f"--data.cache={whole}/data/cache", "--ckpt_path=last"]) == 0
    assert [path for path in left if path.exists()] == []
