"""Sequences out of files of any kind, one after the other, in bounded memory: NPZ, HDF5, CSV, WAV, TS, or a folder."""

# C channels, T time

from __future__ import annotations

import csv
import math
import os
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ckcnn.checks.hints import in_short
from ckcnn.checks.memory import check_room
from ckcnn.datamodules import array_file
from ckcnn.datamodules.array_file import ending
from ckcnn.datamodules.readers import check_whole_wav
from ckcnn.datamodules.sequences import DataError

_CHUNK_ROWS = 100_000  # of a table, read together
_CHUNK_BYTES = 1 << 24
_ARRAYS = (".npz", ".h5", ".hdf5")
_PAIRS = re.compile(r"\([^(),]+,[^(),]+\)(,\([^(),]+,[^(),]+\))*")  # a stamp and a value for each step
ENDINGS = (*_ARRAYS, ".csv", ".ts", ".wav")


class Recording(NamedTuple):
    """One sequence of a file.

    Attributes:
        name: where it is from: its number or name in the file, after the name of the file if it is in a folder.
        x: raw values ``(C, T)``, NaN where none is given.
        times: stamps ``(T,)`` if the file has them.
        label: what the file says that it is, if it does.
    """

    name: str
    x: NDArray[Any]
    times: NDArray[np.float64] | None = None
    label: str | None = None


@dataclass(frozen=True)
class Columns:
    """What the columns of a table are called; all others are channels.

    Attributes:
        sequence: which sequence a row belongs to; a table without this column is one sequence.
        time: when the row was measured.
        label: what the sequence is.
        split: of the sequence, for training.
        channels: the channels in their order, if it is known and the table has them by name.
        required: columns that must be there.
    """

    sequence: str = "sequence"
    time: str = "time"
    label: str = "label"
    split: str = "split"
    channels: Sequence[str] = ()
    required: Sequence[str] = ()

    def channels_of(self, names: Sequence[str]) -> list[str]:
        """Return the channels of a table with these columns: by name, or in their order if no name is known.

        Raises:
            ValueError: if only some of the known channels are there.
        """
        own = [name for name in names if name not in (self.sequence, self.time, self.label, self.split)]
        spelled = {name.casefold(): name for name in own}
        found = {name: name if name in own else spelled.get(name.casefold()) for name in self.channels}
        there = [name for name in found.values() if name is not None]
        if there and len(there) < len(found):
            absent = ", ".join(name for name, column in found.items() if column is None)
            raise ValueError(f"must have a column for each channel of training, got none for {absent}")
        return there or own


def read(
    path: Path, columns: Columns | None = None, rate: int | None = None, sounds: bool = False
) -> Iterator[Recording]:
    """Yield the sequences of a file, or of all files in a folder in the order of their names.

    Args:
        path: file or folder.
        columns: of tables.
        rate: samples per second that recordings of sound must have, if it is known.
        sounds: whether recordings of sound are wanted, as floating point in [-1, 1]; otherwise they are refused.

    Raises:
        DataError: if a file cannot be read; the message names it.
    """
    if not path.is_dir():
        yield from _read_file(path, columns or Columns(), rate, sounds)
        return
    file = None
    for file in files_in(path):
        name = file.relative_to(path).as_posix()
        for recording in _read_file(file, columns or Columns(), rate, sounds):
            alone = recording.name == file.stem
            yield recording._replace(name=name if alone else f"{name}:{recording.name}")
    if file is None:
        raise DataError(f"{path} holds no file that ends in {', '.join(ENDINGS)}")


