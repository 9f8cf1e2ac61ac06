"""Sequences that are in memory already, such as those of a notebook or of scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ckcnn.datamodules.base import SequenceDataModule
from ckcnn.datamodules.checks import check_chunk
from ckcnn.datamodules.datasets import Store
from ckcnn.datamodules.sequences import SPLITS, DataError, RawSequences
from ckcnn.tasks import TASKS


class InMemory(SequenceDataModule):
    """Sequences that were never in a file: nothing is written, and there is no cache.

    Unlike those of other data modules, the splits are exactly what `sequences.split` says: without it, all sequences
    are for training. NaN in `x` is a missing value.

    Args:
        sequences: the sequences with their labels.
        task: what the labels mean, a key of `ckcnn.tasks.TASKS`.
        classes: names of the classes in the order of their numbers.
        shared: see `SequenceDataModule`.

    Example:
        >>> x, y = np.random.normal(size=(8, 2, 50)), np.arange(8) % 3
        >>> data = InMemory(RawSequences(x, y), "classification", batch_size=4)
        >>> data.in_channels, data.out_channels, data.horizon
        (2, 3, 50)
    """

    def __init__(self, sequences: RawSequences, task: str, classes: Sequence[str] = (), **shared: Any) -> None:
        x, y, lengths = sequences.x, sequences.y, sequences.lengths
        if x.ndim != 3 or y is None:
            raise DataError(f"x must have shape (sequences, channels, time) and labels y, got x {x.shape}, y {y!r}")
        self.sequences, self.task, self.classes = sequences, task, tuple(classes)
        _, self.channels, self.length = x.shape
        self.out_channels = _outputs(y, task, len(self.classes))
        self.stamped = sequences.times is not None
        valid = True if lengths is None else np.arange(self.length) < lengths[:, None, None]
        self.gaps = bool((np.isnan(x) & valid).any())
        check_chunk(sequences, "x", task, (self.channels, self.length), self.out_channels)
        super().__init__(**shared)

    def prepare_data(self) -> None:
        """Do nothing: everything is here."""

    def open_store(self) -> Store:
        arrays = {name: torch.from_numpy(array) for name, array in self.sequences.arrays().items()}
        return Store(arrays.pop("x").float(), arrays)

    def split(self, store: Store) -> dict[str, NDArray[np.int64]]:
        codes = np.zeros(store.shape[0], np.int8) if store.split is None else store.split.numpy()
        return {name: np.flatnonzero(codes == code) for name, code in SPLITS.items()}


def _outputs(y: NDArray[np.generic], task: str, named: int) -> int:
    if TASKS[task].one_logit:
        return 1
    if TASKS[task].target == "value" or TASKS[task].many_labels:
        return int(y.shape[1])
    return max(int(y.max()) + 1, named)
