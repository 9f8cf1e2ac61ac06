"""What the page shows of one run: a row of the table, and the charts below it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from ckcnn.formatting import difference, duration, in_percent, readable, short
from ckcnn.report.charts import Chart, Line, chart
from ckcnn.report.confusion import Matrix, matrix
from ckcnn.results import Run
from ckcnn.results.learned import LearnedKernels, NoContinuousKernelsError, kernels
from ckcnn.runs.ranking import is_as_good

_FACTS = ("omega_0", "kernel", "learning_rate", "schedule", "dropout", "hidden_channels", "num_blocks")


@dataclass(frozen=True)
class Column:
    """A column of the table: its text for people, and the value that it is sorted by."""

    text: str
    value: float | str | None = None
    mood: str = ""


@dataclass(frozen=True)
class RunView:
    """Everything about a run that is on the page.

    Attributes:
        run: itself.
        columns: its row of the table.
        facts: settings and circumstances.
        curves: the metrics over the epochs.
        kernels: of each layer.
        confusion: of its test.
        notes: what there is to say about what is not there.
    """

    run: Run
    columns: dict[str, Column]
    facts: dict[str, str]
    curves: list[Chart]
    kernels: list[Chart] = field(default_factory=list)
    confusion: Matrix | None = None
    notes: list[str] = field(default_factory=list)


def view(run: Run) -> RunView:
    """Collect what the page shows of a run; what cannot be read is named in the notes."""
    notes: list[str] = []
    net = _or_note(run.network, notes)
    size = sum(parameter.numel() for parameter in net.parameters()) if net else (run.test or {}).get("parameters")
    drawn = _kernel_charts(kernels(net)) if net else []
    confusion = _or_note(lambda: matrix(run.test or {}), notes)
    if run.test is None:
        notes.append(f"not tested yet: ckcnn test --ckpt_path {run.folder.path}")
    elif run.test.get("confusion") is None and run.test["data"].get("task") in ("classification", "binary"):
        notes.append("tested by an earlier version: test it again to see the confusion matrix")
    return RunView(
        run=run,
        columns=_columns(run, size),
        facts=_facts(run),
        curves=_curves(run),
        kernels=drawn,
        confusion=confusion,
        notes=notes,
    )


def _or_note(make: Callable[[], Any], notes: list[str]) -> Any:
    try:
        return make()
    except NoContinuousKernelsError:
        return None
    except ValueError as error:
        notes.append(str(error))
        return None


def _columns(run: Run, size: int | None) -> dict[str, Column]:
    metric, score, paper, best = run.metric or "", run.score, run.paper, run.best
    validation = best[f"val/{metric}"] if best else None
    gap = Column("-")
    if score is not None and paper is not None:
        text = difference(metric, score, paper)
        mood = ""
        if float(text):
            mood = "good" if is_as_good(score, paper, run.mode) else "bad"
        gap = Column(text, score - paper, mood)
    test = run.test or {}
    return {
        "metric": Column(metric or "-", metric),
        "test": Column(readable(metric, score), score),
        "paper": Column(readable(metric, paper), paper),
        "difference": gap,
        "validation": Column(readable(metric, validation), validation),
        "epochs": Column(str(len(run.epochs)), len(run.epochs)),
        "time": Column(duration(run.seconds) if run.epochs else "-", run.seconds),
        "model": Column(run.model, run.model),
        "parameters": Column(f"{size:,}" if size else "-", size),
        "tested on": Column(str(test.get("machine", "-")), str(test.get("machine", ""))),
    }


def _facts(run: Run) -> dict[str, str]:
    test = run.test or {}
    facts = {
        **{name: run.setting(f"model.{name}") for name in _FACTS},
        "seed": run.setting("seed_everything"),
        "drop_rate": run.setting("data.drop_rate"),
        "best epoch": int(run.best["epoch"]) if run.best else None,
        "folder": run.folder.path,
        "tested": test.get("time"),
        "commit": str(test.get("git_commit") or "")[:12] or None,
        **{name: readable(name, value) for name, value in test.get("metrics", {}).items()},
    }
    return {name: short(value) for name, value in facts.items() if value is not None}


def _curves(run: Run) -> list[Chart]:
    metrics = dict.fromkeys(["loss", run.metric]) if run.metric else {"loss": None}
    best = run.best["epoch"] if run.best else None
    charts = []
    for metric in metrics:
        lines = []
        for split in ("val", "train"):
            name = f"{split}/{metric}"
            points = [(row["epoch"], row[name]) for row in run.epochs if name in row]
            lines.append(Line({"val": "validation", "train": "training"}[split], points))
        charts.append(chart(str(metric), "epoch", lines, percent=in_percent(metric), mark=best, mark_name="best epoch"))
    return [made for made in charts if made is not None]


def _kernel_charts(learned: dict[str, LearnedKernels]) -> list[Chart]:
    charts = [
        chart(place, "lag", [_line(name, layer.lags, kernel) for name, kernel in layer.strongest.items()])
        for place, layer in learned.items()
    ]
    spreads = [_line(place, layer.lags, layer.spread) for place, layer in learned.items()]
    charts.append(chart("size of all kernels (root of the mean square)", "lag", spreads))
    return [made for made in charts if made is not None]


def _line(name: str, lags: Tensor, values: Tensor) -> Line:
    return Line(name, list(zip(lags.tolist(), values.tolist(), strict=True)))
