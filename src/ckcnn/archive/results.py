"""One row for each problem, method and seed, in a file that an interrupted comparison resumes from."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ckcnn.runs import metrics_table


class Result(NamedTuple):
    """What a classifier reached.

    Attributes:
        problem: name of the data.
        method: name of the classifier.
        seed: of its training.
        accuracy: on the official test set.
        seconds: of processor time that training took; it does not depend on what else the machine does.
    """

    problem: str
    method: str
    seed: int
    accuracy: float
    seconds: float


def read(path: Path) -> list[Result]:
    """Return what there is; nothing if there is no file."""
    if not path.is_file():
        return []
    rows = metrics_table.read(path)
    return [
        Result(row["problem"], row["method"], int(row["seed"]), float(row["accuracy"]), float(row["seconds"]))
        for row in rows
    ]


def write(path: Path, results: list[Result]) -> None:
    """Write all rows, whole or not at all."""
    metrics_table.write(path, [result._asdict() for result in results])
