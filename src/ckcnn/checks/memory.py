"""How much memory there is, and what to say to a setting that would need more."""

from __future__ import annotations

import contextlib
import os
from functools import cache
from pathlib import Path


def in_words(size: float) -> str:
    """Return a number of bytes for people.

    Example:
        >>> in_words(1536), in_words(2.5e9), in_words(10**40)
        ('1.54 kB', '2.5 GB', '1e+19 ZB')
    """
    value, units = float(size), ["B", "kB", "MB", "GB", "TB", "PB", "EB", "ZB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.3g} {units[0]}"


@cache
def total() -> float:
    """Return the bytes of memory that this process can have: those of the machine, or of its container."""
    limits = [float("inf")]
    with contextlib.suppress(ValueError, OSError, AttributeError):  # a system that does not say it
        limits.append(float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")))
    with contextlib.suppress(ValueError, OSError):  # no container, or no limit
        limits.append(float(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(limits)


def check_room(what: str, size: float, advice: str) -> None:
    """Refuse what would not fit, before it is tried.

    Args:
        what: would take the memory.
        size: at least so many bytes.
        advice: what to do.

    Raises:
        ValueError: if there is less.
    """
    if size > total():
        raise ValueError(f"{what} would take {in_words(size)} of memory, there are {in_words(total())}; {advice}")
