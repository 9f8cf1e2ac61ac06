"""Data sets that return a whole batch at once: sequences out of a cache, and windows over a stream."""

# B batch, N sequences, C channels, T time, L length of a row of the stream

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from ckcnn.datamodules.augmentation import Augmentation
from ckcnn.datamodules.cache import open_cache
from ckcnn.datamodules.coarse import RateSchedule
from ckcnn.datamodules.pipeline import Pipeline, Rows
from ckcnn.datamodules.sequences import DataError, SequenceBatch
from ckcnn.datamodules.threads import one_thread
from ckcnn.datamodules.transforms import unpack_steps
from ckcnn.tasks import IGNORED

LAZY_BYTES = 1 << 29  # larger signals stay in the file
_RESIDENT_ROWS = 1024  # sequences that are made at once
_SHARED_VALUES = 1 << 20  # a batch with more values than this is shared among threads


class LazyRows:
    """Rows of an array in a cache, read on demand; each process opens the file for itself."""

    def __init__(self, path: Path, name: str, shape: tuple[int, ...]) -> None:
        self.path, self.name, self.shape = path, name, shape
        self._file: h5py.File | None = None
        self._owner = 0

    def __getitem__(self, rows: Tensor) -> Tensor:
        if self._file is None or self._owner != os.getpid():
            self._file, self._owner = open_cache(self.path), os.getpid()
        data = self._file[self.name]
        out = np.empty((len(rows), *self.shape[1:]), dtype=data.dtype)
        for position, row in enumerate(rows.tolist()):
            data.read_direct(out, np.s_[row], np.s_[position])
        return torch.from_numpy(out)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_file": None}


class Store:
    """The arrays of a data set.

    Args:
        x: signals ``(N, C, T)``, or tokens ``(N,)``.
        arrays: those of `RawSequences` that there are besides `x`, by name.
    """

    def __init__(self, x: Tensor | LazyRows, arrays: Mapping[str, Tensor]) -> None:
        self.x, self.shape = x, tuple(x.shape)
        self.y: Tensor | None = arrays.get("y")
        self.split: Tensor | None = arrays.get("split")
        self.lengths: Tensor | None = arrays.get("lengths")
        self.times: Tensor | None = arrays.get("times")
        self.kept: NDArray[np.uint8] | None = None

    @classmethod
    def read(cls, path: Path) -> Store:
        """Return the arrays of a cache, in memory except for signals that are too large."""
        with open_cache(path) as file:
            small = {name: torch.from_numpy(data[...]) for name, data in file.items() if name != "x"}
            x = file["x"]
            lazy = x.nbytes > LAZY_BYTES
            return cls(LazyRows(path, "x", x.shape) if lazy else torch.from_numpy(x[...]), small)

    def rows(self, index: Tensor) -> Rows:
        """Some sequences."""
        kept = None if self.kept is None else unpack_steps(self.kept[index.numpy()], self.shape[-1])
        lengths = None if self.lengths is None else self.lengths[index]
        times = None if self.times is None else self.times[index]
        return Rows(self.x[index], self.labels(index), lengths, times, kept)

    def all_labels(self) -> NDArray[np.generic]:
        """All labels as they are stored: those of every step would take eight times as much as whole numbers."""
        if self.y is None:
            raise ValueError("text has no labels")
        return self.y.numpy()

    def labels(self, index: Tensor) -> Tensor:
        """The labels of some sequences: int64 if they are whole numbers, else float32."""
        if self.y is None:
            raise ValueError("text has no labels")
        y = self.y[index]
        return y.float() if y.is_floating_point() else y.long()


