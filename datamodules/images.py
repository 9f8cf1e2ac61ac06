"""Images as sequences of pixels."""

from __future__ import annotations

from typing import Any, Literal, get_args

from ckcnn.checks import check_choice
from ckcnn.datamodules.augmentation import ImageAugmentation
from ckcnn.datamodules.base import SequenceDataModule

Augment = Literal["none", "crop", "crop_flip"]


class ImageDataModule(SequenceDataModule):
    """Sequences that are the pixels of images, row by row.

    Args:
        augment: what training does to an image, anew in each epoch: ``"crop"`` shifts it by up to an eighth of its
            height and width, ``"crop_flip"`` also mirrors every other one; validation and test see images as they are.
        shared: see `SequenceDataModule`.

    Attributes:
        image_size: height and width.
    """

    image_size: tuple[int, int]

    def __init__(self, augment: Augment = "none", **shared: Any) -> None:
        check_choice("augment", augment, get_args(Augment))
        self.augment = augment
        super().__init__(**shared)

    def augmentation(self) -> ImageAugmentation | None:
        if self.augment == "none":
            return None
        return ImageAugmentation(self.image_size, self.augment == "crop_flip", self.seed)
