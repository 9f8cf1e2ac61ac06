"""The 8x8 digits that come with scikit-learn: real data without a download, for a first run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ckcnn.datamodules.images import ImageDataModule
from ckcnn.datamodules.sequences import RawSequences


class Digits(ImageDataModule):
    """1,797 handwritten digits, pixel by pixel, row by row."""

    task = "classification"
    channels, length, out_channels = 1, 64, 10
    image_size = (8, 8)
    sizes = (1257, 270, 270)
    classes = tuple("0123456789")
    channel_names = ("pixel, 0 ... 16",)

    def load(self) -> Iterator[RawSequences]:
        from sklearn.datasets import load_digits

        pixels, labels = load_digits(return_X_y=True)
        yield RawSequences(pixels.astype(np.uint8)[:, None], labels)
