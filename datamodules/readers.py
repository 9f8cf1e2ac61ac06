"""Files in their official formats; each fault gets an error that names the file."""

from __future__ import annotations

import gzip
import io
import math
import pickle
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ckcnn.datamodules.sequences import DataError

_STREAMED = 0x7FFFFFF0  # what writers that cannot go back give for the size, and more
_IDX_UBYTE = 0x08  # the type code of unsigned bytes in an idx file
_PICKLE_NAMES = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
}


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """An array of unsigned bytes in LeCun's idx format, gzipped or not.

    Written here because torchvision's reader raises a bare assertion for a damaged file that does not name it.

    Raises:
        DataError: if the file is of another kind, or shorter or longer than its header says.
    """
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is not a whole gzip file, or cannot be read; download it again") from error
    header = 4 + 4 * dimensions
    if len(content) < header or content[:4] != bytes((0, 0, _IDX_UBYTE, dimensions)):
        raise DataError(f"{path} is not an idx file of unsigned bytes with {dimensions} dimensions; download it again")
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    if len(content) - header != math.prod(shape):
        raise DataError(
            f"{path} must hold {math.prod(shape)} bytes of data for shape {shape}, "
            f"got {len(content) - header}; download it again"
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


class _ArrayUnpickler(pickle.Unpickler):
    """Reads arrays, lists and strings; a pickle that asks for any other code is refused, since it could do anything."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _PICKLE_NAMES:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which a data file never needs")
        return super().find_class(module, name)


def read_cifar_batch(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Pixels ``(N, 3072)``, plane by plane, and labels of one python batch of CIFAR-10.

    Written here because torchvision reads the batches with `pickle.load`, which can run any code.
    """
    try:
        batch = _ArrayUnpickler(io.BytesIO(path.read_bytes()), encoding="latin1").load()
        pixels, labels = np.asarray(batch["data"]), np.asarray(batch["labels"])
    except pickle.UnpicklingError as error:
        reason = str(error) if "asks for" in str(error) else "it is damaged"
        raise DataError(f"{path} is not a python batch of CIFAR-10: {reason}; download it again") from error
    except Exception as error:  # the unpickler raises whatever damaged bytes make it stumble over
        raise DataError(f"{path} is not a python batch of CIFAR-10, or damaged; download it again") from error
    if pixels.ndim != 2 or pixels.shape[1] != 3072 or pixels.dtype != np.uint8:
        raise DataError(f"{path} must hold rows of 3072 bytes, got {pixels.dtype} {pixels.shape}; download it again")
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise DataError(f"{path} must hold one whole number per image as labels, got {labels.dtype}; download it again")
    check_matching(path, len(pixels), len(labels))
    return pixels, labels


def check_matching(path: Path, sequences: int, labels: int) -> None:
    """There must be one label for each sequence."""
    if sequences != labels:
        raise DataError(f"{path}: {labels} labels do not match {sequences} sequences; the files do not belong together")


def read_wav(path: Path, rate: int) -> NDArray[np.int16]:
    """The samples of a mono WAV file with 16 bits, without FFmpeg."""
    import soundfile

    check_whole_wav(path)
    try:
        with soundfile.SoundFile(path) as file:
            kind, channels, found, samples = file.subtype, file.channels, file.samplerate, file.read(dtype="int16")
    except soundfile.LibsndfileError as error:
        raise DataError(f"{path} is not a WAV file that can be read, or damaged; download it again") from error
    if found != rate or channels != 1:
        raise DataError(f"{path} must be mono at {rate} Hz, got {channels} channel(s) at {found} Hz; resample it")
    if kind != "PCM_16":  # libsndfile rounds floating-point samples to 0
        raise DataError(f"{path} must have samples with 16 bits (PCM_16), got {kind}; convert it")
    return np.asarray(samples)


def check_whole_wav(path: Path) -> None:
    """A recording must not be cut short, which libsndfile takes for a shorter one.

    Raises:
        DataError: if it has fewer bytes than it says; a stream that ended without saying how many it has is left alone.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        if file.read(12)[8:] != b"WAVE":
            return
        while len(chunk := file.read(8)) == 8:
            name, length = struct.unpack("<4sI", chunk)
            end = file.tell() + length
            if name == b"data":
                if size < end and length < _STREAMED:
                    raise DataError(f"{path} is cut short: it has {size} bytes, expected {end}; write it again")
                return
            file.seek(end + length % 2)


def read_psv_archive(path: Path, columns: Sequence[str], entries: Sequence[str]) -> list[NDArray[np.float32]]:
    """Some tables of a zip, or of the folder it was unpacked into, each ``(rows, columns)``."""
    if path.is_dir():
        return [_read_psv((path / name).read_bytes(), columns, f"{path / name}") for name in entries]
    try:
        with zipfile.ZipFile(path) as zipped:
            contents = [zipped.read(name) for name in entries]
    except (*_BROKEN_ZIP, KeyError) as error:
        raise DataError(f"{path} {_zip_problem(error)}; download it again") from error
    return [_read_psv(text, columns, f"{name} in {path}") for text, name in zip(contents, entries, strict=True)]


def list_psv(path: Path) -> list[str]:
    """The names of the ``.psv`` files in a zip or a folder, sorted: the file system has no say."""
    if path.is_dir():
        return sorted(file.relative_to(path).as_posix() for file in path.rglob("*.psv"))
    try:
        with zipfile.ZipFile(path) as zipped:
            return sorted(name for name in zipped.namelist() if name.endswith(".psv"))
    except _BROKEN_ZIP as error:
        raise DataError(f"{path} {_zip_problem(error)}; download it again") from error


# The last three: an encrypted member, an unknown way of packing, and a name that is not text.
_BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError, UnicodeDecodeError)


def _zip_problem(error: Exception) -> str:
    if "encrypted" in str(error):
        return "is an encrypted zip file, expected the official one, which is not"
    return "is not a whole zip file"


def _read_psv(content: bytes, columns: Sequence[str], name: str) -> NDArray[np.float32]:
    header, _, body = content.decode("ascii", errors="replace").partition("\n")
    found = header.strip().split("|")
    if found != list(columns):
        absent = [column for column in columns if column not in found]
        what = f"has no column {', '.join(absent)}" if absent else "has its columns in another order, or too many"
        raise DataError(f"{name} {what}; expected {'|'.join(columns)}")
    try:
        return np.loadtxt(io.StringIO(body), np.float32, delimiter="|", ndmin=2).reshape(-1, len(columns))
    except ValueError as error:
        raise DataError(f"{name} must be a table of numbers, got something else; download it again") from error
