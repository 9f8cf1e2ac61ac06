"""Reading and checking a user's own file of arrays; every fault is named with the file."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from ckcnn.checks.hints import in_short
from ckcnn.checks.memory import check_room
from ckcnn.datamodules.sequences import SPLITS, DataError, split_codes

MOST_TIME = 1e30  # of a stamp: with larger ones, products overflow
HDF5 = (".h5", ".hdf5")
_TABLES = (".csv", ".ts")


def ending(path: Path) -> str:
    """Return how the name of a file ends; other systems write .CSV and .WAV."""
    return path.suffix.lower()


@contextmanager
def open_arrays(path: Path) -> Iterator[Mapping[str, Any]]:
    """The arrays of an ``.npz`` or HDF5 file by name, each read on demand; pickles are never loaded."""
    if ending(path) not in (".npz", *HDF5, *_TABLES):
        raise DataError(f"{path} must be an .npz, .h5, .csv or .ts file")
    if not path.is_file():
        raise DataError(f"there is no file {path.resolve()}")
    if ending(path) in _TABLES:
        from ckcnn.datamodules import tables  # it reads with what is below

        yield tables.read_arrays(path)
        return
    try:
        if ending(path) in HDF5:
            with h5py.File(path, "r") as arrays:
                yield arrays
        else:
            with path.open("rb") as file, zipfile.ZipFile(file):  # a single .npy is not what was asked for
                yield np.load(file, allow_pickle=False)
    except (OSError, zipfile.BadZipFile, EOFError, RuntimeError, NotImplementedError, KeyError, zlib.error):
        # The last four: an archive that is encrypted or packed in an unknown way, and broken HDF5.
        raise DataError(f"{path} is damaged, or not a whole {ending(path)} file; write it again") from None


def entries(arrays: Mapping[str, Any], path: Path) -> list[str]:
    """The names of the arrays that a file holds itself.

    HDF5 can name arrays in other files, such as ``/etc/passwd``, as if they were its own: those are refused.
    """
    names = list(arrays)
    if isinstance(arrays, h5py.File):
        for name in names:
            if not isinstance(arrays.get(name, getlink=True), h5py.HardLink):
                raise DataError(
                    f"{path}: {name} must be an array in the file itself, got a link; copy the array into it"
                )
    return names


def _entry(arrays: Mapping[str, Any], name: str, path: Path) -> Any:
    """An array before it is read; with `shape` and `dtype`."""
    if name not in entries(arrays, path):
        raise DataError(f"{path} must hold an array {name}, got only {', '.join(sorted(arrays)) or 'nothing'}")
    if not isinstance(arrays, h5py.File):
        return arrays[name]
    found = arrays[name]
    if not isinstance(found, h5py.Dataset) or found.shape is None:
        kind = "an empty dataspace" if isinstance(found, h5py.Dataset) else "a group"
        raise DataError(f"{path}: {name} must be an array, got {kind}")
    if found.external:
        raise DataError(f"{path}: {name} must be an array in the file itself, got one in {found.external[0][0]!r}")
    return found


def read_array(arrays: Mapping[str, Any], name: str, path: Path) -> NDArray[Any]:
    """One whole array with at least one axis."""
    wanted = f"{path}: {name} must be a plain array of numbers or strings"
    try:
        found = _entry(arrays, name, path)
        if isinstance(found, h5py.Dataset):
            check_room(f"{path}: {name} of shape {found.shape}", found.nbytes, "write it with fewer values")
        array = np.asarray(found[...])
    except DataError:
        raise
    except (ValueError, TypeError, MemoryError) as error:  # a pickle; a header that promises what is not there
        raise DataError(f"{wanted}, got Python objects, or other bytes than its header says") from error
    if array.ndim == 0:
        raise DataError(f"{wanted} with one entry per sequence, got the single value {array.item()!r}")
    if array.dtype.kind not in "biufUSO" or (array.dtype.kind == "O" and not is_text(array)):
        raise DataError(f"{wanted}, got {_kind(array.dtype)}")
    return array.astype(np.float64) if array.dtype.kind == "f" and array.dtype.itemsize > 8 else array  # torch has none


def _kind(dtype: Any) -> str:
    words = {
        "U": "texts",
        "S": "texts",
        "c": "complex numbers",
        "O": "Python objects",
        "M": "dates",
        "m": "times of day",
        "V": "records",
    }
    return words.get(np.dtype(dtype).kind, str(dtype))


def read_shape(path: Path) -> tuple[int, int, int]:
    """The shape of `x`, from the header of the array alone."""
    with open_arrays(path) as arrays:
        if "x" not in entries(arrays, path):
            raise DataError(f"{path} must hold an array x, got only {', '.join(sorted(arrays)) or 'nothing'}")
        shape, _, kind = header(arrays, "x", path)
    if kind.kind not in "biuf":
        raise DataError(f"{path}: x must be real numbers, got {_kind(kind)}")
    if len(shape) != 3 or 0 in shape:
        raise DataError(f"{path}: x must have shape (sequences, channels, time), none of them 0, got {tuple(shape)}")
    return shape[0], shape[1], shape[2]


def read_labels(path: Path, each_step: bool = False) -> NDArray[Any] | None:
    """`y`, with one row per sequence; plain values become rows of one, and names of classes stay names.

    None if the file has no labels.

    Args:
        path: of the file.
        each_step: whether `y` ``(sequences, time)`` holds one value at every step; of three axes it always does.
    """
    with open_arrays(path) as arrays:
        if "y" not in entries(arrays, path):
            return None
        y = read_array(arrays, "y", path)
    y = y.astype(np.int64) if y.dtype == bool else y
    each_step = each_step or y.ndim == 3
    if y.dtype.kind == "f" and not (fits := (np.abs(y) <= np.finfo(np.float32).max) | (each_step & np.isnan(y))).all():
        row = np.argwhere(~fits)[0]
        raise DataError(
            f"{path}: y must be finite numbers up to 3.4e38, got {y[tuple(row)]:g} for sequence {row[0]}; correct it"
        )
    if is_text(y) and y.ndim == 1 and y.size:
        return as_text(y)
    whole = np.issubdtype(y.dtype, np.integer)
    if not np.issubdtype(y.dtype, np.number) or not 1 <= y.ndim <= 3 or not y.size or (whole and y.ndim == 3):
        raise DataError(
            f"{path}: y must be numbers of shape (sequences,) or (sequences, ...), or values at every step "
            f"(sequences, outputs, time), got {y.dtype} {y.shape}"
        )
    if each_step and y.ndim == 2:
        return y[:, None].astype(np.float64)  # one output
    return y if whole or y.ndim > 1 else y[:, None]


def without_labels(path: Path) -> str:
    """Return what to tell somebody who wants to train or score without labels."""
    labels = "a label column, or labels after the values" if ending(path) in _TABLES else "an array y"
    return (
        f"{path} must hold labels ({labels}) to train or score with; "
        f"ckcnn predict --ckpt_path RUN --input {path.name} predicts sequences without them"
    )


def check_lengths(lengths: NDArray[Any], time: int, path: Path) -> NDArray[np.int64]:
    """Lengths must be whole numbers from 1 to `time`."""
    if lengths.ndim != 1 or not np.issubdtype(lengths.dtype, np.integer):
        raise DataError(f"{path}: lengths must be a whole number per sequence, got {lengths.dtype} {lengths.shape}")
    if lengths.min() < 1 or lengths.max() > time:
        raise DataError(f"{path}: lengths must lie in 1 ... {time}, got {lengths.min()} ... {lengths.max()}")
    return lengths.astype(np.int64)


def check_values(name: str, values: NDArray[Any], valid: NDArray[np.bool_], start: int, path: Path) -> None:
    """All values ``(N, ..., T)`` in valid steps ``(N, T)`` must fit float32; `start` is the number of the first row."""
    wide = valid if values.ndim == 2 else valid[:, None]
    most = np.finfo(np.float32).max if name == "x" else MOST_TIME
    bad = np.argwhere(~(np.abs(values) <= most) & wide)
    if len(bad):
        row, *channel, step = bad[0]
        place = f"sequence {row + start}, {f'channel {channel[0]}, ' if channel else ''}step {step}"
        more = f" and {len(bad) - 1} more places" if len(bad) > 1 else ""
        raise DataError(
            f"{path}: {name} must be finite numbers up to {most:.2g}, got {values[tuple(bad[0])]:g} at {place}{more}; "
            "fill them in, or leave the steps out and give times"
        )


def check_times(found: tuple[int, ...], kind: np.dtype[Any], shape: tuple[int, int], path: Path) -> None:
    """Stamps must be ``(N, T)`` numbers."""
    if found != shape or kind.kind not in "iuf":
        raise DataError(f"{path}: times must be numbers of shape {shape}, one for each step, got {kind} {found}")


def median_gap(path: Path) -> float:
    """The median of the gaps between the stamps of a file, those of padding and of equal stamps left out; or 1."""
    with open_arrays(path) as arrays:
        times = read_array(arrays, "times", path)
        lengths = read_array(arrays, "lengths", path) if "lengths" in arrays else None
    if times.ndim != 2 or times.dtype.kind not in "iuf":
        return 1.0  # it is refused when it is read
    gaps = np.diff(times.astype(np.float64))
    used = np.isfinite(gaps) & (gaps > 0)
    if lengths is not None and lengths.shape == (len(times),) and lengths.dtype.kind in "iu":
        used &= np.arange(1, times.shape[1]) < lengths[:, None]
    return float(np.median(gaps[used])) if used.any() else 1.0


def check_ascending(times: NDArray[Any], valid: NDArray[np.bool_], start: int, path: Path) -> None:
    """Stamps must not go backwards within a sequence."""
    back = np.argwhere((np.diff(times) < 0) & valid[:, 1:])
    if len(back):
        raise DataError(f"{path}: times of sequence {back[0][0] + start} go backwards; sort its samples by time")


def read_split(split: NDArray[Any], path: Path) -> NDArray[np.int8]:
    """The split of every sequence, by name or by number, as codes."""
    if split.ndim != 1:
        raise DataError(f"{path}: split must have one entry per sequence, got shape {split.shape}")
    texts = [_decoded(entry) for entry in split.tolist()]
    numbers = {str(code): name for name, code in SPLITS.items()}
    names = [numbers.get(text, text) for text in texts]
    if unknown := sorted(set(names) - set(SPLITS)):
        raise DataError(f"{path}: split must hold train, val and test (or 0, 1 and 2), got {unknown[0]!r}")
    if absent := [name for name in ("train", "test") if name not in names]:
        raise DataError(f"{path}: split gives no sequence to {' and '.join(absent)}; only val may be left out")
    return np.concatenate([split_codes(name, 1) for name in names])


def header(arrays: Mapping[str, Any], name: str, path: Path) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether the columns are contiguous, and type of an array that is not read.

    In an ``.npz`` file all its bytes must be there.
    """
    if ending(path) != ".npz":
        found = _entry(arrays, name, path)
        return tuple(found.shape), False, found.dtype
    try:
        with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as file:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, by_columns, kind = read(file)
            size = archive.getinfo(f"{name}.npy").file_size - file.tell()
    except (ValueError, KeyError):
        raise DataError(f"{path}: {name} is not a whole array of NumPy; write the file again") from None
    if size != math.prod(shape) * kind.itemsize and not kind.hasobject:
        bytes_expected = math.prod(shape) * kind.itemsize
        raise DataError(f"{path}: {name} of shape {shape} must have {bytes_expected} bytes, got {size}")
    return shape, by_columns, kind


