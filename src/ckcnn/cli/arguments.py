"""How commands of our own read their arguments."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from typing import Any

from ckcnn.checks.hints import closest, in_short

_KINDS = {"int": "a whole number", "float": "a number"}
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Parser(argparse.ArgumentParser):
    """Raises instead of leaving the process, so that `main` of the package reports all mistakes in the same way."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options})

    def error(self, message: str) -> Any:
        raise ValueError(f"{self._explained(message)}; see {self.prog} --help")

    def _explained(self, message: str) -> str:
        """What argparse says, as one sentence with what was expected and what was given."""
        if unknown := re.fullmatch(r"unrecognized arguments: (\S+).*", message, re.DOTALL):
            word = unknown[1].partition("=")[0]
            if not word.startswith("-"):
                return f"{in_short(word)} is not expected here"
            close = closest(word, re.findall(r"--[\w.-]+", self.format_help()))
            return f"there is no option {word}{f' (did you mean {close}?)' if close else ''}"
        argument = re.fullmatch(r"argument (\S+?): (.*)", message, re.DOTALL)
        if argument is None:
            return message
        name, problem = argument.groups()
        if value := re.fullmatch(r"invalid (\w+) value: (.*)", problem, re.DOTALL):
            return f"{name} must be {_KINDS.get(value[1], f'a value of the kind {value[1]}')}, got {value[2]}"
        if choice := re.fullmatch(r"invalid choice: (.*) \(choose from (.*)\)", problem, re.DOTALL):
            return f"{name} must be one of {choice[2]}, got {choice[1]}"
        return f"{name} {problem}" if problem.startswith("must ") else f"{name}: {problem}"


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


def named_class(flag: str, path: str) -> Any:
    """Return what a user names by its path, such as ``package.YourNet``, also in the working folder.

    Raises:
        ValueError: if there is none.
    """
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # last, so that it hides no installed package
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        reason = str(error)[:1].lower() + str(error)[1:]
        raise ValueError(f"{flag} {path}: {reason}; a class of your own lies in the working folder") from None
