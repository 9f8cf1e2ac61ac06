"""Coarse to fine: the first epochs of a training see its sequences at a lower sampling rate."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ckcnn.datamodules.options import RATES, Missing
from ckcnn.datamodules.sequences import DataError
from ckcnn.tasks import TASKS

_FORM = "write step:epochs for each phase, such as 8:10,4:5,1:5, with steps of " + ", ".join(map(str, RATES))


@dataclass(frozen=True)
class RateSchedule:
    """The sampling step of each training epoch, in training samples.

    Attributes:
        phases: sampling step and number of epochs of each phase. The last one has step 1 and lasts until training ends.

    Example:
        >>> schedule = RateSchedule.parse("8:10,4:5,1:5")
        >>> [schedule.step(epoch) for epoch in (0, 9, 10, 15, 100)], schedule.epochs
        ([8, 8, 4, 1, 1], 20)
    """

    phases: tuple[tuple[int, int], ...]

    @classmethod
    def parse(cls, text: str) -> RateSchedule:
        """Read phases such as ``8:10,4:5,1:5``.

        Raises:
            ValueError: if they are written differently, do not become finer, or do not end with step 1.
        """
        if not isinstance(text, str) or not re.fullmatch(r"\d{1,2}:\d{1,6}(,\d{1,2}:\d{1,6})*", text.replace(" ", "")):
            raise ValueError(f"schedule_dt: {_FORM}, got {text!r} (YAML needs quotes around it)")
        phases = tuple((int(step), int(epochs)) for step, epochs in re.findall(r"(\d+):(\d+)", text.replace(" ", "")))
        steps = [step for step, _ in phases]
        if not set(steps) <= set(RATES) or any(epochs < 1 for _, epochs in phases):
            raise ValueError(f"schedule_dt: {_FORM} and at least one epoch each, got {text!r}")
        if steps != sorted(set(steps), reverse=True) or steps[-1] != 1:
            raise ValueError(f"schedule_dt must go from coarse to fine and end with step 1, got {text!r}; {_FORM}")
        return cls(phases)

    @property
    def epochs(self) -> int:
        """Epochs of all phases."""
        return sum(epochs for _, epochs in self.phases)

    def step(self, epoch: int) -> int:
        """Return the sampling step of an epoch."""
        for step, epochs in self.phases:
            if epoch < epochs:
                return step
            epoch -= epochs
        return self.phases[-1][0]

    def check_end(self, max_epochs: int | None) -> None:
        """A training that ends before the last phase would never have seen its data at the full rate.

        Raises:
            DataError: if it has fewer epochs than all phases together.
        """
        if max_epochs is not None and 0 <= max_epochs < self.epochs:
            phases = ",".join(f"{step}:{epochs}" for step, epochs in self.phases)
            raise DataError(
                f"schedule_dt {phases} needs {self.epochs} epochs, but trainer.max_epochs is {max_epochs}; "
                "shorten the phases, or set trainer.max_epochs to their sum"
            )


class Thinned(Protocol):
    """What decides whether the sequences of a data module have a coarser version."""

    task: str
    length: int
    train_dt: int
    test_dt: int
    gaps: bool
    drop_rate: float
    missing: Missing
    stamped: bool
    thinnable: bool
    antialias: bool
    schedule: RateSchedule | None

    def order(self) -> NDArray[np.int64] | None:
        """A permutation of time."""


def check_coarse(data: Thinned) -> None:
    """Refuse a schedule or a filter for sequences of which every n-th step is no coarser version.

    Raises:
        ValueError: that says why.
    """
    asked = [name for name, given in (("schedule_dt", data.schedule), ("antialias", data.antialias)) if given]
    if not asked:
        return
    reasons = {
        "text has no coarser version": TASKS[data.task].from_tokens,
        "every n-th of permuted steps is a random choice of them, not a coarser version": data.order() is not None,
        f"every n-th step of {type(data).__name__} loses what has to be remembered": not data.thinnable,
    }
    for reason, holds in reasons.items():
        if holds:
            raise ValueError(f"{reason}; leave out {' and '.join(asked)}")
    if data.antialias and (data.gaps or data.drop_rate or data.stamped or data.missing == "times"):
        raise ValueError("antialias filters sequences without gaps, and here samples are missing; leave out antialias")
    if data.schedule is not None:
        coarsest = data.train_dt * data.schedule.step(0)
        if math.ceil(data.length / coarsest) < 2:
            raise ValueError(
                f"schedule_dt starts with every {coarsest}th of {data.length} samples, and fewer than 2 are left; "
                "start with a finer step"
            )
