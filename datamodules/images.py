"""Images as sequences of pixels, and their augmentation in training."""

# B batch, N sequences, C channels, H height, W width

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import Tensor

from ckcnn.checks import check_choice
from ckcnn.datamodules.base import SequenceDataModule
from ckcnn.datamodules.datasets import SequenceDataset, WindowDataset
from ckcnn.datamodules.pipeline import Rows
from ckcnn.datamodules.randomness import generator

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

    def dataset(self, split: str) -> SequenceDataset | WindowDataset:
        found = super().dataset(split)
        if split == "train" and self.augment != "none" and isinstance(found, SequenceDataset):
            found.augmentation = Augmentation(self.image_size, self.augment == "crop_flip", self.seed)
        return found


class Augmentation:
    """Shifts and flips images; what is drawn depends on seed, epoch and image alone, not on batches or processes.

    Args:
        image_size: height and width.
        flip: whether to mirror every other image.
        seed: of the draws.
    """

    def __init__(self, image_size: tuple[int, int], flip: bool, seed: int) -> None:
        self.image_size, self.flip, self.seed = image_size, flip, seed
        self._epoch = -1
        self._draws = torch.empty(0)

    def __call__(self, rows: Rows, items: Tensor, epoch: int, count: int) -> Rows:
        """Augment the `items`-th of `count` sequences; pixels from outside the image have the stored value 0."""
        height, width = self.image_size
        if epoch != self._epoch:
            self._draws = torch.rand(count, 3, generator=generator(self.seed, f"augmentation of epoch {epoch}"))
            self._epoch = epoch
        draws = self._draws[items]  # (B, 3)
        down = _shifted(draws[:, 0], height)  # (B, H), where each row of the result comes from
        across = _shifted(draws[:, 1], width)
        if self.flip:
            across = torch.where(draws[:, 2:] < 0.5, across.flip(1), across)
        inside = ((down >= 0) & (down < height))[:, :, None] & ((across >= 0) & (across < width))[:, None]
        source = down.clamp(0, height - 1)[:, :, None] * width + across.clamp(0, width - 1)[:, None]  # (B, H, W)
        x = rows.x.gather(2, source.flatten(1)[:, None].expand_as(rows.x))
        return rows._replace(x=x * inside.flatten(1)[:, None])


def _shifted(draws: Tensor, size: int) -> Tensor:
    reach = size // 8
    offsets = (draws * (2 * reach + 1)).long() - reach
    return torch.arange(size) + offsets[:, None]
