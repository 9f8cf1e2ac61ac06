"""Check single options: one ValueError that says what was expected and what was given."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable

from ckcnn.checks.hints import closest


def check_choice(name: str, value: str, choices: Iterable[str]) -> None:
    """`value` must be one of the `choices`."""
    known = list(choices)
    if value not in known:
        close = closest(str(value), known)
        hint = f"; did you mean {close}?" if close else ""
        raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}{hint}")


def check_count(name: str, value: int, least: int = 1) -> None:
    """`value` must be a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")


def check_counts(**counts: int) -> None:
    """Each count must be a whole number of at least 1."""
    for name, count in counts.items():
        check_count(name, count)


def check_fraction(name: str, value: float) -> None:
    """`value` must lie in [0, 1)."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise ValueError(f"{name} must lie in [0, 1), got {value!r}; it is a fraction, so write 0.3 for 30 %")


def check_not_negative(name: str, value: float) -> None:
    """`value` must be a finite number that is not below zero."""
    if not is_number(value) or not 0 <= value < math.inf:
        raise ValueError(f"{name} must be 0 or a positive number, got {value!r}")


def is_number(value: object) -> bool:
    """Return whether a value is a real number, which neither a truth value nor nothing is."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