def files_in(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder that `read` knows, in the order of their names: the file system has no say.

    Hidden ones are left out; systems write them for themselves, such as ``._a.csv`` beside ``a.csv``.
    """
    for name in sorted(os.listdir(folder)):  # as plain texts, since there may be millions
        if name.startswith("."):
            continue
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            yield from files_in(path)
        elif ending(path) in ENDINGS and path.is_file():
            yield path


def count(path: Path) -> int | None:
    """Return how many sequences there are, if that is known without reading them; None for a folder."""
    if path.is_dir():
        return None
    return array_file.read_shape(path)[0] if ending(path) in _ARRAYS else 1 if ending(path) == ".wav" else None


def _read_file(path: Path, columns: Columns, rate: int | None, sounds: bool) -> Iterator[Recording]:
    if not path.is_file():
        raise DataError(f"there is no file {path}")
    if ending(path) in _ARRAYS:
        return _arrays(path)
    if ending(path) == ".csv":
        return _table(path, columns)
    if ending(path) == ".ts":
        return _ts(path)
    if ending(path) == ".wav" and not sounds:
        raise DataError(
            f"{path} is a recording, which only models of sound take (such as those of SpeechCommands); "
            "write its samples into an .npz file, in the units of training"
        )
    if ending(path) == ".wav":
        return _sound(path, rate)
    raise DataError(f"{path} must end in {', '.join(ENDINGS)}, or be a folder of such files")


def _arrays(path: Path) -> Iterator[Recording]:
    """Rows of `x`, with their `lengths` and `times`."""
    total, _, time = array_file.read_shape(path)
    with array_file.open_arrays(path) as arrays:
        there = array_file.entries(arrays, path)
        for name in {"lengths", "times"} & set(there):
            shape, _, kind = array_file.header(arrays, name, path)
            if not shape:
                raise DataError(f"{path}: {name} must have an entry for each sequence in x, got a single value")
            if shape[0] != total:
                raise DataError(f"{path}: {shape[0]} entries in {name} do not match {total} sequences in x")
            if name == "times":
                array_file.check_times(shape, kind, (total, time), path)
        lengths: Iterable[Any] = repeat(time)
        if "lengths" in there:
            lengths = array_file.check_lengths(array_file.read_array(arrays, "lengths", path), time, path)
        stamps = _rows(path, arrays, "times") if "times" in there else repeat(None)
        rows = zip(_rows(path, arrays, "x"), lengths, stamps, strict=False)  # what repeats has no end
        for number, (x, end, times) in enumerate(rows):
            if x.dtype.kind == "f":
                _check_finite(path, str(number), x[:, :end].astype(np.float64), range(len(x)))
            yield Recording(str(number), x[:, :end], None if times is None else _times(path, number, times[:end]))


def _times(path: Path, number: int, times: NDArray[Any]) -> NDArray[np.float64]:
    """The stamps of one row."""
    valid = np.ones((1, len(times)), dtype=bool)
    array_file.check_values("times", times[None], valid, number, path)
    array_file.check_ascending(times[None], valid, number, path)
    return times.astype(np.float64)


def _rows(path: Path, arrays: Any, name: str) -> Iterator[NDArray[Any]]:
    """The rows of an array without reading all of them at once."""
    shape, by_columns, kind = array_file.header(arrays, name, path)
    size = kind.itemsize * math.prod(shape[1:])
    if ending(path) != ".npz":
        check_room(f"{path}: one sequence of {name}", size, "write shorter ones")
        step = max(1, _CHUNK_BYTES // max(1, size))
        for start in range(0, shape[0], step):
            yield from arrays[name][start : start + step]
        return
    if by_columns:  # the rows are scattered over the whole array
        yield from array_file.read_array(arrays, name, path)
        return
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as file:
        file.seek(archive.getinfo(f"{name}.npy").file_size - size * shape[0])
        for _ in range(shape[0]):
            yield np.frombuffer(file.read(size), kind).reshape(shape[1:])


def _table(path: Path, columns: Columns) -> Iterator[Recording]:
    """One sequence, or a long table whose rows are in the order of their sequences."""
    import pandas

    try:
        header = _header(path, columns)
        _check_lines(path)
        names = {columns.sequence: str, columns.label: str}  # 007 is not 7
        how = {"header": header, "skipinitialspace": True, "encoding": "utf-8-sig", "dtype": names}
        with pandas.read_csv(path, chunksize=_CHUNK_ROWS, **how) as chunks:
            for rows in _sequences(path, chunks, columns.sequence):
                named = columns.sequence in rows
                yield _recording(path, rows, columns, str(rows[columns.sequence].iloc[0]) if named else path.stem)
    except UnicodeDecodeError:
        raise DataError(f"{path} must be a table in UTF-8, got other bytes; write it again as UTF-8") from None
    except OverflowError:
        raise DataError(f"{path} must hold numbers up to 3.4e38, got a larger one; correct it") from None
    except pandas.errors.EmptyDataError:
        raise DataError(f"{path} must be a table with commas, got an empty file") from None
    except (pandas.errors.ParserError, csv.Error, ValueError) as error:
        if isinstance(error, DataError):
            raise
        reason = " ".join(str(error).split()).removeprefix("Error tokenizing data. C error: ")
        raise DataError(f"{path} must be a table with commas, the same number in every line, got: {reason}") from None


def _header(path: Path, columns: Columns) -> int | None:
    """Where the names of the columns are: in line 0, or nowhere.

    pandas takes the first values for row names if the first row has more of them than there are names.
    """
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader((line for line in file if line.strip()), skipinitialspace=True)
        names, first = next(lines, []), next(lines, [])
    if absent := [name for name in columns.required if name not in names]:
        raise DataError(f"{path} must have a column {absent[0]}, got only {in_short(', '.join(names))}")
    if all_numbers(names):
        return None
    if len(names) == 1 and (other := next((mark for mark in (";", "\t") if mark in names[0]), None)):
        what = "semicolons" if other == ";" else "tabs"
        raise DataError(f"{path} must be a table with commas, got {what}; write it with commas")
    if "" in names:
        raise DataError(
            f"{path} must name every column, got none for column {names.index('') + 1}; "
            "if that is the index of pandas, write the table with index=False"
        )
    if names and not first:
        raise DataError(f"{path} must have a row for each step below the names of its columns, got no row")
    if len(first) > len(names):
        raise DataError(
            f"{path} must have as many values in every row as names in the first line, got {len(first)} "
            f"values for {len(names)} names"
        )
    return 0


def _check_lines(path: Path) -> None:
    """An empty line between rows may be a lost value or the start of another sequence; pandas would skip it."""
    first = empty = 0
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                empty = number
            elif first and empty > first:
                raise DataError(
                    f"{path}: line {empty} is empty; write nan for a value that is missing, and other sequences into a "
                    "file of their own or below a column sequence"
                )
            else:
                first = first or number


def _sequences(path: Path, chunks: Iterator[Any], column: str) -> Iterator[Any]:
    """The rows of one sequence after the other; a table without the column is one sequence."""
    import pandas

    waiting: list[Any] = []
    seen: set[Any] = set()
    for chunk in chunks:
        chunk.columns = [str(name) for name in chunk.columns]
        if column not in chunk:
            waiting.append(chunk)
            continue
        if len(unnamed := np.flatnonzero(chunk[column].isna())):
            row = chunk.index[unnamed[0]] + 1
            raise DataError(f"{path} must name the sequence of every row, got nothing in column {column} of row {row}")
        changes = (chunk[column] != chunk[column].shift()).cumsum()
        for _, rows in chunk.groupby(changes, sort=False):
            name = rows[column].iloc[0]
            if waiting and waiting[0][column].iloc[0] == name:
                waiting.append(rows)
                continue
            if name in seen:
                raise DataError(f"{path}: the rows of sequence {name} are not together; sort the table")
            if waiting:
                yield pandas.concat(waiting)
            seen.add(name)
            waiting = [rows]
    if waiting:
        yield pandas.concat(waiting)


def _recording(path: Path, rows: Any, columns: Columns, name: str) -> Recording:
    try:
        channels = columns.channels_of(list(rows.columns))
    except ValueError as error:
        raise DataError(f"{path} {error}") from None
    try:
        x = np.ascontiguousarray(rows[channels].to_numpy(dtype=np.float64, na_value=np.nan).T)
        times = _stamps(rows[columns.time]) if columns.time in rows else None
    except (ValueError, TypeError, OverflowError):
        column, value = _first_text(rows, [*channels, columns.time])
        wanted = "numbers or dates such as 2026-01-31 12:00" if column == columns.time else "numbers"
        raise DataError(
            f"{path}: sequence {name} must have {wanted} in column {column}, got {in_short(value)}"
        ) from None
    _check_finite(path, name, x, channels)
    _check_stamps(path, name, times)
    label = None
    if columns.label in rows:
        labels = rows[columns.label].dropna().unique()
        if len(labels) > 1:
            raise DataError(
                f"{path}: sequence {name} has the labels {labels[0]} and {labels[1]}; "
                "a sequence has one, and classes at every step go into an .npz file"
            )
        label = labels[0] if len(labels) else None
    return Recording(name, x, times, label)


def _stamps(column: Any) -> NDArray[np.float64]:
    """Times as numbers; dates as seconds since 1970."""
    import pandas

    if pandas.api.types.is_numeric_dtype(column):
        return column.to_numpy(dtype=np.float64)
    dates = pandas.to_datetime(column, format="ISO8601", utc=True)
    return ((dates - pandas.Timestamp(0, tz="UTC")) / pandas.Timedelta(seconds=1)).to_numpy(dtype=np.float64)


def _first_text(rows: Any, names: Sequence[str]) -> tuple[str, object]:
    """The first value of a table that is not a number, and its column."""
    for name in names:
        for value in rows.get(name, ()):
            try:
                float(value)
            except (ValueError, TypeError, OverflowError):
                return name, value
    return names[0] if names else "a channel", "nothing"


def _check_finite(path: Path, name: str, x: NDArray[np.float64], channels: Sequence[object]) -> None:
    """Values may be missing, which is NaN, but not infinite or too large for float32."""
    bad = np.argwhere(np.abs(x) > np.finfo(np.float32).max)
    if len(bad):
        channel, step = bad[0]
        raise DataError(
            f"{path}: values must be finite and at most 3.4e38, got {x[channel, step]:g} in sequence {name}, "
            f"channel {channels[channel]}, step {step}; correct it, or leave it empty if it is missing"
        )


def _check_stamps(path: Path, name: str, times: NDArray[np.float64] | None) -> None:
    """Stamps must be finite and must not go backwards."""
    if times is None:
        return
    bad = np.flatnonzero(~(np.abs(times) <= array_file.MOST_TIME))
    if len(bad):
        raise DataError(
            f"{path}: times must be finite numbers, got {times[bad[0]]:g} in sequence {name}, step {bad[0]}; correct it"
        )
    if (np.diff(times) < 0).any():
        raise DataError(f"{path}: times of sequence {name} go backwards; sort its rows by time")


def all_numbers(words: Sequence[str]) -> bool:
    """Return whether a line of a table holds values instead of names."""
    try:
        return bool([float(word) for word in words])
    except ValueError:
        return False


def _ts(path: Path) -> Iterator[Recording]:
    """The format of sktime and the UEA archive, line by line; sktime's own reader needs all of it in memory."""
    header: dict[str, str] = {}
    number = 0
    try:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                text = line.strip()
                if text.startswith("@") and "data" not in header:
                    key, _, value = text[1:].partition(" ")
                    header[key.lower()] = value.strip().lower()
                elif text and not text.startswith(("#", "%")):
                    recording = _ts_recording(text, header, str(number))
                    _check_finite(path, str(number), recording.x, [str(channel) for channel in range(len(recording.x))])
                    _check_stamps(path, str(number), recording.times)
                    yield recording
                    number += 1
    except UnicodeDecodeError:
        raise DataError(f"{path} is not a .ts file of sktime: it must be a text in UTF-8") from None
    except DataError:
        raise
    except (ValueError, IndexError) as error:
        raise DataError(f"{path} is not a .ts file of sktime (line of sequence {number}: {error})") from None
    if not number:
        raise DataError(f"{path} is not a .ts file of sktime, or holds no sequence after @data")


def _ts_recording(text: str, header: dict[str, str], name: str) -> Recording:
    if "data" not in header:
        raise ValueError("values before @data")
    parts = text.split(":")
    labelled = any(header.get(key, "false").startswith("true") for key in ("classlabel", "targetlabel"))
    label = parts.pop().strip() if labelled else None
    times = None
    if header.get("timestamps", "false").startswith("true"):
        if not all(_PAIRS.fullmatch(part.replace(" ", "")) for part in parts):
            raise ValueError("expected pairs such as (0,1.5),(1,2.5)")
        pairs = [np.array([_number(w) for w in re.findall(r"[^(),]+", part)]) for part in parts]
        times, values = pairs[0][::2], [pair[1::2] for pair in pairs]
        if any(not np.array_equal(pair[::2], times, equal_nan=True) for pair in pairs):
            raise ValueError("the channels have different time stamps")
    else:
        values = [np.array([_number(word) for word in part.split(",")]) for part in parts]
    if not values:
        raise ValueError("it has no channel")
    if len({len(channel) for channel in values}) != 1:
        raise ValueError("the channels differ in length")
    return Recording(name, np.stack(values), times, label)


def _number(word: str) -> float:
    try:
        return np.nan if word.strip() == "?" else float(word)
    except ValueError:
        raise ValueError(f"expected a number, got {word.strip()[:40]!r}") from None


def _sound(path: Path, rate: int | None) -> Iterator[Recording]:
    import soundfile

    check_whole_wav(path)
    try:
        samples, found = soundfile.read(path, dtype="float32", always_2d=True)  # exact for 16 bits
    except soundfile.LibsndfileError:
        raise DataError(f"{path} is not a WAV file that can be read, or damaged; write it again") from None
    if rate is not None and found != rate:
        raise DataError(
            f"{path} has {found} samples per second, the model was trained on {rate}; "
            f"resample it, or give --dt {rate / found:g} to a model of raw sound"
        )
    if not len(samples):
        raise DataError(f"{path} holds no sound")
    yield Recording(path.stem, np.ascontiguousarray(samples.T))