class SequenceDataset(Dataset[SequenceBatch]):
    """The sequences of one split; `__getitems__` is how a DataLoader asks for a batch at once.

    Attributes:
        augmentation: changes the sequences in each epoch; None for nothing.
        schedule: the sampling step of each epoch, if it changes.
        coarse: what makes batches at each of these steps.
    """

    def __init__(self, store: Store, index: NDArray[np.int64], pipeline: Pipeline) -> None:
        self.store, self.index, self.pipeline = store, torch.from_numpy(index), pipeline
        self.augmentation: Augmentation | None = None
        self.schedule: RateSchedule | None = None
        self.coarse: Mapping[int, Pipeline] = {}

    @property
    def differs_by_epoch(self) -> bool:
        """Whether the number of a sequence is that of a list in which every epoch follows the one before."""
        return self.augmentation is not None or self.schedule is not None

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, item: int) -> SequenceBatch:
        x, y, times, lengths = self.__getitems__([item])
        return SequenceBatch(x[0], y[0], None if times is None else times[0], None if lengths is None else lengths[0])

    def __getitems__(self, items: Sequence[int]) -> SequenceBatch:
        small = len(items) * math.prod(self.store.shape[1:]) <= _SHARED_VALUES
        with one_thread() if small else nullcontext():
            numbers = torch.as_tensor(items)
            epoch, numbers = int(numbers[0]) // len(self), numbers % len(self)  # epoch 0 where all are alike
            rows = self.store.rows(self.index[numbers])
            if self.augmentation is not None:
                rows = self.augmentation(rows, numbers, epoch, len(self))
            pipeline = self.pipeline if self.schedule is None else self.coarse[self.schedule.step(epoch)]
            return pipeline(rows)


class ResidentDataset(Dataset[SequenceBatch]):
    """The sequences of one split, made once and kept on a device, so that nothing is made or copied for a step.

    Args:
        dataset: what makes them, the same ones in every epoch.
        device: that of the model.

    Raises:
        DataError: if they do not fit into its memory.
    """

    def __init__(self, dataset: SequenceDataset, device: torch.device) -> None:
        starts = range(0, len(dataset), _RESIDENT_ROWS)
        pieces = (range(start, min(start + _RESIDENT_ROWS, len(dataset))) for start in starts)
        try:
            made = [_each(dataset.__getitems__(piece), lambda values: values.to(device)) for piece in pieces]
            times = [batch.times for batch in made if batch.times is not None]
            lengths = [batch.lengths for batch in made if batch.lengths is not None]
            self.all = SequenceBatch(
                torch.cat([batch.x for batch in made]),
                torch.cat([batch.y for batch in made]),
                torch.cat(times) if times else None,
                torch.cat(lengths) if lengths else None,
            )
        except torch.OutOfMemoryError:
            raise DataError(
                f"{len(dataset)} sequences do not fit into the memory of {device}; leave out --data.on_device"
            ) from None
        self._length = len(dataset)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, item: int) -> SequenceBatch:
        return _each(self.all, lambda values: values[item])

    def __getitems__(self, items: Sequence[int]) -> SequenceBatch:
        numbers = torch.as_tensor(items).to(self.all.x.device, non_blocking=True)
        return _each(self.all, lambda values: values[numbers])


def _each(batch: SequenceBatch, change: Callable[[Tensor], Tensor]) -> SequenceBatch:
    """Change every tensor of a batch."""
    times = None if batch.times is None else change(batch.times)
    lengths = None if batch.lengths is None else change(batch.lengths)
    return SequenceBatch(change(batch.x), change(batch.y), times, lengths)


class WindowDataset(Dataset[SequenceBatch]):
    """Overlapping windows over a stream that is cut into rows, as in the TCN paper; an item is one window of all rows.

    Args:
        stream: tokens ``(N,)``.
        rows: contiguous rows that are read side by side, the size of a batch of all processes together.
        window: length of a window; the last one may be shorter.
        history: steps at the start of a window that only give context; the target there is -100.
        processes: how many share the rows of each window.
        rank: which of them this is.
    """

    def __init__(self, stream: Tensor, rows: int, window: int, history: int, processes: int = 1, rank: int = 0) -> None:
        self.window, self.history = window, history
        self.rows = stream[: len(stream) // rows * rows].view(rows, -1)[rank::processes]  # (B, L)
        self.starts = range(0, self.rows.shape[1] - 1 - history, window - history)
        if not self.starts:
            raise DataError(f"{len(stream)} characters are too few for {rows} rows with a history of {history}")

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, item: int) -> SequenceBatch:
        start = self.starts[item]
        stop = min(start + self.window, self.rows.shape[1] - 1)
        y = self.rows[:, start + 1 : stop + 1].to(torch.int64, copy=True)
        y[:, : self.history] = IGNORED
        return SequenceBatch(self.rows[:, start:stop].long(), y)

    def __getitems__(self, items: Sequence[int]) -> SequenceBatch:
        if len(items) != 1:
            raise ValueError(f"a batch is one window of all rows, so the loader must ask for 1 item, got {len(items)}")
        return self[items[0]]
