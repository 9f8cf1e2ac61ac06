"""Random changes in training: images are shifted and mirrored, recordings are shifted and change their speed."""

# B batch, C channels, T time, H height, W width

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from ckcnn.datamodules.pipeline import Rows
from ckcnn.datamodules.randomness import generator

_SPEED = 0.1  # a recording is played at 0.9 to 1.1 times its speed


class Augmentation(ABC):
    """Changes sequences at random: what is drawn depends on seed, epoch and sequence, not on batches or processes.

    Args:
        seed: of the draws.
    """

    draws: int

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._epoch = -1
        self._drawn = torch.empty(0)

    def __call__(self, rows: Rows, items: Tensor, epoch: int, count: int) -> Rows:
        """Change the `items`-th of `count` sequences."""
        if epoch != self._epoch:
            purpose = f"augmentation of epoch {epoch}"
            self._drawn = torch.rand(count, self.draws, generator=generator(self.seed, purpose))
            self._epoch = epoch
        return rows._replace(x=self.change(rows.x, self._drawn[items]))

    @abstractmethod
    def change(self, x: Tensor, draws: Tensor) -> Tensor:
        """Return the changed signals ``(B, C, T)``, given numbers in [0, 1), ``(B, draws)``."""


class ImageAugmentation(Augmentation):
    """Shifts images by up to an eighth of their size and mirrors them; pixels from outside have the stored value 0.

    Args:
        image_size: height and width.
        flip: whether to mirror every other image.
        seed: of the draws.
    """

    draws = 3

    def __init__(self, image_size: tuple[int, int], flip: bool, seed: int) -> None:
        super().__init__(seed)
        self.image_size, self.flip = image_size, flip

    def change(self, x: Tensor, draws: Tensor) -> Tensor:
        height, width = self.image_size
        down = _shifted(draws[:, 0], height)  # (B, H), where each row of the result comes from
        across = _shifted(draws[:, 1], width)
        if self.flip:
            across = torch.where(draws[:, 2:] < 0.5, across.flip(1), across)
        inside = ((down >= 0) & (down < height))[:, :, None] & ((across >= 0) & (across < width))[:, None]
        source = down.clamp(0, height - 1)[:, :, None] * width + across.clamp(0, width - 1)[:, None]  # (B, H, W)
        return x.gather(2, source.flatten(1)[:, None].expand_as(x)) * inside.flatten(1)[:, None]


class RecordingAugmentation(Augmentation):
    """Shifts recordings by up to a tenth of their length; the first or the last sample fills what comes from outside.

    Args:
        speed: whether to also play them up to a tenth faster or slower, by linear interpolation.
        seed: of the draws.
    """

    draws = 2

    def __init__(self, speed: bool, seed: int) -> None:
        super().__init__(seed)
        self.speed = speed

    def change(self, x: Tensor, draws: Tensor) -> Tensor:
        last = x.shape[-1] - 1
        reach = (last + 1) // 10
        shift = (draws[:, :1] * (2 * reach + 1)).floor() - reach  # (B, 1)
        faster = 1 + _SPEED * (2 * draws[:, 1:] - 1) if self.speed else torch.ones_like(shift)
        source = (torch.arange(last + 1) - last / 2) * faster + last / 2 + shift  # (B, T)
        source = source.clamp(0, last)[:, None].expand(-1, x.shape[1], -1)
        before = source.long()
        left = x.gather(2, before).float()
        right = x.gather(2, (before + 1).clamp(max=last)).float()
        return torch.lerp(left, right, source - before)


def _shifted(draws: Tensor, size: int) -> Tensor:
    reach = size // 8
    offsets = (draws * (2 * reach + 1)).long() - reach
    return torch.arange(size) + offsets[:, None]
