"""The command `ckcnn report`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track

from ckcnn import results
from ckcnn.cli.arguments import Parser
from ckcnn.files import check_output, replacing
from ckcnn.formatting import count
from ckcnn.report import tables
from ckcnn.report.page import render
from ckcnn.report.runs import view

_TABLES = Path("tables")  # where ckcnn reproduce writes them


def main(argv: Sequence[str]) -> int:
    """Read a folder of runs and write the page."""
    options = _parser().parse_args(argv)
    check_output(options.output, ".html", ".htm")
    torch.set_num_threads(1)  # the kernels are small, and the machine may be training
    folder = options.folder or Path("runs")
    broken: dict[Path, str] = {}
    documents = _tables(options.tables, broken)
    only_tables = bool(documents) and options.folder is None and not folder.is_dir()
    found = results.Results([], [], {}) if only_tables else results.load(folder)
    found.broken.update(broken)
    console = Console(stderr=True)
    reading = track(found.runs, "reading runs", console=console, transient=True, disable=not console.is_terminal)
    views = []
    for run in reading:
        try:
            views.append(view(run))
        except Exception as error:  # whatever a damaged file leads to, it is not the other runs' fault
            found.broken[run.folder.path] = f"it cannot be shown ({type(error).__name__}: {error})"
    found = replace(found, runs=[shown.run for shown in views])
    title = options.title or f"Results in {(options.tables if only_tables else folder).absolute().name}"
    page = render(found, views, documents, title)
    with replacing(options.output) as file:
        file.write(page.encode())
    for path, reason in found.broken.items():
        print(f"left out {path}: {reason}")
    counts = [count(len(found.runs), "run"), count(len(found.searches), "search")]
    counts += [count(len(documents), "table")] if documents else []
    print(f"{', '.join(counts)} written to {options.output}")
    return 0


def _tables(folder: Path, broken: dict[Path, str]) -> list[tables.Document]:
    """Return the tables of `ckcnn reproduce`; there need not be any where it writes them by default."""
    if not folder.is_dir() and folder != _TABLES:
        raise ValueError(f"--tables must be a folder that ckcnn reproduce has written, got {folder}")
    return tables.read_all(folder, broken)


def _parser() -> Parser:
    parser = Parser(prog="ckcnn report", description="Write all runs and searches of a folder to one HTML page.")
    parser.add_argument("folder", type=Path, nargs="?", help="folder of the runs (default: runs)")
    parser.add_argument("--output", type=Path, default=Path("report.html"), help="the page (default: report.html)")
    parser.add_argument(
        "--tables", type=Path, default=_TABLES, help="folder of tables of ckcnn reproduce (default: tables)"
    )
    parser.add_argument("--title", help="title of the page (default: from the name of the folder)")
    return parser
