"""The page: everything that it shows is put into the template, which escapes all of it."""

from __future__ import annotations

import base64
import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import ckcnn
from ckcnn.data_options import PLACES
from ckcnn.formatting import count, readable, short
from ckcnn.report import charts
from ckcnn.report.comparisons import comparisons, omega_0
from ckcnn.report.runs import RunView
from ckcnn.results import Results, Run

_NUMBERS = ("parameters", "validation", "test", "paper", "difference", "epochs", "time")
_MOST = 5  # differing settings that are shown


def render(results: Results, views: Sequence[RunView], title: str) -> str:
    """The text of the page.

    Args:
        results: what was found.
        views: of its runs.
        title: of the page.
    """
    environment = Environment(
        loader=PackageLoader("ckcnn.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    files = {name: Markup(_file(environment, name)) for name in ("style.css", "page.js")}
    return environment.get_template("page.html").render(
        title=title,
        time=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=ckcnn.__version__,
        runs=views,
        differs=differing_settings(results.runs),
        numbers=_NUMBERS,
        comparisons=comparisons(results.runs),
        searches=[(search, omega_0(search)) for search in results.searches],
        broken=results.broken,
        style=files["style.css"],
        script=files["page.js"],
        canvas=SimpleNamespace(**charts.CANVAS),
        hash=_hash,
        count=count,
        readable=readable,
        short=short,
    )


def differing_settings(runs: Sequence[Run]) -> dict[str, str]:
    """For each run, by name, in which settings it differs from the other runs of its preset."""
    groups = defaultdict(list)
    for run in runs:
        groups[run.preset].append((run, _settings(run.config)))
    told = {}
    for group in groups.values():
        keys = list(dict.fromkeys(key for _, settings in group for key in settings))
        varied = [key for key in keys if len({str(settings.get(key)) for _, settings in group}) > 1]
        for run, settings in group:
            texts = [f"{key} {short(settings[key])}" for key in varied if settings.get(key) is not None]
            told[run.name] = ", ".join(texts[:_MOST]) + (", …" if len(texts) > _MOST else "")
    return told


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    settings = {"seed": config.get("seed_everything")}
    for part in ("data", "model"):
        group = config.get(part)
        inner = group.get("init_args") if isinstance(group, Mapping) else None
        settings |= {key: value for key, value in (inner or {}).items() if key not in PLACES}
    return settings


def _file(environment: Environment, name: str) -> str:
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0].rstrip("\n")


def _hash(text: str) -> str:
    """What a browser compares a style or a script with before it uses it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
