"""A search, read from the ``search.csv`` that `ckcnn search` writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ckcnn.checks.hints import in_short
from ckcnn.results.metrics import known_mode
from ckcnn.runs import metrics_table
from ckcnn.runs.ranking import Mode, rank

OMEGA_0 = "model.omega_0"
_NOTES = ("best_epoch", "epochs", "seconds", "folder", "reason")


@dataclass(frozen=True)
class Search:
    """The trials of a search.

    Attributes:
        path: its folder.
        name: of it.
        monitor: the metric that trials are compared by, such as ``val/accuracy``.
        keys: what was searched for.
        trials: one row for each trial, by the columns of ``search.csv``; what is a number is one.
    """

    path: Path
    name: str
    monitor: str
    keys: tuple[str, ...]
    trials: Sequence[Mapping[str, Any]] = field(repr=False)

    @classmethod
    def read(cls, table: Path, name: str | None = None) -> Search:
        """Read the table of a search.

        Raises:
            ValueError: if it is another kind of table.
        """
        rows = metrics_table.read(table)
        columns = list(rows[0]) if rows else []
        if columns[:2] != ["trial", "state"] or "val_loss" not in columns[3:]:
            raise ValueError(f"{table} was not written by ckcnn search: its columns are {', '.join(columns) or 'none'}")
        empty = dict.fromkeys(_NOTES)  # they are only shown
        trials = [{**empty, **{column: _value(text) for column, text in row.items()}} for row in rows]
        for row in trials:
            for column in (columns[2], "val_loss"):
                if not isinstance(row[column], float | None):
                    raise ValueError(f"{table}: {column} must be a number in all rows, got {in_short(row[column])}")
            if not isinstance(row["state"], str):
                raise ValueError(f"{table}: state must be a word such as complete, got {in_short(row['state'])}")
        keys = columns[3 : columns.index("val_loss")]
        return cls(table.parent, name or table.absolute().parent.name, columns[2], tuple(keys), trials)

    @property
    def mode(self) -> Mode:
        """Whether a good value of the metric is large or small."""
        told = next((row.get("mode") for row in self.trials), None)
        return told if told in ("max", "min") else known_mode(self.monitor)

    @property
    def ranked(self) -> list[Mapping[str, Any]]:
        """The complete trials, best first; of equally good ones that with the smaller validation loss."""
        complete = [row for row in self.trials if row["state"] == "complete" and isinstance(row[self.monitor], float)]
        mode = self.mode
        return sorted(complete, key=lambda row: rank(row[self.monitor], row["val_loss"] or 0.0, mode))

    def points(self, state: str, key: str = OMEGA_0) -> list[tuple[float, float]]:
        """A setting, in rising order, and the metric, of all trials in a state, such as ``complete`` or ``pruned``."""
        pairs = [(row.get(key), row[self.monitor]) for row in self.trials if row["state"] == state]
        return sorted((x, y) for x, y in pairs if isinstance(x, float) and isinstance(y, float))


def _value(text: Any) -> Any:
    try:
        return float(text) if text else None
    except (ValueError, TypeError):
        return text
