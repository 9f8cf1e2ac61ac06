"""The page: everything that it shows is put into the template, which escapes all of it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import ckcnn
from ckcnn.formatting import count, readable, short
from ckcnn.report import charts
from ckcnn.report.compare import compared, differing_settings
from ckcnn.report.comparisons import comparisons, omega_0
from ckcnn.report.networks import network_tables
from ckcnn.report.runs import RunView
from ckcnn.report.tables import Document
from ckcnn.results import Results

_NUMBERS = ("parameters", "validation", "test", "paper", "difference", "epochs", "time")


def render(results: Results, views: Sequence[RunView], documents: Sequence[Document], title: str) -> str:
    """Return the page.

    Args:
        results: the runs and searches of a folder.
        views: what the page shows of each run.
        documents: tables of `ckcnn reproduce`.
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
        compared=compared,
        numbers=_NUMBERS,
        comparisons=comparisons(results.runs),
        networks=network_tables(views),
        documents=documents,
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


def _file(environment: Environment, name: str) -> str:
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0].rstrip("\n")


def _hash(text: str) -> str:
    """What a browser compares a style or a script with before it uses it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
