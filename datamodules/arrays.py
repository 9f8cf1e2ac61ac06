"""A user's own sequences: one ``.npz``, ``.h5``, ``.csv`` or ``.ts`` file."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ckcnn.checks import check_choice
from ckcnn.datamodules import array_file, tables
from ckcnn.datamodules.base import SequenceDataModule
from ckcnn.datamodules.datasets import Store
from ckcnn.datamodules.preprocessing import Preprocessing
from ckcnn.datamodules.sequences import DataError, RawSequences
from ckcnn.tasks import TASKS

_TASKS = [name for name, task in TASKS.items() if not task.from_tokens and not task.ahead]
_CHUNK_BYTES = 1 << 26
_FEW_CLASSES = 1000  # numbers with larger gaps are no numbers of classes
_USUAL_STEP = 10.0  # a median gap of more samples, or less than its inverse, is probably another unit


class Arrays(SequenceDataModule):
    """Sequences out of one file.

    It holds `x` ``(N, C, T)``, and `y`: whole numbers ``(N,)`` (classes) or ``(N, T)`` (a class at every step), or
    other numbers ``(N,)`` or ``(N, outputs)`` (values) or ``(N, outputs, T)`` (values at every step, NaN for none). It
    may hold `lengths` ``(N,)``, where sequences are shorter
    than T; `times` ``(N, T)``, stamps; and `split` ``(N,)``: "train", "val" and "test", or 0, 1 and 2.
    Labels may be names instead of numbers; `classes` ``(classes,)`` names the classes in their order. A ``.csv`` file
    is a long table with the columns ``sequence``, ``label``, and optionally ``time`` and ``split``; all others are
    channels. A ``.ts`` file is in sktime's format.
    Without `y`, a trained model can predict all of the sequences: ``trainer.predict`` after `use_statistics`, or
    ``ckcnn predict``.
    Without "val" a tenth of the training sequences are held out, without `split` it is 70 / 15 / 15. The facts, such
    as the number of channels, are read from this file.

    Args:
        path: file to read: ``.npz``, ``.h5``, ``.csv`` or ``.ts``.
        task: meaning of `y`, if its type and shape leave it open: ``"binary"`` for classes 0 and 1 with a single
            output, ``"multi_label"`` for `y` ``(N, labels)`` of 0 and 1, any number of them per sequence,
            ``"step_regression"`` for one value at every step, ``"regression"`` for as many values as there are steps.
        time_unit: how much of `times` is one sample, the unit in which the network counts time: 0.01 for time stamps in
            seconds that are usually 10 ms apart, or ``"auto"`` for the median gap.
        standardise_targets: whether to train on standardised targets, for values that are far from 0 or very large or
            small. Predictions and metrics keep their units, only the loss does not.
        classes: names of the classes, or labels, in the order of their numbers; by default those of the file.
        shared: see `SequenceDataModule`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        task: str | None = None,
        time_unit: float | Literal["auto"] = 1.0,
        classes: Sequence[str] | None = None,
        standardise_targets: bool = False,
        **shared: Any,
    ) -> None:
        self.path = Path(path).expanduser()
        if time_unit != "auto" and not (isinstance(time_unit, int | float) and 0 < time_unit < math.inf):
            raise ValueError(f'time_unit must be a positive number or "auto", the median gap, got {time_unit!r}')
        self._given_unit = time_unit
        if task is not None:
            check_choice("task", task, _TASKS)
        if isinstance(classes, str) or any(not isinstance(name, str) for name in classes or ()):
            raise ValueError(f"classes must be a list of names, such as [no, yes] in quotes, got {classes!r}")
        array_file.check_different("classes", classes or ())
        names = list(classes) if classes else array_file.read_names(self.path, "classes")
        labels = array_file.read_labels(self.path, task == "step_regression")
        self._labels: NDArray[Any] | None = None
        self.classes, self.labelled = tuple(names or ()), labels is not None
        if labels is not None and task is not None and TASKS[task].target == "value" and labels.dtype.kind in "iu":
            labels = labels.astype(np.float64).reshape(len(labels), -1)
        if labels is not None:
            self._labels, self.classes = array_file.name_classes(labels, names, self.path)
        self.channel_names = array_file.read_names(self.path, "channel_names") or ()
        if task is None and self._labels is not None and self._labels.ndim == 2:
            _check_clear(self.path, self._labels, self.length)
        self.task = task or _task_of(self._labels)
        if task is not None and self._labels is not None:
            _check_fits(self.path, self._labels, self.task, self.length)
        self.standardise_targets = standardise_targets
        super().__init__(**shared)
        if self.channel_names and len(self.channel_names) != self.channels:
            raise DataError(
                f"{self.path}: channel_names must name the {self.channels} channels of x, "
                f"got {len(self.channel_names)} names"
            )

    @cached_property
    def channels(self) -> int:  # type: ignore[override]
        """Channels of `x`."""
        return self._shape[1]

    @cached_property
    def length(self) -> int:  # type: ignore[override]
        """Steps of `x`."""
        return self._shape[2]

    @cached_property
    def out_channels(self) -> int:  # type: ignore[override]
        """Classes or values in `y`."""
        task = TASKS[self.task]
        if task.one_logit:
            return 1
        if self._labels is None:
            return max(1, len(self.classes))  # the trained model knows
        if task.target == "value" or task.many_labels:
            return int(self._labels.shape[1])
        classes = max(int(self._labels.max()) + 1, len(self.classes))
        if classes > max(_FEW_CLASSES, self._labels.size):
            raise DataError(
                f"{self.path}: y must number its classes 0, 1, 2 and so on, got class {classes - 1} "
                f"among {self._labels.size} labels; renumber them, or give names instead"
            )
        return classes

    @cached_property
    def stamped(self) -> bool:  # type: ignore[override]
        """Whether there are `times`."""
        with array_file.open_arrays(self.path) as arrays:
            return "times" in array_file.entries(arrays, self.path)

    @cached_property
    def time_step(self) -> float | None:  # type: ignore[override]
        """Distance of two rows in the time column of a table on a regular grid."""
        if array_file.ending(self.path) not in tables.ENDINGS:
            return None
        step = tables.read_arrays(self.path).get("time_step")
        return None if step is None else float(step[0])

    @cached_property
    def time_unit(self) -> float:  # type: ignore[override]
        """How much of `times` is one sample; 1 without `times`."""
        if not self.stamped:
            return 1.0
        step = array_file.median_gap(self.path)
        if self._given_unit == "auto":
            return step
        if not 1 / _USUAL_STEP <= step / self._given_unit <= _USUAL_STEP:
            warnings.warn(
                f"{self.path}: the median gap of times is {step / self._given_unit:g} samples, expected about 1, "
                f'so the memory is far too long or too short; set time_unit to "auto" (here {step:g})',
                stacklevel=2,
            )
        return float(self._given_unit)

    @property
    def files(self) -> tuple[str, ...]:  # type: ignore[override]
        """The one file, wherever it lies."""
        return (str(self.path.resolve()),)

    def recipe(self) -> dict[str, Any]:
        recipe: dict[str, Any] = {"path": str(self.path.resolve()), "task": self.task}
        recipe |= {} if self.labelled else {"labelled": False, "outputs": self.out_channels}
        recipe |= {"time_unit": self.time_unit} if self.stamped else {}
        return {**recipe, "classes": list(self.classes)} if self.classes else recipe

    def use_statistics(self, trained: Preprocessing) -> None:
        super().use_statistics(trained)
        if not self.labelled:
            self.task, self.classes, self.out_channels = trained.task, trained.classes, trained.out_channels

    def setup(self, stage: str | None = None) -> None:
        if not self.labelled and stage not in (None, "predict"):
            raise DataError(array_file.without_labels(self.path))
        self._check_usable()
        super().setup(stage)

    def split(self, store: Store) -> dict[str, NDArray[np.int64]]:
        if self.labelled:
            return super().split(store)
        rows = np.arange(store.shape[0])
        return {"train": rows[:0], "val": rows[:0], "test": rows}

    def load(self) -> Iterator[RawSequences]:
        self._check_usable()
        with array_file.open_arrays(self.path) as arrays:
            there = array_file.entries(arrays, self.path)
            optional = [name for name in ("lengths", "times", "split") if name in there]
            parts: dict[str, NDArray[Any]] = {name: array_file.read_array(arrays, name, self.path) for name in optional}
            count = self._shape[0]
            parts["y"] = self._placeholder(count) if self._labels is None else self._labels
            for name, part in parts.items():
                if len(part) != count:
                    raise DataError(f"{self.path}: {len(part)} entries in {name} do not match {count} sequences in x")
            parts = self._checked(parts)
            x = self._x(arrays)
            rows = max(1, _CHUNK_BYTES // (4 * self.channels * self.length))
            for start in self.track(range(0, count, rows), "reading sequences"):
                some = {name: array[start : start + rows] for name, array in parts.items()}
                yield self._chunk(np.asarray(x[start : start + rows]), some, start)

    def _check_usable(self) -> None:
        if not self.labelled and self._given is None:
            raise DataError(
                f"{self.path} has no array y, so only a trained model can use it; "
                "call use_statistics(model.preprocessing) first"
            )

    def _placeholder(self, count: int) -> NDArray[Any]:
        """Labels that nobody looks at, in the shape of the task."""
        task = TASKS[self.task]
        kind = np.float32 if task.target == "value" else np.int64
        return np.zeros((count, *task.target_shape(self.out_channels, self.length)), dtype=kind)

    def _x(self, arrays: Any) -> Any:
        """An .npz gives all of it, HDF5 what is requested."""
        in_parts = array_file.ending(self.path) in array_file.HDF5
        return arrays["x"] if in_parts else array_file.read_array(arrays, "x", self.path)

    def _checked(self, parts: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The small arrays in the types in which they are stored."""
        if "lengths" in parts:
            parts["lengths"] = array_file.check_lengths(parts["lengths"], self.length, self.path)
        if "split" in parts:
            parts["split"] = array_file.read_split(parts["split"], self.path)
        if "times" in parts:
            stamps = parts["times"]
            array_file.check_times(stamps.shape, stamps.dtype, (self._shape[0], self.length), self.path)
        return parts

    def _chunk(self, x: NDArray[Any], parts: dict[str, NDArray[Any]], start: int) -> RawSequences:
        ends = parts.get("lengths", np.full(len(x), self.length))
        valid = np.arange(self.length) < ends[:, None]
        array_file.check_values("x", x, valid, start, self.path)
        if "times" in parts:
            array_file.check_values("times", parts["times"], valid, start, self.path)
            array_file.check_ascending(parts["times"], valid, start, self.path)
            stamps = parts["times"].astype(np.float64)  # Unix times in float32 are minutes apart
            parts["times"] = np.where(valid, stamps - stamps[:, :1], 0.0) / self.time_unit
        return RawSequences(x.astype(np.float32), **parts, source=str(self.path))

    @cached_property
    def _shape(self) -> tuple[int, int, int]:
        return array_file.read_shape(self.path)


def _task_of(labels: NDArray[Any] | None) -> str:
    """What labels mean by their type; that of none is up to the trained model."""
    if labels is None:
        return "classification"
    if not np.issubdtype(labels.dtype, np.integer):
        return "regression" if labels.ndim == 2 else "step_regression"
    return "classification" if labels.ndim == 1 else "every_step"


def _check_clear(path: Path, labels: NDArray[Any], length: int) -> None:
    """What `y` means must follow from its type and shape, if the task is not named."""
    whole, width = np.issubdtype(labels.dtype, np.integer), labels.shape[1]
    if not whole and width == length:
        raise DataError(
            f"{path}: y has as many values as x has steps ({length}), so say what they are: "
            "--data.task step_regression for one value at every step, or "
            "--data.task regression for that many values of the whole sequence"
        )
    if whole and width != length:
        raise DataError(
            f"{path}: y of whole numbers must have shape (sequences,) for classes or (sequences, {length}) for a class "
            f"at every step, got {labels.shape}; name the task for others: --data.task multi_label for labels that are "
            "there (1) or not (0), --data.task regression for values"
        )


def _check_fits(path: Path, labels: NDArray[Any], task: str, length: int) -> None:
    """`y` must have the shape that a task asks for."""
    kind, outputs = TASKS[task], labels.shape[1] if labels.ndim > 1 else 1
    if labels.shape[1:] == kind.target_shape(outputs, length) or (kind.target == "value" and labels.ndim == 1):
        return
    shapes = {
        "multi_label": "(sequences, labels), 0 or 1 each",
        "step_regression": f"(sequences, {length}) or (sequences, outputs, {length})",
        "regression": "(sequences,) or (sequences, outputs)",
        "every_step": f"(sequences, {length})",
    }
    raise DataError(f"{path}: y for task {task} must have shape {shapes.get(task, '(sequences,)')}, got {labels.shape}")
