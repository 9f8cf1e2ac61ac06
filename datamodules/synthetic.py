"""The two synthetic memory tasks (paper, appendix C), drawn from a seed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import torch

from ckcnn.checks import check_count
from ckcnn.checks.memory import check_room
from ckcnn.datamodules.base import SequenceDataModule
from ckcnn.datamodules.randomness import generator
from ckcnn.datamodules.sequences import SPLITS, RawSequences, split_codes

_CHUNK, _CHUNK_VALUES = 1000, 10_000_000  # sequences that are drawn together, and their steps


class _Synthetic(SequenceDataModule):
    """Sequences that are drawn, a thousand at a time, with a generator for each thousand of each split."""

    default_standardise = "none"
    thinnable = False
    sizes: tuple[int, int, int]

    def __init__(self, **shared: Any) -> None:
        values = sum(self.sizes) * self.length * (self.channels + 1)  # at least one byte each
        check_room(f"{sum(self.sizes):,} sequences of {self.length} steps", values, "choose a smaller length")
        super().__init__(**shared)

    def load(self) -> Iterator[RawSequences]:
        most = max(1, min(_CHUNK, _CHUNK_VALUES // self.length))
        chunks = [
            (split, start, min(most, size - start))
            for split, size in zip(SPLITS, self.sizes, strict=True)
            for start in range(0, size, most)
        ]
        for split, start, count in self.track(chunks, "drawing sequences"):
            x, y = self.draw(count, generator(self.seed, f"{split} {start}"))
            yield RawSequences(x.numpy(), y.numpy(), split_codes(split, count))

    def draw(self, count: int, source: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Some sequences and their targets."""
        raise NotImplementedError

    def recipe(self) -> dict[str, Any]:
        return {"length": self.length, "seed": self.seed}


class CopyMemory(_Synthetic):
    """Ten digits out of 1 ... 8, T - 1 zeros, eleven nines; the last ten steps must repeat the digits.

    The digits are the values of one channel. The paper has T = 100, 200, 1000, 3000 and 6000; a model that always
    predicts 0 is right at ``(T + 10) / (T + 20)`` of the steps.

    Args:
        length: T of the paper; a sequence has 20 steps more.
        shared: see `SequenceDataModule`.
    """

    task = "every_step"
    channels, out_channels = 1, 10
    sizes = (10_000, 1_000, 1_000)  # the authors', and a validation set, which they did without
    digits: ClassVar[int] = 10

    def __init__(self, length: int = 1000, **shared: Any) -> None:
        check_count("length", length)
        self.length = length + 2 * self.digits
        super().__init__(**shared)

    def draw(self, count: int, source: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        memory = torch.randint(1, 9, (count, self.digits), generator=source, dtype=torch.int8)
        x = torch.zeros(count, 1, self.length, dtype=torch.int8)
        x[:, 0, : self.digits] = memory
        x[:, 0, -self.digits - 1 :] = 9
        y = torch.zeros(count, self.length, dtype=torch.int8)
        y[:, -self.digits :] = memory
        return x, y


class AddingProblem(_Synthetic):
    """Uniform values and two marks; the target is the sum of the two marked values.

    The marks lie anywhere, not one in each half. Answering 1 gives a mean squared error of 1/6. The paper's lengths are
    100, 200, 1000, 3000 and 6000; the longest takes 2.5 GB on disk.

    Args:
        length: steps of a sequence.
        shared: see `SequenceDataModule`.
    """

    task = "regression"
    channels, out_channels = 2, 1
    channel_names = ("value", "mark")
    sizes = (50_000, 1_000, 1_000)  # the authors', and a validation set, which they did without

    def __init__(self, length: int = 1000, **shared: Any) -> None:
        check_count("length", length, least=2)
        self.length = length
        super().__init__(**shared)

    def draw(self, count: int, source: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        values = torch.rand(count, self.length, generator=source)
        first = torch.randint(self.length, (count,), generator=source)
        second = torch.randint(self.length - 1, (count,), generator=source)
        marks = torch.stack([first, second + (second >= first)], dim=1)  # two different steps
        x = torch.stack([values, torch.zeros_like(values).scatter_(1, marks, 1.0)], dim=1)
        return x, values.gather(1, marks).sum(1, keepdim=True)
