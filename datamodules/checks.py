"""What the sequences that a benchmark has read must look like before they are stored."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ckcnn.datamodules.sequences import DataError, RawSequences
from ckcnn.tasks import TASKS


def check_chunk(chunk: RawSequences, name: str, task: str, shape: tuple[int, int], outputs: int) -> None:
    """The parts must be as many, as long and as wide as the benchmark promises.

    Args:
        chunk: some sequences.
        name: of the file, or else of the benchmark.
        task: kind of problem.
        shape: channels and steps of a sequence.
        outputs: number of classes, or of values to predict.

    Raises:
        DataError: if they are not.
    """
    kind = TASKS[task]
    if kind.from_tokens:
        return check_labels(chunk.x, outputs, f"{name}: tokens")
    if chunk.x.shape[1:] != shape:
        raise DataError(f"{name}: x must have shape (sequences, {shape[0]}, {shape[1]}), got {chunk.x.shape}")
    for part, array in chunk.arrays().items():
        if len(array) != len(chunk.x):
            raise DataError(f"{name}: there are {len(chunk.x)} sequences but {len(array)} entries in {part}")
    if chunk.y is None:
        raise DataError(f"{name}: every sequence needs a label")
    expected = kind.target_shape(outputs, shape[1])
    if kind.target == "value":
        uncounted = np.isnan(chunk.y) if kind.every_step else False
        if chunk.y.shape[1:] != expected or not (np.isfinite(chunk.y) | uncounted).all():
            raise DataError(f"{name}: y must be finite numbers of shape {_shape(expected)}, got {chunk.y.shape}")
        return None
    if chunk.y.shape[1:] != expected:
        raise DataError(f"{name}: y must have shape {_shape(expected)}, got {chunk.y.shape}")
    return check_labels(chunk.y, kind.classes(outputs), f"{name}: labels")


def _shape(expected: tuple[int, ...]) -> str:
    return f"({', '.join(['sequences', *map(str, expected)])}{'' if expected else ','})"


def check_labels(labels: NDArray[np.generic], classes: int, what: str) -> None:
    """Labels must be whole numbers from 0 to `classes` - 1."""
    if not np.issubdtype(labels.dtype, np.integer):
        raise DataError(f"{what} must be whole numbers, got {labels.dtype}")
    low, high = (int(labels.min()), int(labels.max())) if labels.size else (0, 0)
    if low < 0 or high >= classes:
        raise DataError(f"{what} must lie in 0 ... {classes - 1}, got {low} ... {high}")
