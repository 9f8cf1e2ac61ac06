"""The metric that a run is ranked by: recorded in the run, or inferred for earlier versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ckcnn.runs.ranking import Mode


def told_metric(config: Mapping[str, Any]) -> tuple[str, Mode] | None:
    """Return the metric and its direction that the configuration of a run names, if it does."""
    told = config.get("monitor")
    if isinstance(told, Mapping) and isinstance(told.get("metric"), str) and told.get("mode") in ("max", "min"):
        return told["metric"], told["mode"]
    return None


def known_metric(names: Iterable[str]) -> str | None:
    """Return the metric, without the split, that says how good a run with these metrics is.

    Example:
        >>> known_metric(["val/accuracy", "val/auroc", "val/loss"])
        'auroc'
    """
    from ckcnn.tasks import MONITORED  # torch takes its time

    bare = {name.partition("/")[2] for name in names}
    return next((metric for metric in MONITORED if metric in bare), None)


def known_mode(name: str | None) -> Mode:
    """Return whether larger or smaller is better; unknown metrics count as larger is better."""
    from ckcnn.tasks import MONITORED

    return MONITORED.get((name or "").rpartition("/")[2], "max")
