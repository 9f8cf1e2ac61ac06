"""Any problem of the UEA and UCR archives by its name, with the official split."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ckcnn.checks.hints import closest
from ckcnn.datamodules import sequence_files
from ckcnn.datamodules.base import SequenceDataModule
from ckcnn.datamodules.datasets import Store
from ckcnn.datamodules.downloads import Download
from ckcnn.datamodules.options import data_root
from ckcnn.datamodules.preparation import PreparedDataModule
from ckcnn.datamodules.sequence_files import Recording
from ckcnn.datamodules.sequences import TEST, TRAIN, DataError, RawSequences, split_codes
from ckcnn.datamodules.splits import HELD_OUT_FRACTION, cut

_URLS = (  # sktime's own source, and its mirror
    "https://timeseriesclassification.com/aeon-toolkit/{}.zip",
    "https://github.com/sktime/sktime-datasets/raw/main/TSC/{}.zip",
)
_PARTS = {"train": "TRAIN", "test": "TEST"}


class UEA(SequenceDataModule):
    """A problem of the UEA and UCR archives: one or many channels, equal or different lengths, classes or values.

    The official training and test sets are kept; a tenth of the first (more if there are many classes) is held out for
    validation. Problems that ship
    with sktime (such as BasicMotions, GunPoint or JapaneseVowels) need no network, nor do those whose two ``.ts`` files
    lie in ``uea/<name>`` below `root`; others are downloaded there. The facts, such as the number of channels, are
    read from these files.

    Args:
        name: of the problem, as in the archive.
        root: see `SequenceDataModule`, as `shared`.
        shared: all other options of a data module.
    """

    def __init__(self, name: str = "BasicMotions", root: str | os.PathLike[str] | None = None, **shared: Any) -> None:
        if not re.fullmatch(r"\w+", name, re.ASCII):
            raise ValueError(f"name must be that of a problem of the archive, such as BasicMotions, got {name!r}")
        self.name = name
        folder = f"uea/{name}"
        names = [f"{name}_{part}.ts" for part in _PARTS.values()]
        shipped = _shipped(name)
        if shipped is not None and not (data_root(root) / folder / names[0]).exists():
            self.files = tuple(str(shipped / file) for file in names)
        else:
            self.files = tuple(f"{folder}/{file}" for file in names)
        urls = tuple(url.format(name) for url in _URLS)
        self.downloads = (Download(urls, f"{folder}/{name}.zip", unpack_to=folder),)
        self.homepage = f"{urls[0]} (unpack it there)"
        PreparedDataModule.__init__(self, root, shared.get("cache"), shared.get("seed", 0))
        if self.absent_files():
            self._fetch(name)
        self.task = "regression" if _predicts_values(self.source(self.files[0])) else "classification"
        if self.task == "classification":
            self.classes = _classes(self._labels)
        self.channels = max(len(recording.x) for recording in self._all)
        self.length = max(recording.x.shape[1] for recording in self._all)
        self.out_channels = len(self.classes) or 1
        self.gaps = any(bool(np.isnan(recording.x).any()) for recording in self._all)
        self.sizes = self._sizes()
        super().__init__(root, **shared)

    def _fetch(self, name: str) -> None:
        try:
            self.download()
        except DataError as error:
            close = closest(name, [*archive_problems(), *shipped_problems()])
            if close is None or close == name:
                raise
            raise DataError(f"did you mean {close}? Otherwise: {error}") from error

    @cached_property
    def recordings(self) -> dict[str, list[Recording]]:
        """The series of the official ``"train"`` and ``"test"`` sets, as they are in the files."""
        paths = dict(zip(_PARTS, map(self.source, self.files), strict=True))
        return {split: list(sequence_files.read(path)) for split, path in paths.items()}

    @property
    def _all(self) -> list[Recording]:
        return [recording for part in self.recordings.values() for recording in part]

    @property
    def _labels(self) -> list[str]:
        labels = [recording.label for recording in self._all]
        if None in labels:
            raise DataError(f"{self.name}: every series needs a label; the official .ts files have one in each line")
        return [str(label) for label in labels]

    def _sizes(self) -> tuple[int, int, int]:
        train, test = self.recordings.values()
        kept, held_out = self._held_out(np.arange(len(train)), self._targets(train))
        return len(kept), len(held_out), len(test)

    def split(self, store: Store) -> dict[str, NDArray[np.int64]]:
        assert store.split is not None
        train, test = (np.flatnonzero(store.split.numpy() == code) for code in (TRAIN, TEST))
        train, val = self._held_out(train, store.labels(torch.arange(store.shape[0])).numpy())
        return {"train": np.sort(train), "val": np.sort(val), "test": test}

    def _held_out(self, rows: NDArray[np.int64], y: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Training and validation: a tenth of the official training set, or more if there are many classes.

        Some problems have too few series to have every class in both; they are cut without regard to classes.
        """
        fraction = HELD_OUT_FRACTION
        if self.task == "classification":
            counts = np.bincount(y[rows])
            fraction = max(fraction, np.count_nonzero(counts) / len(rows))
            if fraction > 0.5 or counts[counts > 0].min() < 2:
                return cut(rows, y.astype(np.float32), 1 - HELD_OUT_FRACTION, self.seed)
        return cut(rows, y, 1 - fraction, self.seed)

    def recipe(self) -> dict[str, Any]:
        return {"name": self.name}

    def load(self) -> Iterator[RawSequences]:
        ends = np.array([recording.x.shape[1] for recording in self._all])
        equal = bool((ends == ends[0]).all())
        for split, recordings in self.recordings.items():
            x = np.full((len(recordings), self.channels, self.length), np.nan, dtype=np.float32)
            for row, recording in zip(x, recordings, strict=True):
                if len(recording.x) != self.channels:
                    raise DataError(
                        f"{self.name}: all series must have {self.channels} channels, "
                        f"got {len(recording.x)} in number {recording.name} of the {split} set"
                    )
                row[:, : recording.x.shape[1]] = recording.x
            lengths = np.array([recording.x.shape[1] for recording in recordings])
            codes = split_codes(split, len(recordings))
            y = self._targets(recordings)
            yield RawSequences(x, y, codes, None if equal else lengths, source=f"{self.name} ({split})")

    def _targets(self, recordings: list[Recording]) -> NDArray[Any]:
        labels = [str(recording.label) for recording in recordings]
        if self.task == "regression":
            return np.array(labels, dtype=np.float32)[:, None]
        return np.array([self.classes.index(label) for label in labels], dtype=np.int64)


def shipped_problems() -> list[str]:
    """Return the problems that are part of sktime, sorted."""
    folder = _sktime_folder()
    return sorted(path.name for path in folder.iterdir() if _shipped(path.name)) if folder.is_dir() else []


def archive_problems() -> list[str]:
    """Return the problems of the archives that sktime knows by name, sorted."""
    from sktime.datasets.tsc_dataset_names import multivariate, univariate

    return sorted({*univariate, *multivariate})


def _sktime_folder() -> Path:
    spec = find_spec("sktime")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "datasets" / "data"


def _shipped(name: str) -> Path | None:
    folder = _sktime_folder() / name
    return folder if all((folder / f"{name}_{part}.ts").is_file() for part in _PARTS.values()) else None


def _predicts_values(path: Path) -> bool:
    """Whether the header of a ``.ts`` file says so."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            words = line.strip().lower().split()
            if words[:1] == ["@data"]:
                return False
            if words[:2] == ["@targetlabel", "true"]:
                return True
    return False


def _classes(labels: list[str]) -> tuple[str, ...]:
    """The different labels, numbers in the order of their values."""
    found = set(labels)
    if sequence_files.all_numbers(list(found)):
        return tuple(sorted(found, key=float))
    return tuple(sorted(found))
