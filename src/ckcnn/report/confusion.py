"""A confusion matrix laid out on a canvas; empty cells are not drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_MOST = 64  # classes; more cannot be distinguished
_SIDE = 300  # of the matrix
_LETTERS = 12  # of the name of a class
_NUMBERED = 22  # classes, up to which the counts can be read


@dataclass(frozen=True)
class Cell:
    """A count, where it lies, and how strongly it is drawn: the larger its share of the class, the more."""

    x: float
    y: float
    count: int
    opacity: float


@dataclass(frozen=True)
class Matrix:
    """The cells of a matrix and the names of its rows, which are its columns', too.

    Attributes:
        names: of the classes.
        cells: that are not empty.
        size: of a cell.
        margin: that the names need.
        numbered: whether there is room for the counts.
        mistakes: the most frequent ones, in words.
    """

    names: Sequence[str]
    cells: list[Cell]
    size: float
    margin: int
    numbered: bool
    mistakes: list[str]


def matrix(test: Mapping[str, Any]) -> Matrix | None:
    """The matrix of a test, if it has one that can be drawn.

    Raises:
        ValueError: if what it has is no matrix of counts.
    """
    counts = test.get("confusion")
    if not counts:
        return None
    if not _is_square(counts):
        raise ValueError("the confusion matrix in results.json is not a square of whole numbers")
    if len(counts) > _MOST:
        return None
    names = test.get("classes") or []
    names = [str(name)[:_LETTERS] for name in names] if len(names) == len(counts) else [*map(str, range(len(counts)))]
    size = _SIDE / len(counts)
    cells = [
        Cell(round(column * size, 2), round(row * size, 2), count, round(0.12 + 0.88 * count / sum(line), 2))
        for row, line in enumerate(counts)
        for column, count in enumerate(line)
        if count
    ]
    margin = 10 + 6 * max(map(len, names))
    return Matrix(names, cells, round(size, 2), margin, len(counts) <= _NUMBERED, _mistakes(counts, names))


def _mistakes(counts: Sequence[Sequence[int]], names: Sequence[str], most: int = 3) -> list[str]:
    pairs = [
        (n, row, column) for row, line in enumerate(counts) for column, n in enumerate(line) if n and row != column
    ]
    chosen = sorted(pairs, key=lambda pair: -pair[0])[:most]
    return [f"{names[row]} predicted as {names[column]}: {count}" for count, row, column in chosen]


def _is_square(counts: Any) -> bool:
    return isinstance(counts, list) and all(
        isinstance(line, list) and len(line) == len(counts) and all(isinstance(n, int) and n >= 0 for n in line)
        for line in counts
    )
