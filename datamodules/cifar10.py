"""CIFAR-10 as sequences of 1024 pixels with three channels."""

from __future__ import annotations

from collections.abc import Iterator

from ckcnn.datamodules.downloads import Download
from ckcnn.datamodules.images import ImageDataModule
from ckcnn.datamodules.readers import read_cifar_batch
from ckcnn.datamodules.sequences import RawSequences, split_codes

_FOLDER = "cifar-10-batches-py"


class SequentialCIFAR10(ImageDataModule):
    """Small photographs pixel by pixel, row by row.

    The pixels are standardised with the statistics of ImageNet, as the authors did, so `standardise` is ``"none"`` by
    default. A tenth of the official training set is held out for validation; the authors validated on the test set.
    """

    task = "classification"
    channels, length, out_channels = 3, 1024, 10
    image_size = (32, 32)
    sizes = (45_000, 5_000, 10_000)
    channel_names = ("red", "green", "blue")
    classes = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
    files = (
        f"{_FOLDER}/data_batch_1",
        f"{_FOLDER}/data_batch_2",
        f"{_FOLDER}/data_batch_3",
        f"{_FOLDER}/data_batch_4",
        f"{_FOLDER}/data_batch_5",
        f"{_FOLDER}/test_batch",
    )
    origin = (255 * 0.485, 255 * 0.456, 255 * 0.406)  # of ImageNet, as the authors did
    unit = (255 * 0.229, 255 * 0.224, 255 * 0.225)
    default_standardise = "none"

    @property
    def downloads(self) -> tuple[Download, ...]:  # type: ignore[override]
        """The address and checksum that torchvision keeps up to date."""
        from torchvision.datasets import CIFAR10

        return (Download((CIFAR10.url,), CIFAR10.filename, f"md5:{CIFAR10.tgz_md5}", unpack_to="."),)

    @property
    def homepage(self) -> str:  # type: ignore[override]
        """Where torchvision gets it."""
        from torchvision.datasets import CIFAR10

        return f"{CIFAR10.url} (unpack it there)"

    def load(self) -> Iterator[RawSequences]:
        for name in self.track(self.files, "reading batches"):
            path = self.source(name)
            pixels, labels = read_cifar_batch(path)
            codes = split_codes("test" if path.name == "test_batch" else "train", len(labels))
            yield RawSequences(pixels.reshape(-1, 3, 1024), labels, codes, source=str(path))
