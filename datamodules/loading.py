"""Which sequences come when, in which process, and how an interrupted epoch resumes."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any

import torch
from torch import distributed
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from ckcnn.datamodules.coarse import RateSchedule
from ckcnn.datamodules.randomness import generator
from ckcnn.datamodules.sequences import SequenceBatch


def processes() -> tuple[int, int]:
    """How many processes share the data, and which of them this is."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_world_size(), distributed.get_rank()
    return 1, 0


class ShardSampler(DistributedSampler[Any]):
    """The part of a data set that this process sees.

    Every n-th sequence of one common order goes to each of n processes. So their batches together are the batch that
    one process with n times the batch size would see, whatever their number is. The order of training depends on seed
    and epoch alone, so that a resumed run sees what an uninterrupted one would.

    Args:
        dataset: what to sample.
        seed: of the order of training; None keeps the order of the file.
        batch_size: sequences of one process in a batch.
        processes: how many share the data.
        rank: which of them this is.
    """

    def __init__(self, dataset: Dataset[Any], seed: int | None, batch_size: int, processes: int, rank: int) -> None:
        super().__init__(dataset, processes, rank, shuffle=seed is not None, seed=seed or 0)
        self.batch_size = batch_size

    def __iter__(self) -> Iterator[int]:
        order = list(range(self._length()))
        if self.shuffle:
            order = torch.randperm(self._length(), generator=generator(self.seed, f"epoch {self.epoch}")).tolist()
            if getattr(self.dataset, "differs_by_epoch", False):
                order = [self.epoch * self._length() + item for item in order]  # passes the epoch to the data set
            self.epoch += 1  # for loops that never call set_epoch
        own = order[self.rank :: self.num_replicas]
        return iter(own + order[:1] * self._needs_one_more())

    def __len__(self) -> int:
        return len(range(self.rank, self._length(), self.num_replicas)) + self._needs_one_more()

    @property
    def last_share(self) -> float:
        """What the loss of the last training batch counts, by the number of sequences in it."""
        left = self._left()
        return len(range(self.rank, left, self.num_replicas)) * self.num_replicas / left

    def _left(self) -> int:
        """Sequences in the last batch of all processes."""
        together = self.batch_size * self.num_replicas
        return self._length() % together or together

    def _needs_one_more(self) -> bool:
        """A training step needs all processes: one that has no sequence left repeats one, which does not count."""
        return self.shuffle and self.rank >= self._left()

    def _length(self) -> int:
        return len(self.dataset) if isinstance(self.dataset, Sized) else 0


class ResumableLoader(DataLoader[SequenceBatch]):
    """A loader that counts the batches of an epoch and can leave out the first ones.

    The data module keeps the count in checkpoints, not the loader: Lightning would give its state back only to a loader
    that is made after the loops were restored, and a schedule that asks for the number of steps, such as one-cycle,
    makes the loader before. Workers start with the first batch, not with the iterator, because Lightning makes the
    iterator before it passes the epoch to the sampler.

    Attributes:
        given: batches of this epoch so far.
        skip: batches that the next iteration leaves out.
        schedule: the sampling step of each epoch, if it changes and batches carry no stamps that say it.
        knows_its_place: an interrupted epoch resumes where it was; other loaders begin it again.
    """

    knows_its_place = True

    given = 0
    skip = 0
    schedule: RateSchedule | None = None

    def __iter__(self) -> Iterator[SequenceBatch]:  # type: ignore[override]
        self.given, skip, self.skip = 0, self.skip, 0
        for batch in super().__iter__():
            self.given += 1
            if self.given > skip:
                yield batch

    def step(self, epoch: int) -> int:
        """Return the sampling step of the batches of an epoch, in training samples."""
        return 1 if self.schedule is None else self.schedule.step(epoch)

    def share(self, index: int) -> float:
        """What the loss of this process counts in a training step beside those of the others, 1 on average.

        The last batch of an epoch may not divide evenly among them, and every sequence is to count the same.

        Args:
            index: of the batch in the epoch.
        """
        last = index == len(self) - 1
        return self.sampler.last_share if last and isinstance(self.sampler, ShardSampler) else 1.0
