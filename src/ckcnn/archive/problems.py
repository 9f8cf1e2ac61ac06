"""The problems: what ships with sktime and scikit-learn, what lies in the data folder, and the whole archive."""

# C channels, T time

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ckcnn.datamodules import UEA, Digits
from ckcnn.datamodules.uea import shipped_problems

_DIGITS = "Digits"


class Problem(NamedTuple):
    """Series, each ``(C, T)``, with their labels, in the official training and test sets."""

    train: list[NDArray[Any]]
    train_labels: NDArray[np.str_]
    test: list[NDArray[Any]]
    test_labels: NDArray[np.str_]


def within_reach(root: Path) -> list[str]:
    """Return the classification problems that need no network."""
    folders = sorted((root / "uea").glob("*/*_TRAIN.ts"))
    names = {*shipped_problems(), *(path.parent.name for path in folders)}
    return [*sorted(name for name in names if UEA(name, root=root).task == "classification"), _DIGITS]


def load(name: str, root: Path, cache: Path | None = None) -> Problem:
    """Read a problem; scikit-learn's digits are read pixel by pixel, and their test set is that of `Digits`."""
    if name == _DIGITS:
        return _digits(root, cache)
    parts = UEA(name, root=root).recordings
    series = {split: [recording.x for recording in part] for split, part in parts.items()}
    labels = {split: np.array([str(recording.label) for recording in part]) for split, part in parts.items()}
    return Problem(series["train"], labels["train"], series["test"], labels["test"])


def _digits(root: Path, cache: Path | None) -> Problem:
    data = Digits(root=root, cache=cache, standardise="none")
    data.prepare_data()
    data.setup()
    train, validation, test = ((part.x.numpy(), part.y.numpy().astype(str)) for part in map(_all, _parts(data)))
    x, y = (np.concatenate(pair) for pair in zip(train, validation, strict=True))
    return Problem(list(x), y, list(test[0]), test[1])


def _parts(data: Digits) -> list[Any]:
    return [data.dataset(split) for split in ("train", "val", "test")]


def _all(dataset: Any) -> Any:
    return dataset.__getitems__(range(len(dataset)))


def padded(series: Sequence[NDArray[Any]], length: int) -> NDArray[np.float64]:
    """Return series in one array ``(N, C, T)``: shorter ones repeat their last value, longer ones are cut.

    Example:
        >>> padded([np.array([[1.0, 2.0]]), np.array([[1.0, 2.0, 3.0, 4.0]])], 3).tolist()
        [[[1.0, 2.0, 2.0]], [[1.0, 2.0, 3.0]]]
    """
    steps = np.arange(length)
    return np.stack([one[:, np.minimum(steps, one.shape[1] - 1)] for one in series]).astype(np.float64)
