"""The options that all data modules share, and what depends on each; a benchmark's own options change what it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Option:
    """What an option of `ckcnn.datamodules.SequenceDataModule` means to those who only see its name.

    Attributes:
        default: its value when it is not given.
        is_place: whether it only says where and how data is read, so that a run may resume with another value.
        is_treatment: whether it says what is done to the data of a benchmark; it is kept with the results of a test.
        changes_time: whether a training step takes longer or shorter with another value.
    """

    default: Any = None
    is_place: bool = False
    is_treatment: bool = False
    changes_time: bool = False


OPTIONS = {
    "root": Option(is_place=True),
    "cache": Option(is_place=True),
    "num_workers": Option(0, is_place=True),
    "batch_size": Option(64, changes_time=True),
    "seed": Option(0),
    "drop_rate": Option(0.0, is_treatment=True, changes_time=True),
    "missing": Option(is_treatment=True, changes_time=True),
    "train_dt": Option(1, is_treatment=True, changes_time=True),
    "test_dt": Option(is_treatment=True),
    "standardise": Option(),
    "pad": Option("paper"),
    "keep": Option("first", is_treatment=True),
    "schedule_dt": Option(changes_time=True),
    "antialias": Option(False, is_treatment=True),
    "on_device": Option(False, is_place=True),
}
DEFAULTS = {name: option.default for name, option in OPTIONS.items()}
PLACES = tuple(name for name, option in OPTIONS.items() if option.is_place)
TREATMENTS = tuple(name for name, option in OPTIONS.items() if option.is_treatment)
CHANGES_TIME = tuple(name for name, option in OPTIONS.items() if option.changes_time)
