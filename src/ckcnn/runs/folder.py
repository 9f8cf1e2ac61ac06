"""Run folders, ``runs/<name>/version_<n>``: their layout, and how a command finds one."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run; it is self-contained: test, resume or plot the run wherever it lies."""

    path: Path
    made: tuple[Path, ...] = field(
        default=(), compare=False, repr=False
    )  # folders that were not there, innermost first

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
        """Where training resumes from."""
        return self.checkpoints / "last.ckpt"

    @property
    def metrics(self) -> Path:
        """One row for each epoch."""
        return self.path / "metrics.csv"

    @property
    def results(self) -> Path:
        """The results of the run's tests."""
        return self.path / "results.json"

    @property
    def lock(self) -> Path:
        """An empty file; see `ckcnn.runs.lock`."""
        return self.path / ".lock"

    @property
    def version(self) -> int:
        """The number of the run."""
        return int(self.path.name.removeprefix("version_"))

    def best_of(self, epoch: int) -> Path:
        """Return the path of the best checkpoint for an epoch."""
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
            raise ValueError(f"{self.path} has no {which} checkpoint; did it finish its first epoch?")
        return path

    def has_checkpoint(self) -> bool:
        """Return whether there is any checkpoint."""
        return self.last.is_file() or self.best() is not None

    def remove(self) -> None:
        """Remove the folder and its content, and the parent folders made for it if they are empty."""
        shutil.rmtree(self.path, ignore_errors=True)
        _remove_empty(self.made or (self.path.parent,))

    @staticmethod
    def of(path: Path) -> RunFolder | None:
        """Return the run that a file or folder belongs to, whatever the name of the folder."""
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
    def trained(parent: Path) -> RunFolder | None:
        """The newest run in ``runs/<name>`` that has a checkpoint."""
        return next((run for run in reversed(RunFolder.all(parent)) if run.has_checkpoint()), None)

    @staticmethod
    def begun(parent: Path) -> RunFolder | None:
        """The newest run in ``runs/<name>`` that has begun to train; if none has, the newest folder of a run."""
        runs = RunFolder.all(parent)
        return next((run for run in reversed(runs) if run.config.is_file()), runs[-1] if runs else None)

    @staticmethod
    def create(parent: Path) -> RunFolder:
        """Create a new folder; safe if several processes ask at the same time.

        Raises:
            ValueError: if `parent` cannot be a folder.
        """
        for folder in (*reversed(parent.parents), parent):
            if (folder.is_symlink() or folder.exists()) and not folder.is_dir():
                kind = f"a link to {folder.readlink()}, which is not a folder" if folder.is_symlink() else "a file"
                raise ValueError(f"{folder} is {kind}; make it a folder, or give another folder with --runs")
        made = tuple(folder for folder in (parent, *parent.parents) if not folder.exists())
        try:
            parent.mkdir(parents=True, exist_ok=True)
        except OSError:  # such as a name that is too long for the disk
            _remove_empty(made)
            raise
        number = max((run.version for run in RunFolder.all(parent)), default=-1) + 1
        while True:
            path = parent / f"version_{number}"
            try:
                path.mkdir()
            except FileExistsError:
                number += 1
                continue
            return RunFolder(path, made)


def check_name(name: str, option: str = "--name") -> str:
    """Return a valid run name: a folder inside the folder of all runs, at any depth.

    Raises:
        ValueError: if it is none.
    """
    parts = PurePath(name).parts
    if not parts or PurePath(name).is_absolute() or ".." in parts or "\0" in name:
        raise ValueError(
            f"{option} must be a name for a folder in --runs, such as digits, got {name!r}; "
            "to put runs somewhere else, give --runs"
        )
    return name


def _remove_empty(folders: Sequence[Path]) -> None:
    """Remove folders that exist and are empty, innermost first."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


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
