"""From values to positions on a canvas, and the round values to write along it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Ticks = Sequence[tuple[float, str]]


@dataclass(frozen=True)
class Axis:
    """From values to positions on the canvas."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    @classmethod
    def over(cls, values: Iterable[float], start: float, end: float, log: bool = False, margin: float = 0.0) -> Axis:
        """An axis that holds all values."""
        scaled = [math.log10(value) if log else value for value in values]
        low, high = min(scaled), max(scaled)
        spare = (high - low) * margin or (0.0 if high > low else abs(high) * 0.05 or 1.0)
        return cls(low - spare, high + spare, start, end, log)

    def __call__(self, value: float) -> float:
        scaled = math.log10(value) if self.log else value
        return round(self.start + (scaled - self.low) / (self.high - self.low) * (self.end - self.start), 1)

    def ticks(self, percent: bool = False, count: int = 5) -> Ticks:
        """A few round values, and how they are written."""
        values = _log_values(self.low, self.high) if self.log else _round_values(self.low, self.high, count)
        step = None if self.log or len(values) < 2 else values[1] - values[0]
        return [(self(value), _write(value, step, percent)) for value in values]


def _round_values(low: float, high: float, count: int) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten, between two values."""
    power = 10 ** math.floor(math.log10((high - low) / count))
    step = next(power * factor for factor in (1, 2, 5, 10) if (high - low) / (power * factor) <= count)
    return [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _log_values(low: float, high: float) -> list[float]:
    """Powers of ten between two exponents; where there are few, multiples of them, too."""
    every = max(1, round((high - low) / 4))
    powers = range(math.floor(low), math.ceil(high) + 1)
    for factors in ((1,), (1, 3), (1, 2, 5)):
        chosen = [factor * 10.0**power for power in powers if power % every == 0 for factor in factors]
        values = [value for value in chosen if low <= math.log10(value) + 1e-9 and math.log10(value) - 1e-9 <= high]
        if len(values) >= 3:
            return values
    return _round_values(10**low, 10**high, 5)


def _write(value: float, step: float | None, percent: bool) -> str:
    """A value with as many digits as the step to the next one needs."""
    factor = 100 if percent else 1
    if step is None or (value and not 1e-3 <= abs(value) < 1e5):
        text = f"{factor * value:.3g}"
    else:
        text = f"{factor * value:.{max(0, -math.floor(math.log10(factor * step) + 1e-9))}f}"
    return f"{text} %" if percent else text
