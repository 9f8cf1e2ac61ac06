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
from ckcnn.report.page import render
from ckcnn.report.runs import view


def main(argv: Sequence[str]) -> int:
    """Reads a folder of runs and writes the page."""
    parser = Parser(prog="ckcnn report", description="Writes all runs and searches of a folder into one HTML page.")
    parser.add_argument("folder", type=Path, nargs="?", default=Path("runs"), help="the runs (default: runs)")
    parser.add_argument("--output", type=Path, default=Path("report.html"), help="the page (default: report.html)")
    parser.add_argument("--title", help="of the page (default: the name of the folder)")
    options = parser.parse_args(argv)
    check_output(options.output, ".html", ".htm")
    torch.set_num_threads(1)  # the kernels are small, and the machine may be training
    found = results.load(options.folder)
    console = Console(stderr=True)
    reading = track(found.runs, "reading runs", console=console, transient=True, disable=not console.is_terminal)
    views = []
    for run in reading:
        try:
            views.append(view(run))
        except Exception as error:  # whatever a damaged file leads to, it is not the other runs' fault
            found.broken[run.folder.path] = f"it cannot be shown ({type(error).__name__}: {error})"
    found = replace(found, runs=[shown.run for shown in views])
    page = render(found, views, options.title or f"{options.folder.absolute().name}: what the runs reached")
    with replacing(options.output) as file:
        file.write(page.encode())
    for path, reason in found.broken.items():
        print(f"left out {path}: {reason}")
    counts = (count(len(found.runs), "run"), count(len(found.searches), "search"))
    print(f"{' and '.join(counts)} written to {options.output}")
    return 0
