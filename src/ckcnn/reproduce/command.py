"""The command `ckcnn reproduce`."""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table as Lines

from ckcnn import presets
from ckcnn.checks.hints import nearest
from ckcnn.cli import processes
from ckcnn.cli.arguments import Parser, seconds
from ckcnn.cli.quiet import make_quiet
from ckcnn.cli.rehearsal import WeightlessRehearsal
from ckcnn.formatting import count, roughly
from ckcnn.reproduce import output, slurm
from ckcnn.reproduce.description import Table
from ckcnn.reproduce.estimate import Estimates
from ckcnn.reproduce.jobs import Job, jobs_of
from ckcnn.reproduce.options import split_options
from ckcnn.reproduce.runner import Runner
from ckcnn.reproduce.tables import PRESETS, TABLES
from ckcnn.results import Run
from ckcnn.runs.stopping import Stop, signals


def main(argv: Sequence[str]) -> int:
    """List the tables, write a job array, or train what is missing and write the tables.

    Returns:
        0, or 1 if a run failed, 130 or 143 if it was stopped by a signal and can be resumed.
    """
    if list(argv[:1]) == ["archive"]:
        from ckcnn.archive import command  # it needs sktime, which the paper's tables do not

        return command.main(argv[1:])
    options, words = _parser().parse_known_args(list(argv))
    changes, others = split_options(words)
    tables = _tables(options, changes)
    jobs = jobs_of(tables, options.seeds, options.runs, options.epochs_scale)
    console = Console(soft_wrap=True, highlight=False)
    make_quiet()
    if options.list:
        _list(tables, options, others, console)
        return 0
    if not options.tables:
        raise ValueError(f"name the tables to make, or all; --list explains them: {', '.join(TABLES)}")
    if options.submit:
        console.print(slurm.write(Path("reproduce.sbatch"), len(jobs), [*options.tables, *_again(options), *words]))
        return 0
    if options.job is not None:
        if not 0 <= options.job < len(jobs):
            raise ValueError(
                f"--job must be in 0 ... {len(jobs) - 1}, the trainings of these tables, got {options.job}"
            )
        jobs = [jobs[options.job]]
    # A mistake in the other options is reported at once.
    WeightlessRehearsal("fit", [*jobs[0].training.arguments(), *others])
    return _reproduce(tables, jobs, options, others, console)


def _parser() -> Parser:
    parser = Parser(
        prog="ckcnn reproduce",
        description="Train and test what the paper's tables need, and write the tables with your results beside the "
        "paper's. Finished runs are skipped, interrupted runs resume. All options of ckcnn fit apply to every run.",
        epilog="example: ckcnn reproduce resolution --only ct --workers 2 --budget 90m; "
        "ckcnn reproduce archive --help for the UEA and UCR archives",
    )
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"{', '.join(TABLES)}, or all")
    parser.add_argument("--list", action="store_true", help="print the tables, what is done, and the time left")
    parser.add_argument(
        "--measure", action="store_true", help="with --list: time a few steps of each run (takes minutes)"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help=f"benchmarks: {', '.join(PRESETS)}")
    parser.add_argument("--rows", nargs="+", default=[], metavar="NAME", help="only these rows, such as CKCNN")
    parser.add_argument("--columns", nargs="+", default=[], metavar="NAME", help="only these columns, such as 100 200")
    parser.add_argument("--seeds", type=int, default=1, help="seeds of each training (default: 1)")
    parser.add_argument(
        "--budget", type=seconds, default=math.inf, metavar="TIME", help="stop after this time: 90m, 12h"
    )
    parser.add_argument(
        "--epochs-scale", type=float, default=1.0, metavar="X", help="train this fraction of the epochs (default: 1)"
    )
    parser.add_argument(
        "--overlays", nargs="+", default=[], metavar="NAME", help="overlays for every preset, such as fast"
    )
    parser.add_argument("--workers", type=int, default=1, help="runs side by side (default: 1)")
    parser.add_argument(
        "--runs", type=Path, default=Path("runs/reproduce"), help="folder of the runs (default: runs/reproduce)"
    )
    parser.add_argument("--output", type=Path, default=Path("tables"), help="folder of the tables (default: tables)")
    parser.add_argument("--submit", choices=["slurm"], help="train nothing, write a job array for SLURM")
    parser.add_argument("--job", type=int, help="train only the run of this number, in a job array")
    return parser


