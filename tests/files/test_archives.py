"""No bit of a stored network can change unnoticed: checkpoints, weights of others, exported folders."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ckcnn import CKCNN
from ckcnn.files.archives import check_archive, sealed
from ckcnn.models import pretrained
from ckcnn.reference.weights_file import read_tensors
from ckcnn.runs import checkpoints

CONTENT: dict[str, Any] = {"state_dict": {"w": torch.arange(64.0)}, "model_class": "CKCNN", "epoch": 3}
FLIPS = 150


def flips(path: Path) -> list[bytes]:
    """The content of a file with one bit flipped, at the ends and at random places between them."""
    content, draw = path.read_bytes(), random.Random(0)
    last = 8 * len(content) - 1
    changed = []
    for place in [0, 1, last, last - 100, last - 170, last - 200, *(draw.randint(0, last) for _ in range(FLIPS))]:
        flipped = bytearray(content)
        flipped[place // 8] ^= 1 << place % 8
        changed.append(bytes(flipped))
    return changed


def accepted(path: Path, read: Callable[[], object]) -> list[int]:
    """The flips of a file that nobody notices."""
    whole, unnoticed = path.read_bytes(), []
    for number, content in enumerate(flips(path)):
        path.write_bytes(content)
        try:
            read()
        except ValueError:
            continue
        unnoticed.append(number)
    path.write_bytes(whole)
    return unnoticed


def test_every_flipped_bit_of_a_checkpoint_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    checkpoints.save(CONTENT, path)
    assert accepted(path, lambda: checkpoints.load(path)) == []
    assert checkpoints.load(path)["epoch"] == 3


@pytest.mark.parametrize("size", [0, 1, 21, 30, 500])
def test_a_checkpoint_that_was_cut_or_has_more_at_its_end_is_refused(tmp_path: Path, size: int) -> None:
    path = tmp_path / "last.ckpt"
    checkpoints.save(CONTENT, path)
    whole = path.read_bytes()
    for content in (whole[:size], whole + b"\0" * size if size else b"\0" * 100, whole[: len(whole) - size - 1]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is not a whole checkpoint"):
            checkpoints.load(path)


def test_other_programs_read_a_sealed_archive(tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    checkpoints.save(CONTENT, path)
    assert torch.equal(torch.load(path, weights_only=True)["state_dict"]["w"], torch.arange(64.0))
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None


def test_a_checkpoint_without_a_seal_is_read_and_its_numbers_are_checked(tmp_path: Path) -> None:
    """As earlier versions wrote them."""
    path = tmp_path / "last.ckpt"
    torch.save(CONTENT, path)
    assert checkpoints.load(path)["epoch"] == 3
    content = path.read_bytes()
    where = content.index(torch.arange(64.0).numpy().tobytes())
    for place in range(where, where + 256, 5):
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        with pytest.raises(ValueError, match="is not a whole checkpoint"):
            checkpoints.load(path)


def test_weights_of_others_are_compared_with_their_checksums(tmp_path: Path) -> None:
    path = tmp_path / "weights.pt"
    torch.save({"w": torch.arange(64.0)}, path)
    content = path.read_bytes()
    where = content.index(torch.arange(64.0).numpy().tobytes())
    for place in (where + 3, where + 100, where + 255):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(ValueError, match=r"is damaged: the checksum of .* does not match; get the original file"):
            read_tensors(path)


def test_an_archive_that_unpacks_to_more_is_not_unpacked() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(1_000_000))
    with pytest.raises(ValueError, match="unpacks to more than its own size"):
        check_archive(file.getvalue())


def test_a_seal_is_part_of_what_is_checked() -> None:
    file = io.BytesIO()
    torch.save(CONTENT, file)
    good = sealed(file.getvalue())
    check_archive(good)
    with pytest.raises(ValueError, match="checksum of the file"):
        check_archive(good[:-1] + b"x")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    CKCNN(1, 3, "classification", 16, omega_0=20.0, hidden_channels=2, kernel_hidden=4).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("name", [pretrained.WEIGHTS, pretrained.CONFIG])
def test_every_flipped_bit_of_an_exported_folder_is_noticed(exported: Path, name: str) -> None:
    pretrained.read_folder(exported)
    assert accepted(exported / name, lambda: pretrained.read_folder(exported)) == []


def test_a_folder_without_checksums_is_read(exported: Path, tmp_path: Path) -> None:
    """As earlier versions wrote them."""
    from safetensors.torch import load_file, save_file

    content = pretrained.read_folder(exported)
    save_file(load_file(exported / pretrained.WEIGHTS), tmp_path / pretrained.WEIGHTS, metadata={"format": "pt"})
    lines = (exported / pretrained.CONFIG).read_text().splitlines()
    kept = [line for line in lines if '"sha256"' not in line]
    (tmp_path / pretrained.CONFIG).write_text("\n".join([*kept[:-2], kept[-2].rstrip(","), "}"]))
    assert pretrained.read_folder(tmp_path)["hyper_parameters"] == content["hyper_parameters"]
