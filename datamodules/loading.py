"""Which sequences come when, in which process, and how an interrupted epoch goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any

import torch
from torch import distributed
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from ckcnn.datamodules.randomness import generator
from ckcnn.datamodules.sequences import SequenceBatch


class ShardSampler(DistributedSampler[Any]):
    """The part of a data set that this process sees.

    Every n-th sequence of one common order goes to each of n processes. So their batches together are the batch that
    one process with n times the batch size would see. The order of training depends on seed and epoch alone, so that a
    resumed run sees what an uninterrupted one would.

    Args:
        dataset: what to sample.
        seed: of the order of training; None keeps the order of the file.
        processes: how many share the data; by default all of `torch.distributed`.
        rank: which of them this is.
    """

    def __init__(
        self, dataset: Dataset[Any], seed: int | None, processes: int | None = None, rank: int | None = None
    ) -> None:
        together = distributed.is_available() and distributed.is_initialized()
        processes = processes or (distributed.get_world_size() if together else 1)
        rank = rank if rank is not None else (distributed.get_rank() if together else 0)
        super().__init__(dataset, processes, rank, shuffle=seed is not None, seed=seed or 0)

    def __iter__(self) -> Iterator[int]:
        order = list(range(self._length()))
        if self.shuffle:
            order = torch.randperm(self._length(), generator=generator(self.seed, f"epoch {self.epoch}")).tolist()
            order += order[: len(self) * self.num_replicas - len(order)]  # training steps need all processes
            self.epoch += 1  # for loops that never call set_epoch
        return iter(order[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        missing = 0 if self.shuffle else self.rank  # evaluation counts every sequence once
        return -(-(self._length() - missing) // self.num_replicas)

    def _length(self) -> int:
        return len(self.dataset) if isinstance(self.dataset, Sized) else 0


class ResumableLoader(DataLoader[SequenceBatch]):
    """A loader that counts the batches of an epoch and can leave out the first ones.

    The data module keeps the count in checkpoints, not the loader: Lightning would give its state back only to a loader
    that is made after the loops were restored, and a schedule that asks for the number of steps, such as one-cycle,
    makes the loader before. Workers start with the first batch, not with the iterator, because Lightning makes the
    iterator before it tells the sampler the epoch.

    Attributes:
        given: batches of this epoch so far.
        skip: batches that the next iteration leaves out.
    """

    given = 0
    skip = 0

    def __iter__(self) -> Iterator[SequenceBatch]:  # type: ignore[override]
        self.given, skip, self.skip = 0, self.skip, 0
        for batch in super().__iter__():
            self.given += 1
            if self.given > skip:
                yield batch
