"""Charts that compare runs: the metric against the sampling rate and the dropped fraction; and searches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from ckcnn.formatting import in_percent
from ckcnn.report.charts import Chart, Line, chart
from ckcnn.results import Run, Search
from ckcnn.results.searches import OMEGA_0


class Comparison(NamedTuple):
    """The charts of one benchmark."""

    title: str
    charts: list[Chart]


def comparisons(runs: Sequence[Run]) -> list[Comparison]:
    """For each benchmark what was tested at several sampling rates, or with several dropped fractions."""
    benchmarks = defaultdict(list)
    for run in runs:
        benchmarks[run.benchmark].append(run)
    made = [Comparison(name, _drawn(by_rate(group), by_drop(group))) for name, group in benchmarks.items()]
    return [comparison for comparison in made if comparison.charts]


def by_rate(runs: Sequence[Run]) -> Chart | None:
    """One line for each run that was tested at several rates, the newest run first."""
    lines = []
    for run in reversed(runs):
        drop_rate = run.setting("data.drop_rate", 0.0)
        trained = float(run.setting("data.train_dt", 1))
        tests = [test for test in run.tests if test["data"]["drop_rate"] == drop_rate]
        scores = {}
        for test in reversed(tests):  # the newest last, so that it counts
            scores[trained * test["data"]["dt"]["test"]] = test["metrics"].get(f"test/{run.metric}")
        known = sorted((step, score) for step, score in scores.items() if score is not None)
        if len(known) > 1:
            name = run.name if len({other.preset for other in runs}) > 1 else run.folder.path.name
            lines.append(Line(name + _circumstances(trained, drop_rate), known, "both"))
    if not lines:
        return None
    ticks = [(step, _rate(step)) for step in sorted({step for line in lines for step, _ in line.points})]
    title = f"{runs[-1].metric} against the sampling rate of the test"
    return chart(title, "sampling rate", lines, percent=_in_percent(runs), log_x=True, x_ticks=ticks)


def by_drop(runs: Sequence[Run]) -> Chart | None:
    """The runs of one model with different dropped fractions, and the paper's results for them."""
    groups: dict[tuple[str, str], dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    paper: dict[float, float] = {}
    for run in runs:
        for test in run.tests:
            score, drop_rate = test["metrics"].get(f"test/{run.metric}"), test["data"]["drop_rate"]
            if score is None or test["data"]["dt"]["test"] != 1 or float(run.setting("data.train_dt", 1)) != 1:
                continue
            groups[run.model, str(test["data"].get("missing", "mask"))][drop_rate].append(score)
            if run.paper is not None and test is run.test:
                paper[drop_rate] = run.paper
    whole = {model: scores[0.0] for (model, _), scores in groups.items() if 0.0 in scores}
    for (model, _), scores in groups.items():  # without gaps it does not matter how they would be represented
        if model in whole:
            scores[0.0] = whole[model]
    lines = [
        _mean_line(model if how == "mask" else f"{model}, {how}", scores)
        for (model, how), scores in groups.items()
        if len(scores) > 1
    ]
    if lines and paper:
        lines.append(Line("paper", sorted(paper.items()), "rings"))
    title = f"{runs[-1].metric} against the dropped fraction"
    return chart(title, "fraction of the samples that was dropped", lines, percent=_in_percent(runs))


def omega_0(search: Search) -> Chart | None:
    """The metric of each trial against omega_0."""
    looks = {"complete": "dots", "pruned": "rings"}
    lines = [Line(f"{state} trials", search.points(state), look) for state, look in looks.items()]
    best = search.ranked[0].get(OMEGA_0) if search.ranked else None
    mark = best if isinstance(best, float) and best > 0 else None
    percent = in_percent(search.monitor)
    title = f"{search.monitor} against omega_0"
    return chart(title, "omega_0", lines, percent=percent, log_x=True, mark=mark, mark_name="best trial")


def _mean_line(name: str, scores: dict[float, list[float]]) -> Line:
    means = sorted((drop_rate, sum(values) / len(values)) for drop_rate, values in scores.items())
    several = ", mean of runs" if any(len(values) > 1 for values in scores.values()) else ""
    return Line(name + several, means, "both")


def _circumstances(trained: float, drop_rate: float) -> str:
    at = f", trained at {_rate(trained)}" if trained != 1 else ""
    return at + (f", {drop_rate:.0%} dropped" if drop_rate else "")


def _rate(step: float) -> str:
    """The sampling rate as a fraction of the full one: every second sample is half the rate."""
    return str(Fraction(1 / step).limit_denominator(64))


def _in_percent(runs: Sequence[Run]) -> bool:
    return all(in_percent(run.metric) for run in runs)


def _drawn(*charts: Chart | None) -> list[Chart]:
    return [chart for chart in charts if chart is not None]
