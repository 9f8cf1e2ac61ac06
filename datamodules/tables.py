"""A user's own table of sequences, ``.csv`` or ``.ts``, as the arrays that `Arrays` trains on."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ckcnn.checks.memory import check_room
from ckcnn.datamodules import sequence_files
from ckcnn.datamodules.array_file import ending
from ckcnn.datamodules.sequences import DataError

ENDINGS = (".csv", ".ts")


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return `x`, `y`, and as far as the table has them `lengths`, `times` and `channel_names`.

    A time column on one common regular grid gives `time_step`, the distance of two rows;
    otherwise it becomes the stamps.
    """
    status = path.stat()
    return _read(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=1)  # the facts, the labels and the sequences are read one after the other
def _read(path: Path, changed: int, size: int) -> dict[str, NDArray[Any]]:
    recordings = list(sequence_files.read(path))
    wide = {len(recording.x) for recording in recordings}
    if len(wide) != 1:
        raise DataError(f"{path} must have the same channels in all sequences, got {sorted(wide)} of them")
    lengths = np.array([recording.x.shape[1] for recording in recordings])
    size = 8 * len(recordings) * max(wide) * int(lengths.max())
    check_room(f"{path}: {len(recordings)} sequences, padded to {lengths.max()} steps,", size, "write shorter ones")
    x = np.zeros((len(recordings), wide.pop(), lengths.max()), dtype=np.float64)
    for row, recording in zip(x, recordings, strict=True):
        row[:, : recording.x.shape[1]] = recording.x
    arrays: dict[str, NDArray[Any]] = {"x": x}
    if len(set(lengths.tolist())) > 1:
        arrays["lengths"] = lengths
    if labels := _labels(path, recordings):
        arrays["y"] = _numbered(labels)
    stamps = [recording.times for recording in recordings]
    given = [times for times in stamps if times is not None]
    if len(given) == len(stamps):
        if (step := _step_of_one_grid(given)) is None:
            arrays["times"] = np.stack([_extended(times, x.shape[2]) for times in given])
        elif step:
            arrays["time_step"] = np.array([step])
    if names := channel_names(path):
        arrays["channel_names"] = np.array(names)
    if (split := _split(path, [recording.name for recording in recordings])) is not None:
        arrays["split"] = split
    return arrays


def channel_names(path: Path) -> list[str]:
    """Return the names of the channels, if the table has a line with names."""
    if ending(path) != ".csv":
        return []
    import pandas

    names = [str(name) for name in pandas.read_csv(path, nrows=1, skipinitialspace=True, encoding="utf-8-sig").columns]
    return [] if sequence_files.all_numbers(names) else sequence_files.Columns().channels_of(names)


def _split(path: Path, names: list[str]) -> NDArray[Any] | None:
    """The split of every sequence, if the table has such a column."""
    import pandas

    columns = sequence_files.Columns()
    if ending(path) != ".csv":
        return None
    table = pandas.read_csv(
        path,
        usecols=lambda name: name in (columns.sequence, columns.split),
        dtype=str,
        skipinitialspace=True,
        encoding="utf-8-sig",
    )
    if set(table.columns) != {columns.sequence, columns.split}:
        return None
    rows = table.drop_duplicates()
    if len(rows) != len(names):
        raise DataError(f"{path}: every sequence must have one {columns.split}, the same in all its rows")
    return rows[columns.split].to_numpy(dtype=str)


def _labels(path: Path, recordings: list[sequence_files.Recording]) -> list[str]:
    """The labels of all sequences, or nothing if none has one."""
    labels = [recording.label for recording in recordings if recording.label is not None]
    if labels and len(labels) < len(recordings):
        absent = next(recording.name for recording in recordings if recording.label is None)
        raise DataError(f"{path} must hold a label for every sequence or for none, got none for sequence {absent}")
    return labels


def _numbered(labels: list[str]) -> NDArray[Any]:
    """Labels as numbers if all of them are, otherwise as names."""
    try:
        values = np.array([float(label) for label in labels])
    except ValueError:
        return np.array(labels)
    whole = all(label.lstrip("+-").isdigit() for label in labels)
    if whole and set(values.astype(int)) <= set(range(len(set(labels)))):
        return values.astype(np.int64)
    return np.array(labels) if whole else values  # numbers with holes, such as 1 and 2, are names


def _step_of_one_grid(stamps: list[NDArray[np.float64]]) -> float | None:
    """The distance of all samples, if it is one; 0 if no sequence has two of them."""
    steps = np.concatenate([np.diff(times) for times in stamps])
    if not len(steps):
        return 0.0
    return float(np.median(steps)) if np.allclose(steps, steps[0], rtol=1e-6, atol=0) else None


def _extended(times: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    return np.concatenate([times, np.full(width - len(times), times[-1])])
