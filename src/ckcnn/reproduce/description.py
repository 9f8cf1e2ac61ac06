"""Tables of the paper as cells, each a test of a training."""

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
        overlays: configurations after the preset.
    """

    preset: str
    options: Mapping[str, Any] = field(default_factory=dict)
    overlays: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of its runs, such as ``character_trajectories-train_dt=2``."""
        return "-".join([self.preset, *self.overlays, *short_names(self.options)])

    def arguments(self) -> list[str]:
        """Return its arguments for ``ckcnn fit``."""
        files = [word for name in (self.preset, *self.overlays) for word in ("--config", f"{name}.yaml")]
        return [*files, *(f"--{key}={value}" for key, value in self.options.items())]

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True)
class Cell:
    """One result of a table.

    Attributes:
        row: of the table.
        column: of the table.
        benchmark: short name of the data, for ``--only``.
        training: the run that it is of.
        metric: what is reported.
        paper: the paper's result, if there is one.
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
    def training_step(self) -> int:
        """The sampling step of the training, in samples of the data."""
        return int(self.training.options.get("data.train_dt", 1))

    @property
    def step(self) -> int:
        """The sampling step of the test, in samples of the data."""
        return self.test_dt or self.training_step


@dataclass(frozen=True)
class Table:
    """A table of the paper.

    Attributes:
        name: on the command line.
        title: what it shows, and where it is in the paper.
        cells: row by row.
        remark: what to know about it.
        all_cells: the same with those that are not asked for, if it is a part of a table.
    """

    name: str
    title: str
    cells: Sequence[Cell]
    remark: str = ""
    all_cells: Sequence[Cell] = ()

    def only(self, benchmarks: Sequence[str], rows: Sequence[str], columns: Sequence[str]) -> Table:
        """Return the part with these benchmarks, rows (or a word in them) and columns; empty means all."""
        whole = {cell.row for cell in self.cells}
        kept = [
            cell
            for cell in self.cells
            if (not benchmarks or cell.benchmark in benchmarks)
            and (not rows or any(row == cell.row if row in whole else row in cell.row.split(", ") for row in rows))
            and (not columns or cell.column in columns)
        ]
        return replace(self, cells=kept, all_cells=self.cells)

    def whole(self) -> Table:
        """The table that it is a part of."""
        return replace(self, cells=self.all_cells or self.cells, all_cells=())

    def changed(self, overlays: Sequence[str], options: Mapping[str, Any]) -> Table:
        """The same table, trained in another way: configurations after the presets, and settings of all trainings."""
        if not overlays and not options:
            return self

        def other(training: Training) -> Training:
            return Training(training.preset, {**training.options, **options}, (*training.overlays, *overlays))

        cells, all_cells = (
            [replace(cell, training=other(cell.training)) for cell in some] for some in (self.cells, self.all_cells)
        )
        words = [*(f"{overlay}.yaml" for overlay in overlays), *(f"{key} {value}" for key, value in options.items())]
        name = "-".join([self.name, *overlays, *short_names(options)])
        return Table(name, f"{self.title}, with {' and '.join(words)}", cells, self.remark, all_cells)

    def trainings(self) -> list[Training]:
        """Return the trainings of its cells, each once."""
        return list(dict.fromkeys(cell.training for cell in self.cells))


def short_names(options: Mapping[str, Any]) -> list[str]:
    """Settings as they appear in names of runs and tables; the seed of the data is kept apart.

    Example:
        >>> short_names({"data.train_dt": 2, "model": "GRU", "data.seed": 1})
        ['train_dt=2', 'model=GRU', 'data.seed=1']
    """
    return [f"{key if key == 'data.seed' else key.rpartition('.')[2]}={value}" for key, value in options.items()]
