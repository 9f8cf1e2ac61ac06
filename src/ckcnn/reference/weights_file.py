"""Reading weights from files that nobody vouches for."""

from __future__ import annotations

import io
import os
import warnings
import zipfile
from pathlib import Path

import torch
from torch import Tensor, nn

from ckcnn.files.archives import check_archive

LIMIT = 64 << 20  # bytes; the largest published file has 4.4 million


def read_tensors(path: str | os.PathLike[str], limit: int = LIMIT) -> dict[str, Tensor]:
    """The named tensors of a file of ``torch.save``; whatever else the file holds is neither executed nor returned.

    Args:
        path: file to read.
        limit: bytes that the file may have, as it is, unpacked, and as tensors.

    Raises:
        ValueError: if the file is too large, broken, or holds anything but finite tensors by name.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    if (size := path.stat().st_size) > limit:
        raise ValueError(f"{path} has {size:,} bytes, expected at most {limit:,}; it is not a file of weights")
    with path.open("rb") as file:
        content = file.read(limit)  # no more than that, should it grow meanwhile
    _check_archive(path, content, limit)
    try:
        with warnings.catch_warnings(action="ignore"):
            loaded = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception:  # the loader raises whatever it stumbles over, with advice to switch its safety off
        raise ValueError(
            f"{path} is damaged, or holds more than tensors, which is not executed; get the original file again"
        ) from None
    return _check_tensors(path, loaded, limit)


def _check_archive(path: Path, content: bytes, limit: int) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
    except Exception:  # zipfile too has more errors than its own
        raise ValueError(
            f"{path} is not a file of torch.save (a zip archive), or is damaged; get the original file again"
        ) from None
    if unpacked > limit:
        raise ValueError(
            f"{path} unpacks to {unpacked:,} bytes, expected at most {limit:,}; it is not a file of weights"
        )
    try:
        check_archive(content)
    except Exception as error:
        raise ValueError(f"{path} is damaged: {error}; get the original file again") from None


def _check_tensors(path: Path, loaded: object, limit: int) -> dict[str, Tensor]:
    if not isinstance(loaded, dict) or not loaded:
        raise ValueError(f"{path} holds no weights: expected tensors by name, got {_kind(loaded)}")
    for name, value in loaded.items():
        if not isinstance(name, str) or type(value) not in (Tensor, nn.Parameter):
            raise ValueError(
                f"{path} holds more than weights: expected tensors by name, got {_kind(value)} under {name!r}"
            )
        if value.layout is not torch.strided or value.device.type != "cpu" or value.is_quantized:
            raise ValueError(f"{path}: expected plain numbers in {name}, got a {value.layout} on {value.device}")
    if (size := sum(value.numel() * value.element_size() for value in loaded.values())) > limit:
        raise ValueError(
            f"{path} holds tensors of {size:,} bytes, expected at most {limit:,}; it is not a file of weights"
        )
    for name, value in loaded.items():
        if not bool(value.isfinite().all()):
            raise ValueError(f"{path}: {name} has values that are NaN or infinite; get the original file again")
    return loaded


def _kind(value: object) -> str:
    return "nothing" if value is None else type(value).__name__
