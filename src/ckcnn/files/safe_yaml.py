"""YAML from files that nobody vouches for: limits are checked before anything is built from the text.

A few hundred bytes of aliases can stand for more values than any memory holds, and a deep text exhausts the stack of
whatever walks through it. So the events of the parser, which need no memory to speak of, are counted first.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

MOST_BYTES = 1 << 20
MOST_DEPTH = 50
MOST_VALUES = 50_000  # aliases counted as what they stand for
_EVENTS = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class NotYAMLError(ValueError):
    """A text that is not YAML; the message says where."""


def read(path: Path) -> Any:
    """Return what a YAML file holds.

    Raises:
        ValueError: if it is not YAML, or too large; the message names the file.
        OSError: if it cannot be read.
    """
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)  # no more than that, however large it is
    if len(content) > MOST_BYTES:
        raise ValueError(f"{path} must have at most {MOST_BYTES:,} bytes, got more; settings are never that long")
    try:
        return parse(content.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError as error:
        raise NotYAMLError(f"{path} must be a text in UTF-8, got another byte at place {error.start}") from None


def parse(text: str, name: str) -> Any:
    """Return what a text in YAML stands for, as plain values.

    Args:
        text: to read.
        name: where it is from, for messages.

    Raises:
        ValueError: if it is not YAML, or stands for more than the limits allow.
    """
    check(text, name)
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise NotYAMLError(_not_yaml(name, error)) from None
    except (ValueError, TypeError) as error:  # a date with month 13, a list as a key
        raise NotYAMLError(
            f"{name} is not valid YAML: a value in it cannot be read ({error}); put it in quotes"
        ) from None


def check(text: str, name: str) -> None:
    """Check the limits.

    Raises:
        ValueError: if the text is beyond one of them, refers to itself, or has a key twice.
    """
    if len(text) > MOST_BYTES:
        raise ValueError(f"{name} must have at most {MOST_BYTES:,} characters, got {len(text):,}")
    count = _Count(name)
    try:
        for event in yaml.parse(text, Loader=_EVENTS):
            count.see(event)
    except yaml.YAMLError as error:
        raise NotYAMLError(_not_yaml(name, error)) from None


def _not_yaml(name: str, error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    where = f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    problem = " ".join(str(getattr(error, "problem", None) or "it has characters that no text has").split())
    return f"{name} is not valid YAML{where}: {problem}; write settings such as 'model: CKCNN'"


@dataclass
class _Open:
    """A mapping or a list that has not ended.

    Attributes:
        anchor: its name, if it has one.
        values: in it so far, itself included.
        keys: of a mapping; None for a list.
        at_key: whether the next value is a key.
    """

    anchor: str | None
    values: int
    keys: set[str] | None
    at_key: bool = True


class _Count:
    """Counts what a text stands for, event by event."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.open: list[_Open] = []
        self.sizes: dict[str, int] = {}

    def see(self, event: yaml.Event) -> None:
        """Take note of one event."""
        if isinstance(event, yaml.ScalarEvent):
            self._key(event.value)
            self._add(1, event.anchor)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event.anchor)
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(self.open) >= MOST_DEPTH:
                raise ValueError(
                    f"{self.name} must be nested at most {MOST_DEPTH} levels deep; settings are never deeper"
                )
            self.open.append(_Open(event.anchor, 1, set() if isinstance(event, yaml.MappingStartEvent) else None))
        elif isinstance(event, yaml.CollectionEndEvent):
            done = self.open.pop()
            self._add(done.values, done.anchor)

    def _alias(self, anchor: str) -> None:
        if any(one.anchor == anchor for one in self.open):
            raise ValueError(
                f"{self.name} refers to itself: *{anchor} stands within what &{anchor} names; write it out"
            )
        self._add(self.sizes.get(anchor, 1), None)

    def _add(self, values: int, anchor: str | None) -> None:
        if anchor is not None:
            self.sizes[anchor] = values
        if values > MOST_VALUES or (self.open and self.open[-1].values + values > MOST_VALUES):
            raise ValueError(
                f"{self.name} must stand for at most {MOST_VALUES:,} values, got more; leave out its aliases"
            )
        if self.open:
            self.open[-1].values += values
            self.open[-1].at_key = not self.open[-1].at_key

    def _key(self, text: str) -> None:
        if not self.open or self.open[-1].keys is None or not self.open[-1].at_key:
            return
        if text in self.open[-1].keys and text != "<<":
            raise ValueError(f"{self.name} has the key {text!r} twice in one place; leave one of them out")
        self.open[-1].keys.add(text)
