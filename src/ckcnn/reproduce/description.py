"""What a table of the paper is made of: cells, each a test of a training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Training:
    """A run of a preset.

    Attributes:
        preset: its name.
        options: settings that differ from it, such as ``{"data.train_dt": 2}``.
        overlays: configurations behind the preset.
    """

    preset: str
    options: Mapping[str, Any] = field(default_factory=dict)
    overlays: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What its runs are called, such as ``character_trajectories-train_dt=2``."""
        changes = [f"{key.rpartition('.')[2]}={value}" for key, value in self.options.items()]
        return "-".join([self.preset, *self.overlays, *changes])

    def arguments(self) -> list[str]:
        """Of ``ckcnn fit``."""
        files = [word for name in (self.preset, *self.overlays) for word in ("--config", f"{name}.yaml")]
        return [*files, *(f"--{key}={value}" for key, value in self.options.items())]

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True)
class Cell:
    """One figure of a table.

    Attributes:
        row: where it stands.
        column: where it stands.
        benchmark: short name of the data, for ``--only``.
        training: the run that it is of.
        metric: what is reported.
        paper: the figure of the paper, if it has one.
        solved: whether the paper says that the problem was solved, where it says no more.
        test_dt: the sampling step of the test, if it is not that of training.
    """

    row: str
    column: str
    benchmark: str
    training: Training
    metric: str = "accuracy"
    paper: float | None = None
    solved: bool | None = None
    test_dt: int | None = None

    @property
    def step(self) -> int:
        """The sampling step of the test, in samples of the data."""
        return self.test_dt or int(self.training.options.get("data.train_dt", 1))


@dataclass(frozen=True)
class Table:
    """A table of the paper.

    Attributes:
        name: on the command line.
        title: what it shows, and where it stands in the paper.
        cells: row by row.
        remark: what to know about it.
    """

    name: str
    title: str
    cells: Sequence[Cell]
    remark: str = ""

    def only(self, benchmarks: Sequence[str], rows: Sequence[str], columns: Sequence[str]) -> Table:
        """The part of it that is about some benchmarks, rows (or a word of them) and columns; none means all."""
        kept = [
            cell
            for cell in self.cells
            if (not benchmarks or cell.benchmark in benchmarks)
            and (not rows or any(row in (cell.row, *cell.row.split(", ")) for row in rows))
            and (not columns or cell.column in columns)
        ]
        return Table(self.name, self.title, kept, self.remark)

    def with_overlays(self, overlays: Sequence[str]) -> Table:
        """The same table, trained in another way: every training with some more configurations behind its preset."""
        if not overlays:
            return self

        def changed(training: Training) -> Training:
            return replace(training, overlays=(*training.overlays, *overlays))

        files = " and ".join(f"{overlay}.yaml" for overlay in overlays)
        cells = [replace(cell, training=changed(cell.training)) for cell in self.cells]
        return Table("-".join([self.name, *overlays]), f"{self.title}, with {files}", cells, self.remark)

    def trainings(self) -> list[Training]:
        """The runs that its cells are of, each once."""
        return list(dict.fromkeys(cell.training for cell in self.cells))
