"""A case of the campaign, and how values are drawn for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis.strategies import SearchStrategy

Expected = Literal["refused", "fine", "either"]
_ROUNDS = 20  # of drawing, where a strategy has few values


@dataclass(frozen=True)
class Case:
    """One input, as plain data.

    Attributes:
        kind: the module that it is of.
        recipe: what is to be arranged.
        expect: how the command must end; ``either`` is a clean refusal or a clean success.
    """

    kind: str
    recipe: Any
    expect: Expected = "either"


@dataclass(frozen=True)
class Kind:
    """A kind of input.

    Attributes:
        name: for the table.
        draw: makes so many recipes, with what is expected of each, from a seed.
        arrange: writes a recipe into an empty folder and returns the arguments of ``ckcnn``; it may use the material.
        run: what takes the arguments, where it is not ``ckcnn``; it returns an exit code.
        check: looks at what a command left, and returns what is wrong with it.
    """

    name: str
    draw: Callable[[int, int], list[tuple[Any, Expected]]]
    arrange: Callable[[Any, Path, Path], list[str]]
    run: Callable[[list[str]], int] | None = None
    check: Callable[[Any, Path, int, str], str] = lambda recipe, folder, code, output: ""


def drawn(strategy: SearchStrategy[Any], seed: int, count: int) -> list[Any]:
    """Return values of a strategy: the same ones for a seed, as long as the same modules are loaded.

    Hypothesis also draws constants that it finds in them.
    """
    found: list[Any] = []
    for turn in range(_ROUNDS):
        if len(found) >= count:
            break

        @seeded(seed * 1_000 + turn)
        @settings(
            max_examples=count - len(found),
            phases=[Phase.generate],
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(strategy)
        def collect(value: Any) -> None:
            found.append(value)

        collect()
    return found[:count]
