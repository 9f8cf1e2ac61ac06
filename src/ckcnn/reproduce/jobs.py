"""A training with a seed: its run folder, its progress and its results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ckcnn import presets
from ckcnn.reproduce.description import Cell, Table, Training
from ckcnn.results import Run
from ckcnn.runs import checkpoints
from ckcnn.runs.folder import RunFolder


@dataclass(frozen=True)
class Job:
    """One training of a table.

    Attributes:
        training: what is trained.
        seed: of it.
        runs: folder of all runs.
        scale: fraction of the epochs of the preset.
    """

    training: Training
    seed: int
    runs: Path
    scale: float = 1.0

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The merged settings of preset and options."""
        names = [f"{name}.yaml" for name in (self.training.preset, *self.training.overlays)]
        return presets.settings(names, self.training.options)

    @property
    def planned(self) -> int:
        """The epochs of the preset."""
        return int(self.settings["trainer"]["max_epochs"])

    @property
    def epochs(self) -> int:
        """The maximum number of epochs."""
        return max(1, round(self.scale * self.planned))

    @property
    def name(self) -> str:
        """The name of its run; a run with fewer epochs has another name."""
        short = f"-epochs={self.epochs}" if self.epochs < self.planned else ""
        return f"{self.training.name}{short}-seed={self.seed}"

    def fit(self) -> list[str]:
        """The command that trains or resumes it."""
        cut = [f"--trainer.max_epochs={self.epochs}"] if self.epochs < self.planned else []
        place = [f"--seed_everything={self.seed}", f"--runs={self.runs}", f"--name={self.name}", "--ckpt_path=last"]
        return ["fit", *self.training.arguments(), *cut, *place]

    def run(self) -> Run | None:
        """Its run, if it has started."""
        folders = [folder for folder in RunFolder.all(self.runs / self.name) if folder.config.is_file()]
        return Run.read(folders[-1]) if folders else None

    def is_finished(self, run: Run) -> bool:
        """Whether all epochs are done, or training stopped early by its own criterion."""
        if len(run.epochs) >= self.epochs:
            return True
        if not run.folder.last.is_file():
            return False
        return checkpoints.why_finished(checkpoints.load(run.folder.last), None, -1) is not None

    def is_short(self, run: Run) -> bool:
        """Whether the run has fewer epochs than planned and did not stop by its own criterion."""
        done = len(run.epochs)
        return done < self.planned and (done >= self.epochs or not self.is_finished(run))


def jobs_of(tables: Iterable[Table], seeds: int, runs: Path, scale: float) -> list[Job]:
    """Every training of some tables once for each seed; those with the first seed come first."""
    trainings = dict.fromkeys(training for table in tables for training in table.trainings())
    return [Job(training, seed, runs, scale) for seed in range(seeds) for training in trainings]


def result_of(run: Run, cell: Cell) -> Mapping[str, Any] | None:
    """The test of the best checkpoint that a cell is about, if there is one."""
    best = run.folder.best()
    name = best and f"{best.parent.name}/{best.name}"
    wanted = (test for test in run.tests if (test.get("checkpoint"), test["data"].get("test_dt")) == (name, cell.step))
    return next(wanted, None)


def missing_tests(run: Run, cells: Sequence[Cell]) -> list[list[str]]:
    """The commands that test what the cells of a training still need."""
    steps = dict.fromkeys(cell.step for cell in cells if result_of(run, cell) is None)
    return [["test", f"--ckpt_path={run.folder.path}", f"--data.test_dt={step}"] for step in steps]
