"""All that lies between a raw measurement and a batch, as plain data that a checkpoint can keep."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, get_args

import torch
from torch import Tensor

from ckcnn.checks.hints import in_short
from ckcnn.datamodules.options import Keep, Missing
from ckcnn.datamodules.pipeline import Padding, Pipeline
from ckcnn.datamodules.transforms import Statistics
from ckcnn.tasks import TASKS

FORMAT = 1  # of `Preprocessing.state`; raise it when a reader must know of a change
_TENSORS = ("mean", "std", "order", "target_mean", "target_std")


@dataclass(frozen=True)
class Preprocessing:
    """What training did to its raw sequences; training and prediction build their `Pipeline` from it.

    Attributes:
        data: the class of the data module.
        task: kind of problem, a key of `ckcnn.tasks.TASKS`.
        channels: channels of the sequences, before a mask or counts are added.
        length: steps of a training sequence at full rate, padding included.
        out_channels: classes, or values to predict.
        batch_size: sequences that training processed together.
        classes: names of the classes, if they have any.
        vocabulary: the characters of the tokens of text.
        spelling: replacements for characters that the text of training spells differently.
        channel_names: what the channels are, if it is known.
        features: how the channels are computed from a recording, or None if they are what was measured.
        rate: samples per second of a recording, or None for data that is not audio.
        origin: raw value that means 0, for each channel or for all.
        unit: how much of the raw value means 1.
        sporadic: number of first channels that are measured in time; the others hold for the whole sequence.
        gaps: whether the data has its own missing values.
        stamped: whether the data brings time stamps.
        time_unit: how much of a raw stamp is one sample.
        time_step: distance of two samples of regular data, in the unit of its time column; None if it is not known.
        varying: whether sequences differ in length.
        padding: what comes after the end of a shorter sequence; see `Pipeline`.
        missing: how missing values are represented, or None if none are missing.
        keep: from where samples are counted when some are left out.
        train_dt: every n-th sample of a sequence was kept in training.
        antialias: whether a low-pass filter is applied before samples are left out.
        history: steps at the start of a window of text that only give context.
        mean: of the training values, broadcastable over a batch; None if they are not standardised.
        std: their standard deviation.
        order: permutation of time, or None.
        ahead: steps that are forecast, or 0.
        target_mean: of the training targets, broadcastable over a batch of them; None if the network predicts in their
            own units.
        target_std: their standard deviation.
    """

    data: str
    task: str
    channels: int
    length: int
    out_channels: int
    batch_size: int
    classes: tuple[str, ...] = ()
    vocabulary: str = ""
    spelling: Mapping[str, str] = field(default_factory=dict)
    channel_names: tuple[str, ...] = ()
    features: Mapping[str, Any] | None = None
    rate: int | None = None
    origin: tuple[float, ...] = (0.0,)
    unit: tuple[float, ...] = (1.0,)
    sporadic: int = 0
    gaps: bool = False
    stamped: bool = False
    time_unit: float = 1.0
    time_step: float | None = None
    varying: bool = False
    padding: Padding = "repeat"
    missing: Missing | None = None
    keep: Keep = "first"
    train_dt: int = 1
    antialias: bool = False
    history: int = 0
    mean: Tensor | None = field(default=None, repr=False)
    std: Tensor | None = field(default=None, repr=False)
    order: Tensor | None = field(default=None, repr=False)
    ahead: int = 0
    target_mean: Tensor | None = field(default=None, repr=False)
    target_std: Tensor | None = field(default=None, repr=False)

    def state(self) -> dict[str, Any]:
        """Return plain values and tensors, from which `from_state` makes the same object."""
        plain = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        for name in ("classes", "channel_names", "origin", "unit"):
            plain[name] = list(plain[name])
        plain["spelling"] = dict(self.spelling)
        plain["features"] = None if self.features is None else dict(self.features)
        return {"format": FORMAT, **plain}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Preprocessing:
        """Return the object of a `state`, also of one that a later version has added to.

        Raises:
            ValueError: if it was written in a format that this version cannot read, or is damaged.
        """
        if not isinstance(state, Mapping) or state.get("format") != FORMAT:
            found = state.get("format") if isinstance(state, Mapping) else type(state).__name__
            raise ValueError(f"the preprocessing must have format {FORMAT}, got {found}; use the ckcnn that wrote it")
        known = {entry.name: state[entry.name] for entry in fields(cls) if entry.name in state}
        _check_state(known)
        for name in ("classes", "channel_names", "origin", "unit"):
            if name in known:
                known[name] = tuple(known[name])
        for name in _TENSORS:
            if known.get(name) is not None and not isinstance(known[name], Tensor):
                raise ValueError(f"the preprocessing is damaged: {name} must be a tensor, got {in_short(known[name])}")
        return cls(**known)

    @property
    def statistics(self) -> Statistics | None:
        """With which values are standardised."""
        return _statistics(self.mean, self.std)

    @property
    def target_statistics(self) -> Statistics | None:
        """With which targets are standardised."""
        return _statistics(self.target_mean, self.target_std)

    @property
    def in_channels(self) -> int:
        """Channels of a batch, those of the data and the mask or the counts."""
        added = {"mask": 1, "counts": self.sporadic}
        return self.channels + (added.get(self.missing, 0) if self.missing else 0)

    @property
    def horizon(self) -> int:
        """Length of a training sequence, in training samples."""
        return -(-self.length // self.train_dt)

    @property
    def knows_missing(self) -> bool:
        """Whether values may be missing."""
        return self.gaps or self.missing is not None

    def pipeline(self, stride: int | None = None, length: int | None = None) -> Pipeline:
        """Return what makes batches.

        Args:
            stride: every n-th sample is kept; by default as in training.
            length: steps of the sequences at full rate; by default those of training.
        """
        stride, length = stride or self.train_dt, length or self.length
        stored_as_is = set(self.origin) == {0.0} and set(self.unit) == {1.0}
        return Pipeline(
            units=None if stored_as_is else (torch.tensor(self.origin)[:, None], torch.tensor(self.unit)[:, None]),
            sporadic=self.sporadic,
            gaps=self.gaps,
            padding=self.padding,
            missing=self.missing,
            order=self.order,
            statistics=self.statistics,
            stride=stride,
            first=(length - 1) % stride if self.keep == "last" else 0,
            training_stride=self.train_dt,
            antialias=self.antialias,
            every_step=TASKS[self.task].every_step,
        )


def _statistics(mean: Tensor | None, std: Tensor | None) -> Statistics | None:
    return None if mean is None or std is None else Statistics(mean, std)


_COUNTS = ("channels", "length", "out_channels", "batch_size", "train_dt")
_FLAGS = ("gaps", "stamped", "varying", "antialias")
_SIZES = ("sporadic", "history", "ahead")
_LISTS = {"classes": str, "channel_names": str, "origin": int | float, "unit": int | float}
_CHOICES: dict[str, tuple[Any, ...]] = {
    "task": tuple(TASKS),
    "padding": get_args(Padding),
    "missing": (None, *get_args(Missing)),
    "keep": get_args(Keep),
}


def _check_state(state: Mapping[str, Any]) -> None:
    """Check the types of all values, which may come from a file that somebody has changed."""
    rules: dict[str, tuple[str, Callable[[Any], bool]]] = {
        **{name: ("a whole number from 1", lambda value: _is_whole(value, 1)) for name in _COUNTS},
        **{name: ("a whole number from 0", lambda value: _is_whole(value, 0)) for name in _SIZES},
        **{name: ("true or false", lambda value: isinstance(value, bool)) for name in _FLAGS},
        **{name: ("a text", lambda value: isinstance(value, str)) for name in ("data", "vocabulary")},
        **{name: ("a list", partial(_is_list, kind=kind)) for name, kind in _LISTS.items()},
        **{name: (f"one of {', '.join(map(str, known))}", known.__contains__) for name, known in _CHOICES.items()},
        "spelling": ("texts by character", lambda value: isinstance(value, Mapping) and _all(value.values(), str)),
        "features": ("settings or null", lambda value: value is None or isinstance(value, Mapping)),
        "rate": ("a whole number or null", lambda value: value is None or _is_whole(value, 1)),
        "time_unit": ("a positive number", _is_positive),
        "time_step": ("a positive number or null", lambda value: value is None or _is_positive(value)),
    }
    required = ("data", "task", "channels", "length", "out_channels", "batch_size")
    for name, (wanted, fits) in rules.items():
        if name not in state and name in required:
            raise ValueError(f"the preprocessing is damaged: it must say {name}; export or train the model again")
        if name in state and not fits(state[name]):
            raise ValueError(f"the preprocessing is damaged: {name} must be {wanted}, got {in_short(state[name])}")


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def _is_list(value: Any, kind: Any) -> bool:
    return isinstance(value, list | tuple) and _all(value, kind)


def _all(values: Any, kind: Any) -> bool:
    return all(isinstance(value, kind) for value in values)
