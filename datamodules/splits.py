"""Which sequences are for training, validation and test; validation never comes out of the test set."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ckcnn.datamodules.sequences import SPLITS, TEST, TRAIN, VAL, DataError

TRAIN_FRACTION = 0.7  # 70 / 15 / 15, as the authors and NeuralCDE
HELD_OUT_FRACTION = 0.1  # of an official training set, for validation

Indices = NDArray[np.int64]


def split_indices(y: NDArray[np.generic], codes: NDArray[np.int8] | None, seed: int) -> dict[str, Indices]:
    """The sequences of each split, in file order.

    Without codes 70 / 15 / 15; with official training and test sets a tenth of the first is held out for validation.

    Args:
        y: the labels; a split is stratified by them if they are one whole number per sequence.
        codes: `TRAIN`, `VAL` or `TEST` per sequence, as the source has it, or None.
        seed: of the random part, which is a function of `y`, `codes` and this number alone.

    Raises:
        DataError: if a split would be empty.
    """
    if codes is None:
        parts = _three_ways(y, seed)
    else:
        train, val, test = (np.flatnonzero(codes == code) for code in (TRAIN, VAL, TEST))
        if not len(val) and len(train):
            train, val = cut(train, y, 1 - HELD_OUT_FRACTION, seed)
        parts = (train, val, test)
    for name, part in zip(SPLITS, parts, strict=True):
        if not len(part):
            raise DataError(f"the {name} split is empty; give every split at least one sequence")
    return {name: np.sort(part) for name, part in zip(SPLITS, parts, strict=True)}


def _three_ways(y: NDArray[np.generic], seed: int) -> tuple[Indices, Indices, Indices]:
    """The authors' recipe: with seed 0 the two cuts have the authors' random states 0 and 1."""
    train, rest = cut(np.arange(len(y)), y, TRAIN_FRACTION, seed)
    val, test = cut(rest, y, 0.5, seed + 1)
    return train, val, test


def cut(rows: Indices, y: NDArray[np.generic], fraction: float, seed: int) -> tuple[Indices, Indices]:
    """Cut rows in two at random, the first part with a fraction of them; stratified if there are classes."""
    from sklearn.model_selection import train_test_split

    stratify = y[rows] if y.ndim == 1 and np.issubdtype(y.dtype, np.integer) else None
    try:
        first, second = train_test_split(rows, train_size=fraction, random_state=seed, stratify=stratify)
    except ValueError as error:
        raise DataError(
            f"{len(rows)} sequences are too few to be cut in two parts that both have all classes; "
            "give more of each class, or a split of your own"
        ) from error
    return first, second
