"""Run folders, ``runs/<name>/version_<n>``: what lies where, and which one a command means."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run; it is self-contained: test, resume or plot the run wherever it lies."""

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
        """The run that a file or folder belongs to, whatever the folder is called."""
        for folder in (path, path.parent, path.parent.parent):
            if _is_run(folder):
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


def _is_run(folder: Path) -> bool:
    """Return whether a folder holds a ``config.yaml`` that a run has left there.

    A configuration of that name that somebody has written is no run yet: a run leaves something beside it, or has its
    first name still.
    """
    config = folder / "config.yaml"
    if not config.is_file():
        return False
    if re.fullmatch(r"version_\d+", folder.absolute().name):
        return True
    if not any((folder / name).exists() for name in ("checkpoints", "metrics.csv", "results.json")):
        return False
    text = config.read_text(encoding="utf-8", errors="replace")  # parsing takes long where there are many runs
    return all(re.search(rf"^{part}:", text, re.MULTILINE) for part in ("model", "data"))
