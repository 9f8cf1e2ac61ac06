"""Small run folders written by hand, as `ckcnn fit`, `test` and `search` would leave them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from ckcnn.runs import metrics_table


def config(**changes: Any) -> dict[str, Any]:
    """The settings of a run; names with two underscores reach into model and data."""
    settings: dict[str, Any] = {
        "seed_everything": 0,
        "name": "letters",
        "paper": {"size": 100_696, "test/accuracy": 0.9953},
        "model": {"class_path": "ckcnn.CKCNN", "init_args": {"omega_0": 21.4, "dropout": 0.1}},
        "data": {"class_path": "datamodules.CharacterTrajectories", "init_args": {"drop_rate": 0.0, "train_dt": 1}},
    }
    for name, value in changes.items():
        part, _, key = name.partition("__")
        (settings[part]["init_args"] if key else settings)[key or part] = value
    return settings


def epochs(scores: list[float]) -> list[dict[str, float]]:
    """Rows of ``metrics.csv`` with these validation accuracies."""
    return [
        {"epoch": n, "step": 10 * (n + 1), "train/accuracy": score / 2, "train/loss": 3 - score}
        | {"val/accuracy": score, "val/loss": 2 - score, "seconds": 1.5}
        for n, score in enumerate(scores)
    ]


def result_of(score: float, dt: float = 1.0, drop_rate: float = 0.0, **others: Any) -> dict[str, Any]:
    """A test in ``results.json``."""
    return {
        "metrics": {"test/loss": 0.1, "test/accuracy": score},
        "paper": {"test/accuracy": 0.9953} if dt == 1 else None,
        "parameters": 100_696,
        "data": {"task": "classification", "drop_rate": drop_rate, "missing": "mask", "dt": {"train": 1.0, "test": dt}},
        "time": "2026-01-02T03:04:05+00:00",
        "machine": "some processor, 2 cores",
        "git_commit": "0123456789abcdef",
        **others,
    }


def write_run(
    path: Path, settings: dict[str, Any], scores: list[float], tests: list[dict[str, Any]] | None = None
) -> Path:
    """Writes a run folder; `tests` with the newest first."""
    path.mkdir(parents=True)
    (path / "config.yaml").write_text(yaml.safe_dump(settings))
    if scores:
        metrics_table.write(path / "metrics.csv", epochs(scores))
    if tests:
        (path / "results.json").write_text(json.dumps({**tests[0], "earlier": tests[1:]}))
    return path


def write_search(path: Path, points: list[tuple[float, float, str]]) -> Path:
    """Writes the table of a search: omega_0, accuracy and state of each trial."""
    rows = [
        {"trial": n, "state": state, "val/accuracy": score, "model.omega_0": omega_0, "val_loss": 0.1, "best_epoch": 1}
        | {"epochs": 2, "seconds": 3.0, "folder": f"trial_{n}", "reason": None}
        for n, (omega_0, score, state) in enumerate(points)
    ]
    metrics_table.write(path / "search.csv", rows)
    return path
