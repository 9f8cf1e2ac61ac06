"""The command `ckcnn reproduce archive`."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from ckcnn.archive import output, results
from ckcnn.archive.methods import METHODS, PADDED, missing_package
from ckcnn.archive.problems import Problem, load, padded, within_reach
from ckcnn.archive.results import Result
from ckcnn.checks import check_choice, check_count
from ckcnn.cli.arguments import Parser
from ckcnn.datamodules.options import data_root
from ckcnn.datamodules.uea import archive_problems


def main(argv: Sequence[str]) -> int:
    """Train and test what is missing, and write the table after each result.

    Returns:
        0, or 1 if a problem could not be read or a method failed on one.
    """
    options = _parser().parse_args(list(argv))
    root = data_root(options.root)
    console = Console(soft_wrap=True, highlight=False)
    for method in options.methods:
        check_choice("--methods", method, METHODS)
    check_count("--seeds", options.seeds)
    methods = [method for method in options.methods if not _is_missing(method, console)]
    problems = options.problems or (archive_problems() if options.all else within_reach(root))
    path = options.output / "archive.csv"
    failures = 0
    for seed in range(options.seeds):
        for name in problems:
            done = {(one.problem, one.method, one.seed) for one in results.read(path)}
            wanted = [method for method in methods if (name, method, seed) not in done]
            if not wanted:
                continue
            try:
                problem = load(name, root, options.output / "cache")
            except (ValueError, OSError) as error:
                failures += 1
                console.print(f"{name}: left out: {error}", markup=False)
                continue
            for method in wanted:
                try:
                    found = compare(name, problem, method, seed)
                except (ValueError, RuntimeError, MemoryError) as error:
                    failures += 1
                    console.print(f"{name}, {method}: failed: {error}", markup=False)
                    continue
                every = [*results.read(path), found]
                results.write(path, every)
                output.write(every, options.output)
                console.print(
                    f"{time.strftime('%H:%M:%S')} {name}, {method}, seed {seed}: "
                    f"{100 * found.accuracy:.2f} % in {found.seconds:.1f} s",
                    markup=False,
                )
    every = results.read(path)
    if failures and not every:
        raise ValueError("no problem could be read and no method ran on one, as said above; correct --problems")
    written = [str(place) for place in (path, *output.write(every, options.output))] if every else ["nothing"]
    console.print(f"written: {', '.join(written)}", markup=False)
    return int(failures > 0)


def compare(name: str, problem: Problem, method: str, seed: int) -> Result:
    """Train a method on a problem, and test it."""
    classifier = METHODS[method](seed)
    train: Any
    test: Any
    if method in PADDED:
        length = max(one.shape[1] for one in problem.train)
        train, test = (padded(series, length) for series in (problem.train, problem.test))
    else:
        train, test = (_frames(series) for series in (problem.train, problem.test))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sktime's and numba's, about nothing that a user of this command chose
        start = time.process_time()
        classifier.fit(train, problem.train_labels)
        seconds = time.process_time() - start
        accuracy = float(np.mean(classifier.predict(test) == problem.test_labels))
    return Result(name, method, seed, accuracy, round(seconds, 3))


def _frames(series: Sequence[Any]) -> list[Any]:
    """Series of any lengths, as sktime takes them."""
    import pandas

    return [pandas.DataFrame(one.T) for one in series]


def _is_missing(method: str, console: Console) -> bool:
    package = missing_package(method)
    if package is not None:
        console.print(f"{method} is left out: it needs {package}; pip install 'ckcnn[archive]'", markup=False)
    return package is not None


def _parser() -> Parser:
    parser = Parser(
        prog="ckcnn reproduce archive",
        description="Compare classifiers on problems of the UEA and UCR archives: accuracy, training time, mean rank. "
        "Results are kept in archive.csv and are not computed again.",
        epilog="example: ckcnn reproduce archive --problems GunPoint BasicMotions --methods CKCNN MiniROCKET",
    )
    parser.add_argument("--problems", nargs="+", metavar="NAME", help="by default all that need no network")
    parser.add_argument("--all", action="store_true", help="the whole archive; problems are downloaded")
    parser.add_argument(
        "--methods", nargs="+", default=list(METHODS), metavar="NAME", help=f"of {', '.join(METHODS)} (default: all)"
    )
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each method on each problem (default: 1)")
    parser.add_argument("--root", help="folder of the data (default: $CKCNN_DATA, else data)")
    parser.add_argument("--output", type=Path, default=Path("tables"), help="folder of the tables (default: tables)")
    return parser
