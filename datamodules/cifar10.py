"""CIFAR-10 as sequences of 1024 pixels with three channels."""

from __future__ import annotations

from collections.abc import Iterator

from ckcnn.datamodules.base import SequenceDataModule
from ckcnn.datamodules.downloads import Download
from ckcnn.datamodules.readers import read_cifar_batch
from ckcnn.datamodules.sequences import RawSequences, split_codes

_FOLDER = "cifar-10-batches-py"
_URL = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"


class SequentialCIFAR10(SequenceDataModule):
    """Small photographs pixel by pixel, row by row.

    The pixels are standardised with the statistics of ImageNet, as the authors did, so `standardise` is ``"none"`` by
    default. A tenth of the official training set is held out for validation; the authors validated on the test set.
    """

    task = "classification"
    channels, length, out_channels = 3, 1024, 10
    sizes = (45_000, 5_000, 10_000)
    channel_names = ("red", "green", "blue")
    classes = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
    files = tuple(f"{_FOLDER}/{name}" for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"))
    downloads = (  # the checksum is that of torchvision.datasets.CIFAR10
        Download((_URL,), "cifar-10-python.tar.gz", "md5:c58f30108f718f92721af3b95e74349a", unpack_to="."),
    )
    homepage = f"{_URL} (unpack it there)"
    origin = (255 * 0.485, 255 * 0.456, 255 * 0.406)  # of ImageNet, as the authors did
    unit = (255 * 0.229, 255 * 0.224, 255 * 0.225)
    default_standardise = "none"

    def load(self) -> Iterator[RawSequences]:
        for name in self.track(self.files, "reading batches"):
            path = self.source(name)
            pixels, labels = read_cifar_batch(path)
            codes = split_codes("test" if path.name == "test_batch" else "train", len(labels))
            yield RawSequences(pixels.reshape(-1, 3, 1024), labels, codes, source=str(path))
