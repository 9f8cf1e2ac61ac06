"""What passes between the parts of this package: batches, stored sequences, and the error that bad data gets."""

# B batch, N sequences, C channels, T time

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ckcnn.data_options import DEFAULTS

Progress = Callable[[str, int, int], None]

TRAIN, VAL, TEST = 0, 1, 2  # the codes of `RawSequences.split`
SPLITS = {"train": TRAIN, "val": VAL, "test": TEST}


class DataError(ValueError):
    """Data that is missing or not what it should be; the message names the file and says what to do."""


class SequenceBatch(NamedTuple):
    """What every loader yields.

    Attributes:
        x: signals ``(B, C, T)``, float32; for language, tokens ``(B, T)``, int64.
        y: classes ``(B,)`` or, at every step, ``(B, T)``, int64; labels that are there or not ``(B, labels)``, int64;
            values to predict ``(B, outputs)``, at every step ``(B, outputs, T)``, or the next steps of all channels
            ``(B, C, ahead)``, float32 in their own units. A step with the label -100, or the value NaN, does not count.
        times: stamps ``(B, T)`` in training samples, where samples are really missing or came with stamps.
        lengths: number of valid steps ``(B,)`` where they differ or ``pad: valid`` asks for them; the rest is padding.
    """

    x: Tensor
    y: Tensor
    times: Tensor | None = None
    lengths: Tensor | None = None


class Facts(NamedTuple):
    """What a model has to know about data; a data module has these attributes before it reads any file.

    Attributes:
        in_channels: channels of a batch, including a mask or counts.
        out_channels: classes, or values to predict.
        task: kind of problem, a key of `ckcnn.tasks.TASKS`.
        horizon: length of a training sequence, in training samples.
        dt: sampling step of each split, in training samples.
    """

    in_channels: int
    out_channels: int
    task: str
    horizon: int
    dt: dict[str, float]


class SequenceData(Protocol):
    """What every data module says about its data before it reads any file; `Facts` explains it.

    A `LightningDataModule` with these attributes, or properties, whose loaders yield `SequenceBatch`, is all that the
    models and the command line need. It may also have `dt`; without it, all splits have the same sampling step.
    """

    @property
    def in_channels(self) -> int: ...

    @property
    def out_channels(self) -> int: ...

    @property
    def task(self) -> str: ...

    @property
    def horizon(self) -> int: ...


def facts_of(data: SequenceData) -> Facts:
    """Return what a model has to know about the data of a data module.

    Args:
        data: any object with the attributes; without `dt`, all splits have the same sampling step.

    Raises:
        ValueError: if one of them is missing.
    """
    missing = [name for name in Facts._fields if name != "dt" and not hasattr(data, name)]
    if missing:
        raise ValueError(
            f"a data module must have {', '.join(Facts._fields[:-1])}, "
            f"got a {type(data).__name__} without {', '.join(missing)}"
        )
    step = dict.fromkeys(SPLITS, 1.0) | getattr(data, "dt", {})
    return Facts(data.in_channels, data.out_channels, data.task, data.horizon, step)


_UNSAID: dict[str, Any] = {**DEFAULTS, "labelled": True, "files": (), "stamped": False, "classes": (), "splits": {}}


def said_of(data: object, name: str) -> Any:
    """Return what a data module says of itself, or else what holds of one that says nothing.

    Args:
        data: any data module; one of ours has all of these attributes.
        name: `labelled`, `files`, `stamped`, `classes`, `splits`, or an option that ours share.
    """
    return getattr(data, name, _UNSAID[name])


@dataclass(frozen=True)
class RawSequences:
    """A stretch of a data set as a benchmark reads it, in any number type.

    Attributes:
        x: signals ``(N, C, T)``, NaN where nothing was observed; for language, one stream of tokens ``(N,)``.
        y: classes ``(N,)`` or ``(N, T)``, labels ``(N, labels)``, or values ``(N, outputs)`` or ``(N, outputs, T)``;
            the stream itself needs none.
        split: one of `TRAIN`, `VAL`, `TEST` for each sequence where the source has a split.
        lengths: number of valid steps ``(N,)`` where they differ.
        times: stamps ``(N, T)`` where the source has them, in samples at full rate, each sequence from 0.
        source: the file they come from, for messages.
    """

    x: NDArray[np.generic]
    y: NDArray[np.generic] | None = None
    split: NDArray[np.int8] | None = None
    lengths: NDArray[np.int64] | None = None
    times: NDArray[np.floating[Any]] | None = None
    source: str = ""

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The parts that are there, by name."""
        return {name: array for name, array in vars(self).items() if isinstance(array, np.ndarray)}


def split_codes(split: str, count: int) -> NDArray[np.int8]:
    """`count` times the code of a split.

    Example:
        >>> split_codes("test", 3)
        array([2, 2, 2], dtype=int8)
    """
    return np.full(count, SPLITS[split], dtype=np.int8)
