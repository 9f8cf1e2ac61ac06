"""Run folders, ``runs/<name>/version_<n>``: what lies where, and which one a command means."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run; alone it is enough to test, resume or plot the run."""

    path: Path

    @property
    def config(self) -> Path:
        """All settings of the run."""
        return self.path / "config.yaml"

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.path / "checkpoints"

    @property
    def last(self) -> Path:
        """Where training goes on."""
        return self.checkpoints / "last.ckpt"

    @property
    def metrics(self) -> Path:
        """One row for each epoch."""
        return self.path / "metrics.csv"

    @property
    def results(self) -> Path:
        """What the tests of the run gave."""
        return self.path / "results.json"

    @property
    def version(self) -> int:
        """The number of the run."""
        return int(self.path.name.removeprefix("version_"))

    def best_of(self, epoch: int) -> Path:
        """Where the checkpoint of an epoch lies while it is the best one."""
        return self.checkpoints / f"best-{epoch:03d}.ckpt"

    def best(self) -> Path | None:
        """The checkpoint with the best validation metric, if there is one."""
        return max(self.checkpoints.glob("best-*.ckpt"), key=lambda path: path.stat().st_mtime_ns, default=None)

    def checkpoint(self, which: str) -> Path:
        """The ``"best"`` or ``"last"`` checkpoint.

        Raises:
            ValueError: if it is not there.
        """
        path = self.last if which == "last" else self.best()
        if path is None or not path.is_file():
            raise ValueError(f"{self.path} has no {which} checkpoint; did its first epoch end?")
        return path

    def remove_if_empty(self) -> None:
        """Leaves nothing behind where nothing was done."""
        for folder in (self.path, self.path.parent):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()

    @staticmethod
    def of(path: Path) -> RunFolder | None:
        """The run that a file or folder belongs to."""
        for folder in (path, path.parent, path.parent.parent):
            if re.fullmatch(r"version_\d+", folder.absolute().name) and (folder / "config.yaml").is_file():
                return RunFolder(folder)
        return None

    @staticmethod
    def all(parent: Path) -> list[RunFolder]:
        """The runs in ``runs/<name>``, oldest first."""
        folders = [RunFolder(path) for path in parent.glob("version_*") if re.fullmatch(r"version_\d+", path.name)]
        return sorted(folders, key=lambda run: run.version)

    @staticmethod
    def create(parent: Path) -> RunFolder:
        """A new folder, also when several processes ask at the same time."""
        while True:
            runs = RunFolder.all(parent)
            path = parent / f"version_{runs[-1].version + 1 if runs else 0}"
            try:
                path.mkdir(parents=True)
            except FileExistsError:
                continue
            return RunFolder(path)
