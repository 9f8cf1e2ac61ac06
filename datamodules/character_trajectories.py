"""CharacterTrajectories of the UEA archive: pen strokes with three channels, prepared as the authors did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ckcnn.datamodules.base import SequenceDataModule
from ckcnn.datamodules.downloads import Download
from ckcnn.datamodules.sequences import DataError, RawSequences

_FOLDER = "uea/CharacterTrajectories"
_URLS = (  # sktime's own source, and its mirror
    "https://timeseriesclassification.com/aeon-toolkit/CharacterTrajectories.zip",
    "https://github.com/sktime/sktime-datasets/raw/main/TSC/CharacterTrajectories.zip",
)


class CharacterTrajectories(SequenceDataModule):
    """Twenty letters as the velocity of a pen tip and its force, up to 182 steps.

    The two official files are merged and split again, 70 / 15 / 15, as in the paper. Shorter recordings repeat their
    last value. The authors standardised by ``"step"``; ``"channel"`` is the default here.
    """

    task = "classification"
    channels, length, out_channels = 3, 182, 20
    sizes = (2000, 429, 429)
    classes = tuple("abcdeghlmnopqrsuvwyz")  # letters that are written without lifting the pen
    channel_names = ("x velocity", "y velocity", "pen force")
    files = (f"{_FOLDER}/CharacterTrajectories_TRAIN.ts", f"{_FOLDER}/CharacterTrajectories_TEST.ts")
    downloads = (Download(_URLS, f"{_FOLDER}/CharacterTrajectories.zip", unpack_to=_FOLDER),)
    homepage = f"{_URLS[0]} (unpack it there)"

    def load(self) -> Iterator[RawSequences]:
        for name in self.track(self.files, "reading recordings"):
            path = self.source(name)
            recordings, labels = _read_ts(path)
            lengths = np.array([len(recording[0]) for recording in recordings])
            if lengths.max(initial=0) > self.length:
                raise DataError(f"{path} holds a recording of {lengths.max()} steps, expected at most {self.length}")
            x = np.full((len(recordings), self.channels, self.length), np.nan, dtype=np.float32)
            for row, recording in zip(x, recordings, strict=True):
                row[:, : len(recording[0])] = recording
                if not np.isfinite(row[:, : len(recording[0])]).all():
                    raise DataError(
                        f"{path} has missing or infinite values, the official .ts file has none; download it again"
                    )
            yield RawSequences(x, labels, lengths=lengths, source=str(path))


def _read_ts(path: Path) -> tuple[list[list[NDArray[np.float64]]], NDArray[np.int64]]:
    """The recordings, each a list of channels, and their classes: the numbers 1 ... 20 in the file become 0 ... 19."""
    from sktime.datasets import load_from_tsfile

    try:
        table, labels = load_from_tsfile(str(path), return_data_type="nested_univ")
        recordings = [[np.asarray(series, dtype=np.float64) for series in row] for row in table.to_numpy()]
        classes = np.asarray(labels).astype(np.int64) - 1
    except Exception as error:  # sktime raises whatever its parser stumbles over
        raise DataError(f"{path} is not a .ts file that sktime can read, or damaged; download it again") from error
    wide = {len(recording) for recording in recordings}
    if wide != {CharacterTrajectories.channels}:
        raise DataError(f"{path} must hold recordings with 3 channels, got {sorted(wide)}")
    if any(len({len(channel) for channel in recording}) != 1 for recording in recordings):
        raise DataError(f"{path} holds a recording whose channels differ in length; download it again")
    return recordings, classes