def is_text(array: NDArray[Any]) -> bool:
    """Return whether an array holds strings, as NumPy or HDF5 keep them."""
    return array.dtype.kind in "US" or (array.dtype.kind == "O" and all(isinstance(v, str | bytes) for v in array.flat))


def as_text(array: NDArray[Any]) -> NDArray[np.str_]:
    """Return strings, whatever a file keeps them as."""
    return np.array([_decoded(entry) for entry in array.tolist()], dtype=str)


def _decoded(entry: object) -> str:
    return entry.decode(errors="replace") if isinstance(entry, bytes) else str(entry)


def name_classes(y: NDArray[Any], names: Sequence[str] | None, path: Path) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Return labels as numbers, and the names of the classes.

    Args:
        y: labels; names of classes are numbered in the order of `names`, or else of the alphabet, 2 before 10.
        names: of the classes, if they are known.
        path: of the file, for messages.

    Raises:
        DataError: if a label has no name, or there is only one class.
    """
    if y.dtype.kind != "U":
        if names and y.dtype.kind in "iu" and y.size and int(y.max()) >= len(names):
            raise DataError(f"{path}: classes must name all classes 0 ... {int(y.max())} of y, got {len(names)} names")
        return y, tuple(names or ())
    found = set(y.tolist())
    known = list(names) if names else sorted(found, key=int if all(name.isdecimal() for name in found) else None)
    if unknown := sorted(set(y.tolist()) - set(known)):
        raise DataError(f"{path}: y holds {unknown[0]!r}, which is none of the classes {', '.join(known)}")
    if len(known) < 2:
        raise DataError(f"{path}: y must name at least two classes, got only {known[0]!r}")
    numbers = {name: number for number, name in enumerate(known)}
    return np.array([numbers[name] for name in y.tolist()], dtype=np.int64), tuple(known)


def read_names(path: Path, name: str) -> list[str] | None:
    """Return an array of names that a file may hold."""
    with open_arrays(path) as arrays:
        if name not in entries(arrays, path):
            return None
        array = read_array(arrays, name, path)
    if array.ndim != 1 or not is_text(array):
        raise DataError(f"{path}: {name} must be a list of names, got {array.dtype} {array.shape}")
    names: list[str] = as_text(array).tolist()
    check_different(f"{path}: {name}", names)
    return names


def check_different(what: str, names: Sequence[str]) -> None:
    """Names must differ from each other."""
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise DataError(f"{what} must be different names, got {in_short(twice)} twice")
