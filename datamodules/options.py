"""The choices that all benchmarks share, and the messages for bad ones."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, Protocol, get_args

from ckcnn.checks import check_choice, check_count, check_fraction
from ckcnn.checks.memory import check_room
from ckcnn.tasks import TASKS

Missing = Literal["mask", "times", "counts"]
Standardise = Literal["channel", "step", "none"]
Pad = Literal["paper", "valid"]
Keep = Literal["first", "last"]

_SEEDS = 2**32  # NumPy and scikit-learn take no larger ones
_WORKER = 100e6  # bytes of a process that does nothing yet
RATES = (1, 2, 4, 8, 16)  # the paper's subsampling factors, and one more


def data_root(root: str | os.PathLike[str] | None) -> Path:
    """Where the data sets lie: `root`, else ``$CKCNN_DATA``, else ``data``."""
    return Path(root or os.environ.get("CKCNN_DATA") or "data").expanduser()


def check_rate(name: str, value: int) -> None:
    """`value` must be one of the subsampling factors."""
    if value not in RATES:
        raise ValueError(
            f"{name} must be one of {', '.join(map(str, RATES))}: every n-th sample is kept, got {value!r}"
        )


class SharedOptions(Protocol):
    """The shared options of a data module, and the task that they must fit."""

    task: str
    channels: int
    length: int
    batch_size: int
    num_workers: int
    seed: int
    drop_rate: float
    missing: Missing
    train_dt: int
    test_dt: int
    standardise: Standardise
    pad: Pad
    keep: Keep
    on_device: bool


def check_options(options: SharedOptions) -> None:
    """Every shared option must have a value that makes sense, for text too.

    Raises:
        ValueError: that names the option, what was expected and what was given.
    """
    check_count("batch_size", options.batch_size)
    check_count("num_workers", options.num_workers, least=0)
    check_count("seed", options.seed, least=0)
    if options.seed >= _SEEDS:
        raise ValueError(f"seed must be a whole number below 2 to the power of 32, got {options.seed}")
    check_room(
        f"a batch of {options.batch_size} sequences with {options.channels} x {options.length} values",
        4 * options.batch_size * options.channels * options.length,
        "choose a smaller batch_size",
    )
    check_room(f"{options.num_workers} processes that make batches", _WORKER * options.num_workers, "lower num_workers")
    if options.on_device and options.num_workers:
        raise ValueError(
            "on_device makes all sequences once, without the processes of num_workers; leave one of them out"
        )
    check_fraction("drop_rate", options.drop_rate)
    check_rate("train_dt", options.train_dt)
    check_rate("test_dt", options.test_dt)
    check_choice("missing", options.missing, get_args(Missing))
    check_choice("standardise", options.standardise, get_args(Standardise))
    check_choice("pad", options.pad, get_args(Pad))
    check_choice("keep", options.keep, get_args(Keep))
    if options.keep == "last" and options.pad == "valid":
        raise ValueError("keep: last counts back from the common end, where pad: valid has none; leave one of them out")
    changed = options.drop_rate > 0 or options.train_dt != 1 or options.test_dt != 1 or options.missing == "times"
    if TASKS[options.task].from_tokens and changed:
        raise ValueError(
            "text has no values to drop or subsample; leave drop_rate, missing, train_dt and test_dt alone"
        )
