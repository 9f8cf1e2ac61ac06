"""Which of two epochs, trials or results is better."""

from __future__ import annotations

import math
from typing import Literal

Mode = Literal["max", "min"]


def rank(value: float, loss: float, mode: Mode) -> tuple[float, float]:
    """Return a sort key; smaller is better.

    Of equally good epochs the one with the smaller validation loss is better, as in the authors' code: on a small
    validation set many epochs are equally good. What is not a number is worse than any number.

    Args:
        value: the metric that says how good an epoch is.
        loss: the validation loss.
        mode: whether a good value is large or small.

    Example:
        >>> epochs = [(0.5, 2.0), (0.7, 1.0), (0.7, 0.8), (float("nan"), 0.1)]
        >>> min(epochs, key=lambda epoch: rank(*epoch, "max"))
        (0.7, 0.8)
    """
    return _or_worst(-value if mode == "max" else value), _or_worst(loss)


def is_as_good(value: float, other: float, mode: Mode) -> bool:
    """Return whether a value is at least as good as another."""
    return rank(value, 0.0, mode) <= rank(other, 0.0, mode)


def _or_worst(number: float) -> float:
    return math.inf if math.isnan(number) else number
