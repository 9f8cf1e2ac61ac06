"""MNIST as sequences of 784 pixels, row by row or permuted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ckcnn.checks import check_count
from ckcnn.datamodules.downloads import Download
from ckcnn.datamodules.images import ImageDataModule
from ckcnn.datamodules.randomness import published_permutation
from ckcnn.datamodules.readers import check_matching, read_idx
from ckcnn.datamodules.sequences import RawSequences, split_codes

_FOLDER = "MNIST/raw"
_NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


class SequentialMNIST(ImageDataModule):
    """Digits pixel by pixel: sMNIST, or pMNIST if `permuted`.

    The pixels are standardised with the published mean and deviation, so `standardise` is ``"none"`` by default. A
    tenth of the official training set is held out for validation; the authors validated on the test set.

    Args:
        permuted: whether all images have their pixels in the same random order.
        permutation_seed: which order; 0 is the authors' one.
        shared: see `ImageDataModule`.
    """

    task = "classification"
    channels, length, out_channels = 1, 784, 10
    image_size = (28, 28)
    sizes = (54_000, 6_000, 10_000)
    classes = tuple("0123456789")
    channel_names = ("pixel, 0 ... 255",)
    files = tuple(f"{_FOLDER}/{name}" for name in _NAMES)
    origin = (255 * 0.1307,)  # mean and deviation of the training pixels, as everybody uses them
    unit = (255 * 0.3081,)
    default_standardise = "none"

    def __init__(self, permuted: bool = False, permutation_seed: int = 0, **shared: Any) -> None:
        check_count("permutation_seed", permutation_seed, least=0)
        self.permuted, self.permutation_seed = permuted, permutation_seed
        super().__init__(**shared)

    @property
    def downloads(self) -> tuple[Download, ...]:  # type: ignore[override]
        """The mirrors and checksums that torchvision keeps up to date."""
        from torchvision.datasets import MNIST

        return tuple(
            Download(tuple(f"{mirror}{name}" for mirror in MNIST.mirrors), f"{_FOLDER}/{name}", f"md5:{checksum}")
            for name, checksum in MNIST.resources
        )

    @property
    def homepage(self) -> str:  # type: ignore[override]
        """The first mirror of torchvision."""
        from torchvision.datasets import MNIST

        return MNIST.mirrors[0]

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
