"""``metrics.csv`` of a run folder: one row for each epoch."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ckcnn.files import replacing


class MetricsTable:
    """A table in a file, rewritten for each row and renamed into place, so no reader sees half of it.

    Args:
        path: the file.
        steps: rows of an earlier part of the run are kept up to this training step.
    """

    def __init__(self, path: Path, steps: int = 0) -> None:
        self.path, self.rows = path, [row for row in read(path) if _step(row, path) <= steps]

    def append(self, row: dict[str, Any]) -> None:
        """Add a row, which may have new columns."""
        self.rows.append(row)
        write(self.path, self.rows)


def _step(row: Mapping[str, Any], path: Path) -> int:
    try:
        return int(row["step"])
    except (KeyError, ValueError, TypeError):
        raise ValueError(
            f"{path} must have the training step of every epoch in the column step, got {str(row.get('step'))[:60]!r}; "
            "correct it, or move the file away"
        ) from None


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a table, whole or not at all."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, dict.fromkeys(name for row in rows for name in row))
    writer.writeheader()
    writer.writerows(rows)
    with replacing(path) as file:
        file.write(text.getvalue().encode())


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a table; an empty list if the file does not exist.

    Raises:
        ValueError: if it is no table.
    """
    if path.is_dir():
        raise ValueError(f"{path} must be a table, got a folder; move it away")
    if not path.is_file():
        return []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    except (UnicodeDecodeError, csv.Error):
        raise ValueError(f"{path} must be a table with commas in UTF-8, got other bytes; move the file away") from None
