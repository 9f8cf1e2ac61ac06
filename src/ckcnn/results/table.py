"""The runs as a table, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ckcnn.results.reading import Run

if TYPE_CHECKING:
    import pandas


def table(runs: Iterable[Run]) -> pandas.DataFrame:
    """One row for each run: what it is, how long it took, what it reached, and what the paper reports."""
    import pandas  # it takes its time

    rows = [
        {
            "run": run.name,
            "model": run.model,
            "parameters": run.test["parameters"] if run.test else None,
            "omega_0": run.setting("model.omega_0"),
            "drop_rate": run.setting("data.drop_rate"),
            "epochs": len(run.epochs),
            "best epoch": int(run.best["epoch"]) if run.best else None,
            "minutes": round(run.seconds / 60, 1),
            "metric": run.metric,
            "validation": run.best[f"val/{run.metric}"] if run.best else None,
            "test": run.score,
            "paper": run.paper,
        }
        for run in runs
    ]
    return pandas.DataFrame(rows).set_index("run")
