"""MNIST as sequences of 784 pixels, row by row or permuted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ckcnn.datamodules.base import SequenceDataModule
from ckcnn.datamodules.downloads import Download
from ckcnn.datamodules.options import check_count
from ckcnn.datamodules.randomness import published_permutation
from ckcnn.datamodules.readers import check_matching, read_idx
from ckcnn.datamodules.sequences import RawSequences, split_codes

_FOLDER = "MNIST/raw"
_MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/")
_CHECKSUMS = {  # torchvision.datasets.MNIST.resources
    "train-images-idx3-ubyte": "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte": "md5:d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte": "md5:9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte": "md5:ec29112dd5afa0611ce80d1b7f02629c",
}


class SequentialMNIST(SequenceDataModule):
    """Digits pixel by pixel: sMNIST, or pMNIST if `permuted`.

    The pixels are standardised with the published mean and deviation, so `standardise` is ``"none"`` by default. A
    tenth of the official training set is held out for validation; the authors validated on the test set.

    Args:
        permuted: whether all images have their pixels in the same random order.
        permutation_seed: which order; 0 is the authors' one.
        shared: see `SequenceDataModule`.
    """

    task = "classification"
    channels, length, out_channels = 1, 784, 10
    sizes = (54_000, 6_000, 10_000)
    classes = tuple("0123456789")
    channel_names = ("pixel, 0 ... 255",)
    files = tuple(f"{_FOLDER}/{name}" for name in _CHECKSUMS)
    downloads = tuple(
        Download(tuple(f"{mirror}{name}.gz" for mirror in _MIRRORS), f"{_FOLDER}/{name}.gz", checksum)
        for name, checksum in _CHECKSUMS.items()
    )
    homepage = _MIRRORS[0]
    origin = (255 * 0.1307,)  # mean and deviation of the training pixels, as everybody uses them
    unit = (255 * 0.3081,)
    default_standardise = "none"

    def __init__(self, permuted: bool = False, permutation_seed: int = 0, **shared: Any) -> None:
        check_count("permutation_seed", permutation_seed, least=0)
        self.permuted, self.permutation_seed = permuted, permutation_seed
        super().__init__(**shared)

    def load(self) -> Iterator[RawSequences]:
        for split, name in (("train", "train"), ("test", "t10k")):
            labels_path = self.source(f"{_FOLDER}/{name}-labels-idx1-ubyte")
            images = read_idx(self.source(f"{_FOLDER}/{name}-images-idx3-ubyte"), dimensions=3)
            labels = read_idx(labels_path, dimensions=1)
            check_matching(labels_path, len(images), len(labels))
            codes = split_codes(split, len(images))
            yield RawSequences(images.reshape(len(images), 1, -1), labels, codes, source=str(labels_path))

    def order(self) -> NDArray[np.int64] | None:
        return published_permutation(self.length, self.permutation_seed) if self.permuted else None