def _tables(options: argparse.Namespace, changes: Mapping[str, Any]) -> list[Table]:
    """Return the requested tables or parts of them; mistakes are reported before any work."""
    for name in options.tables:
        if name not in (*TABLES, "all"):
            raise ValueError(f"there is no table {name!r}; {nearest(name, (*TABLES, 'all'), 'tables')}")
    for name in options.only:
        if name not in PRESETS:
            raise ValueError(f"--only has no benchmark {name!r}; {nearest(name, PRESETS, 'benchmarks')}")
    for name in options.overlays:
        presets.find(name)
    for option, value, fine in (
        ("seeds", options.seeds, options.seeds >= 1),
        ("workers", options.workers, options.workers >= 1),
        ("epochs-scale", options.epochs_scale, 0 < options.epochs_scale <= 1),
    ):
        if not fine:
            wanted = "in (0, 1], a fraction of the epochs" if option == "epochs-scale" else "at least 1"
            raise ValueError(f"--{option} must be {wanted}, got {value:g}")
    whole = [] if "all" in options.tables else options.tables
    tables = [table for name, table in TABLES.items() if not whole or name in whole]
    parts = [table.only(options.only, options.rows, options.columns) for table in tables]
    if not any(part.cells for part in parts):
        names = ", ".join(table.name for table in tables)
        raise ValueError(
            f"{names}: no cell is left with --only, --rows and --columns; {_choices(tables, options.only)}"
        )
    return [part.changed(options.overlays, changes) for part in parts if part.cells]


def _choices(tables: Sequence[Table], benchmarks: Sequence[str]) -> str:
    """List the valid names, restricted to some benchmarks if the tables have them."""
    cells = [cell for table in tables for cell in table.only(benchmarks, [], []).cells]
    if not cells:
        every = dict.fromkeys(cell.benchmark for table in tables for cell in table.cells)
        return f"the benchmarks are {', '.join(every)}"
    rows, columns = (dict.fromkeys(getattr(cell, name) for cell in cells) for name in ("row", "column"))
    return f"the rows are {', '.join(map(repr, rows))}, the columns {', '.join(map(repr, columns))}"


def _list(tables: Sequence[Table], options: argparse.Namespace, others: Sequence[str], console: Console) -> None:
    width = max(len(table.name) for table in tables)
    for table in tables:
        console.print(f"{table.name:{width}}  {table.title}")
    console.print()
    estimates = Estimates(options.runs / "seconds_per_epoch.json", others, options.measure)
    lines = Lines("table", "cells", "runs", "done", "interrupted", "time left", box=None, pad_edge=False)
    for table in tables:
        jobs = jobs_of([table], options.seeds, options.runs, options.epochs_scale)
        runs = [(job, job.run()) for job in jobs]
        states = [_state(job, run) for job, run in runs]
        rest = 0.0
        unfinished = [pair for pair, state in zip(runs, states, strict=True) if state != "done"]
        hidden = not (console.is_terminal and options.measure)
        for job, run in track(unfinished, f"measuring {table.name}", console=console, transient=True, disable=hidden):
            done = len(run.epochs) if run else 0
            each = run.seconds / done if run and done else estimates.seconds(job) / job.epochs
            rest += (job.epochs - done) * each
        counts = [str(states.count(state)) for state in ("done", "interrupted")]
        time_left = roughly(rest / options.workers) if rest else "-"
        lines.add_row(table.name, str(len(table.cells)), str(len(jobs)), *counts, time_left)
    console.print(lines)
    what = " ".join(options.tables) or next(iter(TABLES))
    rough = "Times are estimated from one short training; --measure times a few steps of each run.\n"
    console.print(
        f"\nTime left: {count(options.workers, 'worker')} on this machine, if no run stops early. "
        "Runs that tables share count in each of them.\n"
        f"{rough if estimates.rough else ''}"
        f"To train what is missing and write {options.output}/: ckcnn reproduce {what}, with the same options."
    )


def _state(job: Job, run: Run | None) -> str:
    if run is None or not run.epochs:
        return "missing"
    return "done" if job.is_finished(run) else "interrupted"


def _reproduce(
    tables: Sequence[Table], jobs: Sequence[Job], options: argparse.Namespace, others: Sequence[str], console: Console
) -> int:
    stop = Stop.after(options.budget)
    processes.warm_up()
    console.print(f"the epochs of each run are in {options.runs}/<run>/log.txt", markup=False)
    every = jobs_of([table.whole() for table in tables], options.seeds, options.runs, options.epochs_scale)

    def tell(line: str) -> None:
        console.print(f"{time.strftime('%H:%M:%S')} {line}", markup=False)
        for table in tables:
            output.write(table, every, options.output)

    runner = Runner(
        cells=[cell for table in tables for cell in table.cells],
        stop=stop,
        others=others,
        shares=processes.shares(options.workers, torch.cuda.device_count(), os.environ.get("CUDA_VISIBLE_DEVICES")),
        threads=processes.threads(options.workers),
        tell=tell,
    )
    with signals(stop):
        runner.run(jobs)
    written = [str(path) for table in tables for path in output.write(table, every, options.output)]
    if stop.reason:
        console.print(f"{stop.reason}; run the same command to resume")
    console.print(f"written: {', '.join(written)}")
    return stop.exit_code() or int(bool(runner.failures))


def _again(options: argparse.Namespace) -> list[str]:
    """Return the options that the jobs of an array need, too."""
    words = [f"--{name}={getattr(options, name)}" for name in ("seeds", "runs", "output")]
    words.append(f"--epochs-scale={options.epochs_scale:g}")
    for name in ("only", "rows", "columns", "overlays"):
        words += [f"--{name}", *getattr(options, name)] if getattr(options, name) else []
    return words
