"""Optimizers and schedules: one word for the common ones, and any class of torch or of your own."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

from torch.optim import Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import CyclicLR, LambdaLR, OneCycleLR

Schedule = Literal["plateau", "one_cycle", "cosine", "constant"]
FOR_ALL_STEPS = ("one_cycle", "cosine")  # schedules that are made for the number of steps of a run
OptimizerFactory = Callable[..., Optimizer]
ScheduleFactory = Callable[[Optimizer], Any]


class WarmUpCosine:
    """The factor of the learning rate at a step: a linear rise, then half a cosine down to zero.

    Args:
        steps: of the whole run.
        warm_up: fraction of them in which it rises.

    Example:
        >>> factor = WarmUpCosine(steps=10, warm_up=0.2)
        >>> [round(factor(step), 2) for step in (0, 1, 2, 6, 10)]
        [0.5, 1.0, 1.0, 0.5, 0.0]
    """

    def __init__(self, steps: int, warm_up: float) -> None:
        self.steps, self.rising = steps, round(steps * warm_up)

    def __call__(self, step: int) -> float:
        if step < self.rising:
            return (step + 1) / self.rising
        return (1 + math.cos(math.pi * min(1.0, (step - self.rising) / max(1, self.steps - self.rising)))) / 2


def cosine(optimizer: Optimizer, steps: int, warm_up: float) -> LambdaLR:
    """Return the schedule ``"cosine"`` for this many steps."""
    return LambdaLR(optimizer, WarmUpCosine(steps, warm_up))


def planned_steps(schedule: Any) -> int | None:
    """Return the number of steps that a stored schedule was made for, if it was made for a number of steps."""
    if not isinstance(schedule, Mapping):
        return None
    factors = schedule.get("lr_lambdas")
    first = factors[0] if isinstance(factors, list) and factors else None
    steps = first.get("steps") if isinstance(first, Mapping) else schedule.get("total_steps")
    return steps if isinstance(steps, int) and steps > 0 else None


def adam(groups: list[dict[str, Any]], learning_rate: float, decays: bool, fused: bool) -> Adam:
    """Return Adam, or AdamW if there is a weight decay; `groups` hold the decay of each of them."""
    kind = AdamW if decays else Adam
    return kind(groups, lr=learning_rate, weight_decay=0.0, fused=fused)


def build(factory: OptimizerFactory, groups: list[dict[str, Any]], learning_rate: float) -> Optimizer:
    """Return an optimizer of any class, which gets of the settings of `groups` those that it has.

    Raises:
        ValueError: if it refuses the parameters.
    """
    known = accepted(factory)
    kept = [{name: value for name, value in group.items() if name == "params" or name in known} for group in groups]
    rate = {"lr": learning_rate} if "lr" in known else {}
    try:
        return factory(kept, **rate)
    except (ValueError, TypeError) as error:
        raise ValueError(f"the optimizer {described(factory)['class_path']} refuses the parameters: {error}") from None


def accepted(factory: Callable[..., Any]) -> set[str]:
    """Return the names of the arguments of a class, or of a `functools.partial` of it."""
    return set(inspect.signature(factory.func if isinstance(factory, partial) else factory).parameters)


def keywords(factory: Callable[..., Any] | None) -> dict[str, Any]:
    """Return the arguments that a `functools.partial` gives."""
    return dict(factory.keywords) if isinstance(factory, partial) else {}


def described(factory: Callable[..., Any]) -> dict[str, Any]:
    """Return what a checkpoint says of a class and its arguments, in plain values."""
    kind: Any = factory.func if isinstance(factory, partial) else factory
    path = f"{kind.__module__}.{getattr(kind, '__qualname__', type(kind).__name__)}"
    return {"class_path": path, "init_args": {name: _plain(value) for name, value in keywords(factory).items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


def runs_each_step(schedule: Any) -> bool:
    """Return whether a schedule changes the learning rate at every step, not after every epoch."""
    warms_up = isinstance(schedule, LambdaLR) and isinstance(schedule.lr_lambdas[0], WarmUpCosine)
    return warms_up or isinstance(schedule, OneCycleLR | CyclicLR)


def check_steps(schedule: Any, steps: float) -> None:
    """A cycle of a user's own must be as long as the run, or torch ends the training when it is over.

    Args:
        schedule: any.
        steps: of the run; infinity without an end.

    Raises:
        ValueError: if it ends too early.
    """
    if isinstance(schedule, OneCycleLR) and steps > schedule.total_steps:
        raise ValueError(
            f"lr_scheduler OneCycleLR must last as long as the run, {steps} steps, got {schedule.total_steps}; "
            "set its total_steps, or use --model.schedule one_cycle, which counts them itself"
        )
