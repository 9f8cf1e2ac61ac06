"""Result tables as Markdown and CSV: the paper's results, ours, and the runs behind them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ckcnn.files import replacing
from ckcnn.formatting import difference, duration, in_percent, readable
from ckcnn.reproduce.description import Cell, Table
from ckcnn.reproduce.jobs import Job, result_of
from ckcnn.results import Run
from ckcnn.runs import metrics_table
from ckcnn.runs.ranking import is_as_good
from ckcnn.tasks import MONITORED

SOLVED = {"accuracy": 1.0, "mse": 1e-4}
_SOLVED = {"solved": "✓", "not solved": "✗"}


@dataclass(frozen=True)
class Figure:
    """The result of one run for a cell."""

    value: float
    seed: int
    epochs: int
    planned: int
    short: bool
    seconds: float
    folder: Path


def collect(table: Table, jobs: Sequence[Job]) -> list[tuple[Cell, list[Figure]]]:
    """Return the results of each cell and seed; of cells that were not requested, those with a run."""
    whole = table.whole()
    wanted = set(whole.trainings())
    runs = [(job, run) for job in jobs if job.training in wanted and (run := _readable(job)) is not None]
    short = {job.name: job.is_short(run) for job, run in runs}
    found: list[tuple[Cell, list[Figure]]] = []
    for cell in whole.cells:
        figures = []
        for job, run in runs:
            test = result_of(run, cell) if job.training == cell.training else None
            if test is not None and f"test/{cell.metric}" in test["metrics"]:
                work = (len(run.epochs), job.planned, short[job.name], run.seconds, run.folder.path)
                figures.append(Figure(test["metrics"][f"test/{cell.metric}"], job.seed, *work))
        if figures or cell in table.cells:
            found.append((cell, figures))
    return found


def _readable(job: Job) -> Run | None:
    """Return its run; another process may be writing its files at this moment."""
    try:
        return job.run()
    except ValueError:
        return None


def write(table: Table, jobs: Sequence[Job], folder: Path) -> list[Path]:
    """Write both files; return their names."""
    found = collect(table, jobs)
    paths = [folder / f"{table.name}.md", folder / f"{table.name}.csv"]
    with replacing(paths[0]) as file:
        file.write(markdown(table, found).encode())
    metrics_table.write(paths[1], rows(found))
    return paths


def rows(found: Sequence[tuple[Cell, Sequence[Figure]]]) -> list[dict[str, Any]]:
    """Return one row per cell and run, including cells without a run."""
    made = []
    for cell, figures in found:
        facts = {"row": cell.row, "column": cell.column, "metric": cell.metric, "paper": _paper(cell)}
        for figure in figures:
            gap = None if cell.paper is None else figure.value - cell.paper
            made.append({**facts, "ours": figure.value, "difference": gap, **_work(figure)})
        if not figures:
            made.append(facts)
    return made


def markdown(table: Table, found: Sequence[tuple[Cell, Sequence[Figure]]]) -> str:
    """The table as in the paper, a line of ours above a line of the paper's, and below it every run."""
    places = {(cell.row, cell.column): (cell, figures) for cell, figures in found}
    columns = list(dict.fromkeys(cell.column for cell, _ in found))
    lines = [f"# {table.title}", "", *([table.remark, ""] if table.remark else [])]
    lines += [_line(["", *columns]), _rule(len(columns) + 1)]
    for row in dict.fromkeys(cell.row for cell, _ in found):
        there = [places.get((row, column)) for column in columns]
        lines.append(_line([row, *(_ours(*place) if place else "" for place in there)]))
        if any(place and _paper(place[0]) != "-" for place in there):
            lines.append(_line([f"{row}, paper", *(_mark(place[0]) if place else "" for place in there)]))
    lines += ["", *_legend(found), _line(["", "", "paper", "ours", "difference", "seed", "epochs", "time", "run"])]
    lines.append(_rule(9))
    for cell, figures in found:
        for figure in figures:
            gap = "" if cell.paper is None else difference(cell.metric, figure.value, cell.paper)
            work = [f"{figure.epochs} of {figure.planned}{', short' if figure.short else ''}", duration(figure.seconds)]
            ours = readable(cell.metric, figure.value)
            lines.append(
                _line([cell.row, cell.column, _paper(cell), ours, gap, str(figure.seed), *work, f"`{figure.folder}`"])
            )
    return "\n".join(lines) + "\n"


def _ours(cell: Cell, figures: Sequence[Figure]) -> str:
    if not figures:
        return "-"
    values = [figure.value for figure in figures]
    mean = statistics.fmean(values)
    shown = f"{mean:.2g}" if cell.metric == "mse" else readable(cell.metric, mean)
    spread = f" ± {_spread(cell.metric, values)}" if len(values) > 1 else ""
    solved = f" {_verdict(cell.metric, values)}" if cell.solved is not None else ""
    return f"{shown}{spread}{solved}{' short' if any(figure.short for figure in figures) else ''}"


def _mark(cell: Cell) -> str:
    """Return the paper's result, formatted like ours."""
    return "-" if cell.solved is None and cell.paper is None else _SOLVED.get(_paper(cell), _paper(cell))


def _spread(metric: str, values: Sequence[float]) -> str:
    deviation = statistics.stdev(values)
    return f"{100 * deviation:.2f}" if in_percent(metric) else f"{deviation:.2g}"


def _verdict(metric: str, values: Sequence[float]) -> str:
    """Whether all runs solved the problem, or how many of them."""
    good = sum(is_as_good(value, SOLVED[metric], MONITORED[metric]) for value in values)
    return _SOLVED["solved"] if good == len(values) else f"{good} of {len(values)}" if good else _SOLVED["not solved"]


def _paper(cell: Cell) -> str:
    if cell.solved is not None:
        return "solved" if cell.solved else "not solved"
    return readable(cell.metric, cell.paper)


def _legend(found: Sequence[tuple[Cell, Sequence[Figure]]]) -> list[str]:
    """Return a paragraph that explains the words in the table, or an empty text."""
    seeds = max((len(figures) for _, figures in found), default=0)
    words = [f"Mean ± standard deviation of up to {seeds} seeds."] if seeds > 1 else []
    if any(figure.short for _, figures in found for figure in figures):
        words.append("short: trained for fewer epochs than planned, because of --epochs-scale or --budget.")
    if any(cell.solved is not None for cell, _ in found):
        words.append("✓: solved, with all steps right or a mean squared error of at most 1e-4; ✗: not solved.")
    return [" ".join(words), ""] if words else []


def _work(figure: Figure) -> dict[str, Any]:
    return {
        "seed": figure.seed,
        "epochs": figure.epochs,
        "planned": figure.planned,
        "short": figure.short,
        "seconds": math.floor(figure.seconds),
        "run": figure.folder,
    }


def _rule(columns: int) -> str:
    return "|" + "---|" * columns


def _line(words: Sequence[str]) -> str:
    return f"| {' | '.join(words)} |"
