"""``metrics.csv`` of a run folder: one row for each epoch."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ckcnn.files import replacing


class MetricsTable:
    """A table in a file, written anew for each row and renamed into place: nobody ever finds half of it.

    Args:
        path: the file.
        steps: rows of an earlier part of the run are kept up to this training step.
    """

    def __init__(self, path: Path, steps: int = 0) -> None:
        self.path, self.rows = path, [row for row in read(path) if int(row["step"]) <= steps]

    def append(self, row: dict[str, Any]) -> None:
        """Adds a row; it may have columns that earlier ones have not."""
        self.rows.append(row)
        write(self.path, self.rows)


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes a table, whole or not at all."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, dict.fromkeys(name for row in rows for name in row))
    writer.writeheader()
    writer.writerows(rows)
    with replacing(path) as file:
        file.write(text.getvalue().encode())


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a table; none if there is no file."""
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
