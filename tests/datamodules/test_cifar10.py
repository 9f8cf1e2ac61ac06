from __future__ import annotations

import io
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest

from ckcnn.datamodules import DataError, SequentialCIFAR10
from ckcnn.datamodules import cifar10 as module_of_cifar10
from ckcnn.datamodules.downloads import Download
from tests.datamodules.official import CIFAR, write_cifar


def _ready(root: Path) -> SequentialCIFAR10:
    module = SequentialCIFAR10(root=root)
    module.prepare_data()
    module.setup()
    return module


def test_pixels_row_by_row_in_published_units(tmp_path: Path) -> None:
    write_cifar(tmp_path)
    module = _ready(tmp_path)
    batch = pickle.loads((tmp_path / CIFAR / "test_batch").read_bytes())
    pixels = batch["data"].reshape(-1, 3, 32, 32) / 255
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    expected = (pixels - mean[:, None, None]) / std[:, None, None]
    found = module.dataset("test").__getitems__(range(40))
    assert np.allclose(found.x, expected.reshape(40, 3, 1024), atol=1e-5)
    assert found.y.tolist() == batch["labels"]
    assert {name: len(rows) for name, rows in module.splits.items()} == {"train": 180, "val": 20, "test": 40}


def test_archive_that_lies_there_is_unpacked_without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_cifar(tmp_path / "made")
    with tarfile.open(tmp_path / "cifar-10-python.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "made" / CIFAR, CIFAR)
    download = SequentialCIFAR10(root=tmp_path).downloads[0]
    local = Download(("http://127.0.0.1:9/never-asked",), download.path, unpack_to=download.unpack_to)
    monkeypatch.setattr(module_of_cifar10.SequentialCIFAR10, "downloads", (local,))
    assert len(_ready(tmp_path).splits["test"]) == 40


def _expect(root: Path, *words: str) -> None:
    with pytest.raises(DataError) as caught:
        SequentialCIFAR10(root=root).prepare_data()
    for word in words:
        assert word in str(caught.value)
    assert not list((root / "cache").glob("*.h5*"))


def test_damaged_archive(tmp_path: Path) -> None:
    (tmp_path / "cifar-10-python.tar.gz").write_bytes(b"not an archive")
    _expect(tmp_path, "cifar-10-python.tar.gz", "is damaged", "md5:c58f30108f718f92721af3b95e74349a")


def test_pickle_that_wants_to_run_code_is_refused(tmp_path: Path) -> None:
    write_cifar(tmp_path)

    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return Path.touch, (tmp_path / "owned",)

    path = tmp_path / CIFAR / "data_batch_3"
    path.write_bytes(pickle.dumps({"data": Evil(), "labels": []}))
    _expect(tmp_path, str(path), "never needs")
    assert not (tmp_path / "owned").exists()


def test_truncated_batch(tmp_path: Path) -> None:
    write_cifar(tmp_path)
    path = tmp_path / CIFAR / "data_batch_2"
    path.write_bytes(path.read_bytes()[:5000])
    _expect(tmp_path, str(path), "not a python batch")


def test_wrong_width(tmp_path: Path) -> None:
    write_cifar(tmp_path)
    path = tmp_path / CIFAR / "data_batch_1"
    buffer = io.BytesIO()
    pickle.dump({"data": np.zeros((4, 100), dtype=np.uint8), "labels": [0] * 4}, buffer)
    path.write_bytes(buffer.getvalue())
    _expect(tmp_path, str(path), "3072")


def test_labels_that_do_not_match(tmp_path: Path) -> None:
    write_cifar(tmp_path)
    path = tmp_path / CIFAR / "data_batch_1"
    path.write_bytes(pickle.dumps({"data": np.zeros((4, 3072), dtype=np.uint8), "labels": [0] * 5}))
    _expect(tmp_path, str(path), "5 labels do not match 4 sequences")
