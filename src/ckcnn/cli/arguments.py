"""How commands of our own read their arguments."""

from __future__ import annotations

import argparse
import re
from typing import Any

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Parser(argparse.ArgumentParser):
    """Raises instead of leaving the process, so that `main` of the package reports all mistakes in the same way."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options})

    def error(self, message: str) -> Any:
        raise ValueError(f"{message}; see {self.prog} --help")


def seconds(text: str) -> float:
    """A duration in seconds.

    Example:
        >>> seconds("1h30m"), seconds("90s")
        (5400.0, 90.0)
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise argparse.ArgumentTypeError(f"must be a time such as 90s, 30m, 2h or 1h30m, got {text!r}")
    return float(sum(float(number) * _UNITS[unit] for number, unit in parts))
