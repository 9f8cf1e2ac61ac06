"""What sets runs apart: the settings in which they differ, and what the compare view of the page draws."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from ckcnn.data_options import PLACES
from ckcnn.formatting import readable, short
from ckcnn.results import Run

_MOST = 5  # differing settings below the name of a run


def differing_settings(runs: Sequence[Run]) -> dict[str, str]:
    """Return for each run, by name, the settings in which it differs from the other runs of its preset."""
    groups = defaultdict(list)
    for run in runs:
        groups[run.preset].append((run, _settings(run.config)))
    differing = {}
    for group in groups.values():
        keys = list(dict.fromkeys(key for _, settings in group for key in settings))
        varied = [key for key in keys if len({str(settings.get(key)) for _, settings in group}) > 1]
        for run, settings in group:
            texts = [f"{key} {short(settings[key])}" for key in varied if settings.get(key) is not None]
            differing[run.name] = ", ".join(texts[:_MOST]) + (", …" if len(texts) > _MOST else "")
    return differing


def compared(run: Run) -> str:
    """Return what the compare view shows of a run, as JSON: its name, settings, results and validation curves."""
    score = {} if run.score is None else {f"test/{run.metric}": readable(run.metric or "", run.score)}
    settings = {"preset": run.preset, "model": run.model, **_settings(run.config), **score}
    curves = {f"val/{metric}": _curve(run, f"val/{metric}") for metric in dict.fromkeys(["loss", run.metric or "loss"])}
    shown = {key: short(value) for key, value in settings.items() if value is not None}
    return json.dumps({"name": run.name, "settings": shown, "curves": curves}, allow_nan=False)


def _curve(run: Run, name: str) -> list[tuple[int, float]]:
    rows = [(int(row["epoch"]), float(row[name])) for row in run.epochs if name in row]
    return [(epoch, float(f"{value:.5g}")) for epoch, value in rows if math.isfinite(value)]


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    settings = {"seed": config.get("seed_everything")}
    for part in ("data", "model"):
        group = config.get(part)
        inner = group.get("init_args") if isinstance(group, Mapping) else None
        settings |= {key: value for key, value in (inner or {}).items() if key not in PLACES}
    trainer = config.get("trainer")
    if isinstance(trainer, Mapping):
        settings["max_epochs"] = trainer.get("max_epochs")
    return settings
