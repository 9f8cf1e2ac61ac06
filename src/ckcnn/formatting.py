"""How numbers are written for people: metrics, differences, settings, times."""

from __future__ import annotations

import math
from typing import Any


def in_percent(name: str | None) -> bool:
    """Whether people write a metric as a percentage."""
    return name is not None and name.endswith("accuracy")


def readable(name: str, value: float | None) -> str:
    """A metric as people write it.

    Example:
        >>> readable("test/accuracy", 0.98)
        '98.00 %'
        >>> readable("test/accuracy", 1 - 1 / 120_000)  # nearly all is not all
        '99.9992 %'
    """
    if value is None:
        return "-"
    if not (in_percent(name) and math.isfinite(value)):
        return f"{value:.4g}"
    points = 100 * value
    nearly_all = points < 100 <= round(points, 2)
    return f"{points:.{math.ceil(-math.log10(100 - points)) if nearly_all else 2}f} %"


def difference(name: str, ours: float, theirs: float) -> str:
    """Ours minus theirs: points of a percentage, otherwise a plain number.

    Example:
        >>> difference("accuracy", 0.9907, 0.9953), difference("auroc", 0.918, 0.895)
        ('-0.46', '+0.023')
        >>> difference("accuracy", 0.99068, 0.9907)  # equal, as far as it is shown
        '0.00'
    """
    text = f"{100 * (ours - theirs):+.2f}" if in_percent(name) else f"{ours - theirs:+.3g}"
    return text if float(text) else text[1:]


def short(value: Any) -> str:
    """A setting, in few letters.

    Example:
        >>> short(61.0548), short(30), short(None)
        ('61.05', '30', '')
    """
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)


def duration(seconds: float) -> str:
    """A duration, in two units.

    Example:
        >>> duration(38.4), duration(8 * 60 + 35), duration(7500)
        ('38 s', '8 min 35 s', '2 h 5 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def roughly(seconds: float) -> str:
    """An estimated duration.

    Example:
        >>> roughly(45), roughly(600), roughly(9000), roughly(600_000)
        ('45 s', '10 min', '2 h 30 min', '7 days')
    """
    if seconds > 2 * 86400:
        return f"{round(seconds / 86400)} days"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def count(number: int, what: str) -> str:
    """A number of things.

    Example:
        >>> count(1, "run"), count(2, "search"), count(2, "epoch")
        ('1 run', '2 searches', '2 epochs')
    """
    ending = "" if number == 1 else "es" if what == "search" else "s"
    return f"{number} {what}{ending}"
