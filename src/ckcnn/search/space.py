"""The search space: which settings a search changes, and their ranges."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import Trial

from ckcnn.presets import plain_value
from ckcnn.results.searches import OMEGA_0

Space = Mapping[str, BaseDistribution]
_FORMS = "KEY=LOW:HIGH, KEY=LOW:HIGH:log or KEY=A,B,C"


def parse(entries: Sequence[str], omega_0: tuple[float, float] | None) -> dict[str, BaseDistribution]:
    """The space of the entries of ``--space``, and of an interval for omega_0 that they do not name themselves.

    Raises:
        ValueError: for an entry that is none.
    """
    space: dict[str, BaseDistribution] = {}
    if omega_0 is not None:
        space[OMEGA_0] = _interval(OMEGA_0, *omega_0, log=True)
    for entry in entries:
        key, sign, values = entry.partition("=")
        key = key.strip().removeprefix("--")
        if not (key and sign and values.strip()):
            raise ValueError(f"--space must be {_FORMS}, got {entry!r}")
        space[key] = _distribution(key, values)
    return space


def _distribution(key: str, values: str) -> BaseDistribution:
    if ":" not in values:
        return CategoricalDistribution([plain_value(value) for value in values.split(",")])
    low, high, *rest = values.split(":")
    if rest not in ([], ["log"]):
        raise ValueError(f"--space must be {_FORMS}, got '{key}={values}'")
    return _interval(key, _number(key, low), _number(key, high), log=bool(rest))


def _interval(key: str, low: float, high: float, log: bool) -> BaseDistribution:
    if low > high:
        raise ValueError(f"the interval of {key} must be LOW:HIGH, got {low:g}:{high:g}; {low:g} is above {high:g}")
    if log and low <= 0:
        raise ValueError(f"the interval of {key} is searched in powers, so it must begin above 0, got {low:g}")
    if isinstance(low, int) and isinstance(high, int) and key != OMEGA_0:
        return IntDistribution(low, high, log=log)
    return FloatDistribution(float(low), float(high), log=log)


def _number(key: str, text: str) -> float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"the interval of {key} must have a number at either end, got {text!r}")
    return value


def suggest(trial: Trial, space: Space) -> dict[str, Any]:
    """The values of a trial."""
    values: dict[str, Any] = {}
    for key, kind in space.items():
        if isinstance(kind, FloatDistribution):
            values[key] = trial.suggest_float(key, kind.low, kind.high, log=kind.log)
        elif isinstance(kind, IntDistribution):
            values[key] = trial.suggest_int(key, kind.low, kind.high, log=kind.log)
        elif isinstance(kind, CategoricalDistribution):
            values[key] = trial.suggest_categorical(key, kind.choices)
    return values


def flags(values: Mapping[str, Any]) -> list[str]:
    """Values as the options of ``ckcnn fit``."""
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    return [f"--{key}={text}" for key, text in texts.items()]


def corners(space: Space) -> list[dict[str, Any]]:
    """Return settings that cover every bound and every choice, to be checked before training."""
    ends = {key: _ends(kind) for key, kind in space.items()}
    count = max((len(values) for values in ends.values()), default=0)
    return [{key: values[min(index, len(values) - 1)] for key, values in ends.items()} for index in range(count)]


def _ends(kind: BaseDistribution) -> list[Any]:
    if isinstance(kind, CategoricalDistribution):
        return list(kind.choices)
    return [kind.low, kind.high]  # type: ignore[attr-defined]


def grid(space: Space, points: int) -> dict[str, list[Any]]:
    """Return a grid: all choices, and evenly spaced points of each interval, at most `points` settings."""
    intervals = [key for key, kind in space.items() if not isinstance(kind, CategoricalDistribution)]
    choices = math.prod(len(_ends(kind)) for key, kind in space.items() if key not in intervals)
    each = max(2, math.floor((points / choices) ** (1 / max(1, len(intervals))) + 1e-9))
    return {key: _points(kind, each) if key in intervals else _ends(kind) for key, kind in space.items()}


def _points(kind: Any, count: int) -> list[float]:
    low, high = (math.log(kind.low), math.log(kind.high)) if kind.log else (kind.low, kind.high)
    values = [low + (high - low) * index / (count - 1) for index in range(count)]
    values = [min(max(math.exp(value) if kind.log else value, kind.low), kind.high) for value in values]
    return sorted({round(value) for value in values} if isinstance(kind, IntDistribution) else set(values))
