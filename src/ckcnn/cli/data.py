"""`ckcnn data`: which benchmarks there are, preparing their files, drawing a few samples."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ckcnn import datamodules
from ckcnn.checks.hints import nearest
from ckcnn.checks.memory import in_words
from ckcnn.cli.arguments import Parser
from ckcnn.datamodules import SequenceDataModule
from ckcnn.presets import plain_value

BENCHMARKS: dict[str, type[SequenceDataModule]] = {
    name: kind
    for name in sorted(datamodules.__all__, key=str.lower)
    if isinstance(kind := getattr(datamodules, name), type)
    and issubclass(kind, SequenceDataModule)
    and kind is not SequenceDataModule
}


def main(argv: Sequence[str]) -> int:
    """List the benchmarks, or run ``prepare`` or ``show``."""
    arguments = _parser().parse_args(argv, argparse.Namespace(root=None, cache=None, set=[]))
    if arguments.action is None:
        _list(arguments)
    elif arguments.action == "prepare":
        for module in [_make(name, arguments) for name in arguments.names]:
            _prepare(module)
    else:
        _show(arguments)
    return 0


def _parser() -> argparse.ArgumentParser:
    # Suppressed, so that the action does not overwrite what comes before it.
    places = Parser(add_help=False, argument_default=argparse.SUPPRESS)
    places.add_argument("--root", help="folder of the data (default: $CKCNN_DATA, else data)")
    places.add_argument("--cache", help="folder of the prepared data (default: cache in the folder of the data)")
    options = Parser(add_help=False, parents=[places])
    options.add_argument(
        "--set", action="append", default=[], metavar="OPTION=VALUE", help="option of the benchmark, such as mfcc=true"
    )
    parser = Parser(prog="ckcnn data", description="Without an action: list the benchmarks.", parents=[places])
    actions = parser.add_subparsers(dest="action", parser_class=Parser)
    prepare = actions.add_parser("prepare", parents=[options], help="download what is missing and write the cache")
    prepare.add_argument("names", nargs="+", metavar="NAME", help="a benchmark, as the list names it")
    show = actions.add_parser("show", parents=[options], help="draw a few samples")
    show.add_argument("name", metavar="NAME", help="a benchmark, as the list names it")
    show.add_argument("--output", type=Path, required=True, help="image file to write, such as x.png")
    show.add_argument("--samples", type=int, default=4, help="how many sequences (default: 4)")
    show.add_argument("--drop-rate", type=float, default=0.0, help="fraction of the steps that are dropped")
    show.add_argument("--dt", type=int, nargs="+", default=[1], help="keep every n-th sample; one column for each")
    return parser


def _make(name: str, arguments: argparse.Namespace, **more: Any) -> SequenceDataModule:
    """A benchmark with the options of the command line."""
    if name not in BENCHMARKS:
        raise ValueError(f"there is no benchmark {name!r}; {nearest(name, list(BENCHMARKS))}")
    options = dict(_assignment(text) for text in arguments.set)
    known = _options(BENCHMARKS[name])
    for option in options:
        if option not in known:
            raise ValueError(f"{name} has no option {option!r}; {nearest(option, known)}")
    if missing := [option for option in _needed(BENCHMARKS[name]) if option not in options]:
        raise ValueError(f"{name} needs {' and '.join(missing)}: {' '.join(f'--set {one}=...' for one in missing)}")
    return BENCHMARKS[name](**{"root": arguments.root, "cache": arguments.cache, **options, **more})


def _options(kind: type[SequenceDataModule]) -> list[str]:
    signatures = [inspect.signature(cls.__init__).parameters for cls in (kind, SequenceDataModule)]
    return [name for parameters in signatures for name in parameters if name not in ("self", "shared")]


def _needed(kind: type[SequenceDataModule]) -> list[str]:
    """Options without a default, such as the file of somebody's own data."""
    parameters = inspect.signature(kind).parameters.values()
    return [one.name for one in parameters if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD]


def _assignment(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--set wants OPTION=VALUE, got {text!r}")
    return name, plain_value(value)


def _list(arguments: argparse.Namespace) -> None:
    table = Table("benchmark", "task", "channels x steps", "train / val / test", "data", "on disk", box=None)
    for name, kind in BENCHMARKS.items():
        if needed := _needed(kind):
            own = "your own" if "path" in needed else "built in"
            table.add_row(name, getattr(kind, "task", own), "", "", own, "")
            continue
        module = _make(name, arguments)
        shape = f"{module.in_channels} x {module.horizon}"
        sizes = " / ".join(f"{size:,}" for size in module.sizes or ())
        table.add_row(name, module.task, shape, sizes, _state(module), _size(module))
    Console(width=120, soft_wrap=True).print(table)


def _state(module: SequenceDataModule) -> str:
    if any(module.cache.glob(f"{module.cache_path.name.split('-')[0].removesuffix('.h5')}*.h5")):
        return "prepared"
    absent = module.absent_files()
    if not absent:
        return "present" if module.files else "built in"
    return "absent" if len(absent) == len(module.files) else "incomplete"


def _size(module: SequenceDataModule) -> str:
    """The size of the official files, and of everything prepared from them."""
    stem = module.cache_path.name.split("-")[0].removesuffix(".h5")
    paths = [*map(module.source, module.files), *module.cache.glob(f"{stem}*.h5")]
    files = [file for path in paths for file in (path.rglob("*") if path.is_dir() else [path])]
    size = sum(file.stat().st_size for file in files if file.is_file())
    return in_words(size) if size else "-"


def _prepare(module: SequenceDataModule) -> None:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console) as bar:
        tasks: dict[str, Any] = {}

        def progress(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(f"{type(module).__name__}: {what}")
            bar.update(tasks[what], completed=done, total=total)

        module.progress = progress
        module.prepare_data()
    module.setup()
    sizes = ", ".join(f"{len(rows):,} {split}" for split, rows in module.splits.items())
    place = f"; prepared in {module.cache_path}" if module.cache_path.is_file() else ""
    Console().print(f"{type(module).__name__}: {sizes}{place}", soft_wrap=True, highlight=False)


def _show(arguments: argparse.Namespace) -> None:
    from ckcnn.cli.drawing import draw

    if arguments.samples < 1:
        raise ValueError(f"--samples must be at least 1, got {arguments.samples}")
    shared = {"drop_rate": arguments.drop_rate, "batch_size": arguments.samples}
    modules = [_make(arguments.name, arguments, train_dt=dt, **shared) for dt in arguments.dt]
    _prepare(modules[0])
    for module in modules:
        module.setup()
    draw(modules, arguments.output, arguments.samples)
    Console().print(f"drawn to {arguments.output}", soft_wrap=True, highlight=False)
