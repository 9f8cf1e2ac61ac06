from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from ckcnn.datamodules import DataError, SequentialMNIST
from ckcnn.datamodules.readers import read_idx
from tests.datamodules.official import MNIST, write_idx, write_mnist


def _ready(root: Path, **options: object) -> SequentialMNIST:
    module = SequentialMNIST(root=root, **options)
    module.prepare_data()
    module.setup()
    return module


def test_pixels_row_by_row_in_published_units(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    module = _ready(tmp_path)
    images = read_idx(tmp_path / MNIST / "t10k-images-idx3-ubyte", 3)
    batch = module.dataset("test").__getitems__(range(40))
    expected = (images.reshape(40, 1, 784) / 255 - 0.1307) / 0.3081
    assert np.allclose(batch.x, expected, atol=1e-5)


def test_the_published_permutation_is_the_default(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    plain = _ready(tmp_path).dataset("test")[0].x
    permuted = _ready(tmp_path, permuted=True)
    order = np.random.RandomState(0).permutation(784)
    assert order[:8].tolist() == [693, 85, 647, 392, 765, 14, 299, 711]  # that of the published weights
    assert torch.equal(permuted.dataset("test")[0].x, plain[:, order])
    other = _ready(tmp_path, permuted=True, permutation_seed=1).dataset("test")[0].x
    assert not torch.equal(other, plain[:, order])
    assert torch.equal(_ready(tmp_path, permuted=True, seed=5).dataset("test")[0].x, plain[:, order])


def test_gzipped_files_are_read(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    plain = _ready(tmp_path, cache=tmp_path / "a").dataset("test")[0].x
    for path in list((tmp_path / MNIST).iterdir()):
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert torch.equal(_ready(tmp_path, cache=tmp_path / "b").dataset("test")[0].x, plain)


def _expect(tmp_path: Path, *words: str) -> None:
    with pytest.raises(DataError) as caught:
        SequentialMNIST(root=tmp_path).prepare_data()
    for word in words:
        assert word in str(caught.value)
    assert not list((tmp_path / "cache").glob("*.h5*"))


@pytest.mark.parametrize("cut", [3, 10, 1000])
def test_truncated_idx(cut: int, tmp_path: Path) -> None:
    write_mnist(tmp_path)
    path = tmp_path / MNIST / "t10k-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:cut])
    _expect(tmp_path, str(path), "download it again")


def test_broken_gzip(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    path = tmp_path / MNIST / "train-labels-idx1-ubyte"
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes())[:-20])
    path.unlink()
    _expect(tmp_path, str(packed), "cannot be read")


def test_labels_that_do_not_match(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    path = tmp_path / MNIST / "train-labels-idx1-ubyte"
    write_idx(path, np.zeros(7, dtype=np.uint8))
    _expect(tmp_path, str(path), "7 labels do not match 200 sequences")


def test_labels_out_of_range(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    path = tmp_path / MNIST / "train-labels-idx1-ubyte"
    write_idx(path, np.full(200, 11, dtype=np.uint8))
    _expect(tmp_path, str(path), "0 ... 9", "11")


def test_real_files(real_data: Path, real_cache: Path) -> None:
    module = _ready(real_data, cache=real_cache)
    assert {name: len(rows) for name, rows in module.splits.items()} == {"train": 54_000, "val": 6_000, "test": 10_000}
    labels = module._store.y[module.splits["val"]]
    shares = torch.bincount(labels) / len(labels)
    whole = torch.bincount(module._store.y[:60_000]) / 60_000
    assert torch.allclose(shares, whole, atol=1e-3)  # stratified
    test = module.dataset("test").__getitems__(range(10_000))
    assert test.y[:5].tolist() == [7, 2, 1, 0, 4]
    assert float(test.x.mean()) == pytest.approx(0.0, abs=0.02)
    assert float(test.x.std()) == pytest.approx(1.0, abs=0.02)
