"""What a benchmark says of itself, and how its files get into the cache."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pytorch_lightning import LightningDataModule

from ckcnn.datamodules import cache as caches
from ckcnn.datamodules.checks import check_chunk
from ckcnn.datamodules.downloads import Download, fetch
from ckcnn.datamodules.options import Missing, Standardise, data_root
from ckcnn.datamodules.sequences import DataError, Progress, RawSequences

_T = TypeVar("_T")


class PreparedDataModule(LightningDataModule):
    """The description of a data set, and its way from the official files into the cache.

    Attributes:
        task: kind of problem.
        channels: channels of the data itself.
        length: steps of a sequence at full rate, padding included.
        out_channels: classes, or values to predict.
        sizes: sequences (characters for language) of the official data for training, validation and test.
        files: what `load` reads, below `root`.
        downloads: where these files come from.
        homepage: where a person can get them.
        origin: stored value that means 0, for each channel or for all.
        unit: how much of the stored value means 1.
        sporadic: number of first channels that are measured in time, or None for all; the others hold for all steps.
        unscaled: number of last channels that are never standardised.
        thinnable: whether every n-th step of a sequence is the same sequence at a lower rate.
        gaps: whether values are missing in the data itself, as NaN.
        stamped: whether the data brings its own time stamps.
        time_unit: how much of its stamps is one sample.
        time_step: distance of two samples of regular data in a unit of its own, such as seconds; None if unknown.
        padding: what the paper puts after a shorter sequence: its last value, or nothing.
        history: steps at the start of a window of text that only give context.
        default_missing: what the option `missing` is if it is not given.
        default_standardise: what the option `standardise` is if it is not given.
        ahead: steps that are forecast, or 0.
        standardise_targets: whether a network is trained on targets with mean 0 and deviation 1; its answers, and all
            metrics but the loss, have their own units.
        labelled: whether the sequences have labels; without any, only a trained model can predict them.
        classes: names of the classes.
        channel_names: what the channels are, for people.
        features: settings of what `load` computes from a recording, such as `ckcnn.datamodules.features.CEPSTRA`.
        rate: samples per second, for recordings of sound.
        vocabulary: the characters of the tokens of text.
        spelling: what the text has in the place of characters, such as ``<eos>`` for a line break.
        version: of `load`; a cache that another version wrote is rebuilt.
        may_prepare: whether files may be written; not if only a stranger's run folder says where.
        progress: told what is being done, how much of it is done, and how much there is.
    """

    task: str
    channels: int
    length: int
    out_channels: int
    sizes: tuple[int, int, int] | None = None
    files: Sequence[str] = ()
    downloads: tuple[Download, ...] = ()
    homepage: str = ""
    origin: tuple[float, ...] = (0.0,)
    unit: tuple[float, ...] = (1.0,)
    sporadic: int | None = None
    unscaled: int = 0
    thinnable: bool = True
    gaps: bool = False
    stamped: bool = False
    time_unit: float = 1.0
    time_step: float | None = None
    padding: Literal["repeat", "missing"] = "repeat"
    history: int = 0
    default_missing: Missing = "mask"
    default_standardise: Standardise = "channel"
    ahead: int = 0
    standardise_targets: bool = False
    labelled: bool = True
    classes: Sequence[str] = ()
    channel_names: Sequence[str] = ()
    features: Mapping[str, Any] | None = None
    rate: int | None = None
    vocabulary: str = ""
    spelling: Mapping[str, str] = MappingProxyType({})
    version: ClassVar[int] = 1
    may_prepare: bool = True

    def __init__(self, root: str | os.PathLike[str] | None, cache: str | os.PathLike[str] | None, seed: int) -> None:
        super().__init__()
        self.root = data_root(root)
        self.cache = self.root / "cache" if cache is None else Path(cache).expanduser()
        self.seed = seed
        self.progress: Progress = _no_progress

    def load(self) -> Iterator[RawSequences]:
        """Read the files, in pieces of any size; the order of the sequences must not depend on the file system."""
        raise NotImplementedError(f"{type(self).__name__} must say how its data is read, in load()")

    def recipe(self) -> dict[str, Any]:
        """The options that change what `load` gives."""
        return {}

    def order(self) -> NDArray[np.int64] | None:
        """A permutation of time, or None."""
        return None

    @property
    def cache_path(self) -> Path:
        """The file of the prepared data; options that change its content are part of its name."""
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(self).__name__).lower()
        recipe = self.recipe()
        digest = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:8]
        return self.cache / (f"{name}-{digest}.h5" if recipe else f"{name}.h5")

    def source(self, name: str) -> Path:
        """The path of one of the `files`: as it is, or gzipped, or a zip that was unpacked into a folder."""
        path = self.root / name
        others = [path.with_name(path.name + ".gz"), path.with_suffix("") if path.suffix == ".zip" else path]
        return next((candidate for candidate in (path, *others) if candidate.exists()), path)

    def absent_files(self) -> list[str]:
        """Which of the `files` are not there."""
        return [name for name in self.files if not self.source(name).exists()]

    def download(self) -> None:
        """Fetch the official files into `root`.

        Raises:
            DataError: if that fails; it names the files wanted, where to get them and where to put them.
        """
        failure = ""
        try:
            for download in self.downloads:
                fetch(download, self.root, self.progress)
        except OSError as error:
            failure = f"; the download failed: {error}"
        if absent := self.absent_files():
            raise DataError(
                f"{type(self).__name__} needs these files, relative to {self.root.resolve()}: {', '.join(absent)}. "
                f"Get them from {self.homepage or 'where you keep them'} and put them there, "
                f"or set root (or $CKCNN_DATA) to the folder that holds them{failure}"
            )

    def prepare_data(self) -> None:
        """Download what is missing and write the cache, unless there is a good one."""
        if not self.may_prepare:
            if problem := caches.find_problem(self.cache_path, self.cache_key(), remember=False):
                raise DataError(
                    f"the prepared data {self.cache_path} cannot be used ({problem}), and it is not written to a place "
                    "that only the settings of the run name; if you trust it, give it with --data.root or --data.cache"
                )
            return
        caches.ensure(self.cache_path, self.cache_key, self._chunks)

    def cache_key(self) -> caches.CacheKey:
        """What the cache must have been made of."""
        source = None if self.absent_files() or not self.files else caches.fingerprint(map(self.source, self.files))
        return caches.CacheKey({"benchmark": type(self).__name__, "version": self.version, **self.recipe()}, source)

    def track(self, items: Sequence[_T], what: str) -> Iterator[_T]:
        """Iterate over `items` and report to `progress`."""
        for done, item in enumerate(items):
            self.progress(what, done, len(items))
            yield item
        self.progress(what, len(items), len(items))

    def _chunks(self) -> Iterable[RawSequences]:
        if self.absent_files():
            self.download()
        for chunk in self.load():
            name = chunk.source or type(self).__name__
            check_chunk(chunk, name, self.task, (self.channels, self.length), self.out_channels)
            yield chunk


def _no_progress(what: str, done: int, total: int) -> None:
    """Nobody is watching."""
