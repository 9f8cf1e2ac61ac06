"""Tables that compare the networks that were trained on the same data."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from ckcnn.formatting import duration, in_percent, readable
from ckcnn.report.runs import RunView
from ckcnn.report.tables import Grid
from ckcnn.runs.ranking import rank

_PROBLEM = {"train_dt": 1, "drop_rate": 0.0}  # settings that make the data harder, with their defaults


class NetworkTable(NamedTuple):
    """The networks of one benchmark, the best first."""

    title: str
    grid: Grid


def network_tables(views: Sequence[RunView]) -> list[NetworkTable]:
    """Return a table for each benchmark on which at least two networks were tested."""
    problems: dict[tuple[str, ...], dict[tuple[str, str], list[RunView]]] = defaultdict(lambda: defaultdict(list))
    for view in views:
        run = view.run
        if run.metric is not None and run.score is not None:
            data = {name: run.setting(f"data.{name}", default) for name, default in _PROBLEM.items()}
            harder = [f"{name} {value:g}" for name, value in data.items() if value != _PROBLEM[name]]
            harder += [f"missing {run.test['data'].get('missing', 'mask')}"] if data["drop_rate"] and run.test else []
            problems[run.benchmark, *harder][run.model, view.columns["parameters"].text].append(view)
    return [NetworkTable(", ".join(problem), _grid(groups)) for problem, groups in problems.items() if len(groups) > 1]


def _grid(groups: dict[tuple[str, str], list[RunView]]) -> Grid:
    first = next(iter(groups.values()))[0].run
    metric = first.metric or ""
    means = {key: statistics.fmean(_scores(group)) for key, group in groups.items()}
    ordered = sorted(groups, key=lambda key: rank(means[key], 0.0, first.mode))
    head = ["model", "parameters", "runs", f"test {metric}", "time of an epoch"]
    return Grid(head, [[*key, str(len(groups[key])), *_measured(groups[key], metric)] for key in ordered])


def _measured(group: Sequence[RunView], metric: str) -> tuple[str, str]:
    """Return the mean result with its standard deviation, if there are several runs, and the median time."""
    scores = _scores(group)
    test = readable(metric, statistics.fmean(scores))
    if len(scores) > 1:
        spread = statistics.stdev(scores)
        test += f" ± {100 * spread:.2f}" if in_percent(metric) else f" ± {spread:.2g}"
    seconds = [epoch["seconds"] for view in group for epoch in view.run.epochs if "seconds" in epoch]
    return test, duration(statistics.median(seconds)) if seconds else "-"


def _scores(group: Sequence[RunView]) -> list[float]:
    return [view.run.score for view in group if view.run.score is not None]
