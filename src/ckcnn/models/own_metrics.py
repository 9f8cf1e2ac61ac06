"""Metrics and losses that a user brings: their names, their direction, and what they are given."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from torch import OutOfMemoryError, Tensor, nn
from torchmetrics import Metric, MetricCollection

from ckcnn.datamodules.sequences import SPLITS
from ckcnn.tasks import Mode, Task

OwnMetrics = Metric | list[Metric] | dict[str, Metric] | None


def of_splits(given: OwnMetrics, task: Task) -> nn.ModuleList:
    """Return a collection for each split; those of different splits share nothing.

    Raises:
        ValueError: if a metric is called as one that the task has, or two have the same name.
    """
    named = _named(given)
    if odd := [name for name in named if not re.fullmatch(r"[\w -]+", str(name))]:
        raise ValueError(f"the name of a metric must be of letters, digits, - and _, got {odd[0]!r}")
    if taken := [name for name in named if name in (*task.metrics(2), "loss")]:
        raise ValueError(f"the task has a metric {taken[0]} of its own; give yours another name")
    return nn.ModuleList(
        MetricCollection(
            {name: copy.deepcopy(metric) for name, metric in named.items()}, prefix=f"{split}/", compute_groups=False
        )
        for split in SPLITS
    )


def _named(given: OwnMetrics) -> dict[str, Metric]:
    if isinstance(given, Mapping):
        return dict(given)
    metrics: Sequence[Metric] = [] if given is None else given if isinstance(given, list) else [given]
    names = [type(metric).__name__ for metric in metrics]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"metrics has two of the class {twice[0]}; give them names, {{first: ..., second: ...}}")
    return dict(zip(names, metrics, strict=True))


def monitored(task: Task, own: nn.ModuleList, monitor: str | None, mode: Mode | None) -> tuple[str, Mode]:
    """Return the metric that chooses the best epoch, without its split, and whether a good value is large or small.

    Raises:
        ValueError: if there is no such metric, or nobody says which values of it are good.
    """
    if mode not in (None, "max", "min"):
        raise ValueError(f"mode must be max or min, got {mode!r}")
    collection = own[0]
    assert isinstance(collection, MetricCollection)
    given = {name.partition("/")[2]: metric for name, metric in collection.items()}
    known = {**task.metrics(2), **given}
    name = monitor or task.monitor
    if name == "loss":
        return name, mode or "min"
    if name not in known:
        raise ValueError(
            f"monitor must be one of {', '.join([*known, 'loss'])}, got {name!r}; a metric of your own is given with it"
        )
    if name == task.monitor:
        return name, mode or task.mode
    better = known[name].higher_is_better
    if mode is None and better is None:
        raise ValueError(f"{name} does not say whether a good value is large or small; set mode to max or min")
    return name, mode or ("max" if better else "min")


def for_loss(task: Task, answers: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return outputs and targets as a loss of torch expects them; that of two classes takes both as numbers."""
    answers = answers[:, 0] if task.one_logit else answers
    return answers, target.to(answers) if task.one_logit or task.many_labels else target


def for_metric(task: Task, answers: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return outputs and targets as torchmetrics expects them; it would guess from their range what scores are."""
    if task.one_logit:
        return answers[:, 0].sigmoid(), target
    return (answers.sigmoid(), target) if task.many_labels else (answers, target)


@contextmanager
def refusing(what: str, answers: Tensor, target: Tensor) -> Iterator[None]:
    """Say in one sentence that a loss or a metric cannot be computed, whatever it raises."""
    try:
        yield
    except OutOfMemoryError:
        raise
    except (TypeError, ValueError, RuntimeError, IndexError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ValueError(
            f"{what} must be computed from answers of shape {tuple(answers.shape)} and targets of shape "
            f"{tuple(target.shape)}, and cannot: {reason}; give it other arguments, or choose another"
        ) from error


def computed(collection: MetricCollection) -> dict[str, Tensor]:
    """Return the values of metrics.

    Raises:
        ValueError: if one of them is no single number.
    """
    found = dict(collection.compute())
    for name, value in found.items():
        if not isinstance(value, Tensor) or value.numel() != 1:
            shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(f"the metric {name} must be one number, got {shape}; set its average, or choose another")
    return found
