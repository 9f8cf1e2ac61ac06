"""``ckcnn predict --input``: predictions for new sequences in files, without the training data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ckcnn import presets
from ckcnn.cli.arguments import Parser, named_class
from ckcnn.datamodules import sequence_files
from ckcnn.files import check_output
from ckcnn.formatting import count
from ckcnn.inference import TrainedModel, load
from ckcnn.inference.answers import write_answers
from ckcnn.runs.folder import RunFolder, check_name


def main(argv: Sequence[str]) -> int:
    """Predict the sequences of a file or a folder.

    Returns:
        0.

    Raises:
        ValueError: for a mistake of the user.
    """
    if "--help" in argv:  # also just after --input, which would take it for its value
        _parser().print_help()
        return 0
    options = _parser().parse_args(list(argv))
    output, source = Path(options.output), Path(options.input).expanduser()
    check_output(output, ".csv")
    if not source.exists():
        raise ValueError(f"--input {source} does not exist")
    if output.exists() and output.samefile(source):
        raise ValueError(f"--output {output} is the file with the sequences; choose another name")
    net = None if options.net is None else named_class("--model.net", options.net)
    model = load(_model(options), options.device, net=net)
    if model.task.from_tokens:
        raise ValueError("this is a language model; continue a text with ckcnn generate")
    recordings = _recordings(model, source, options)
    with _progress(options.quiet) as progress:
        task = progress.add_task("predicting", total=sequence_files.count(source))
        total = write_answers(model, recordings, output, options.dt, lambda done: progress.advance(task, done))
    print(f"predictions for {count(total, 'sequence')} written to {output}")
    return 0


def _parser() -> Parser:
    parser = Parser(prog="ckcnn predict", description="Predict new sequences. The data of the training is not needed.")
    parser.add_argument("--ckpt_path", help="a run folder, a checkpoint, or an exported folder")
    parser.add_argument("--config", help="preset: its newest run is used, instead of --ckpt_path")
    parser.add_argument("--name", help="folder in --runs (default: the name of the preset)")
    parser.add_argument("--runs", default="runs", help="folder of all runs")
    parser.add_argument("--model.net", dest="net", help="your own network, package.YourNet, if the model has one")
    parser.add_argument("--input", required=True, help="file or folder: .npz, .h5, .csv, .ts, .wav")
    parser.add_argument("--output", default="predictions.csv", help="file to write, .csv")
    parser.add_argument("--dt", type=float, default=1.0, help="sampling step in steps of training; 2 is half the rate")
    parser.add_argument("--device", help="such as cuda (default: cpu)")
    parser.add_argument(
        "--sequence_column", help="of a table: the sequence a row belongs to (default: sequence, if there is one)"
    )
    parser.add_argument("--time_column", help="of a table: the time of a row (default: time, if there is one)")
    parser.add_argument("--label_column", help="of a table: a column to ignore (default: label, if there is one)")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    return parser


def _model(options: Any) -> Path:
    if options.config:
        presets.find(options.config)  # a name that is no preset is a mistake, whichever names the model
    if options.ckpt_path and options.ckpt_path not in ("best", "last"):
        return Path(options.ckpt_path)
    name = options.name or (Path(options.config).stem if options.config else None)
    if name is None:
        raise ValueError("name the model with --ckpt_path RUN, or its preset with --config; see ckcnn predict --help")
    parent = Path(options.runs) / check_name(name)
    run = RunFolder.trained(parent)
    if run is None:
        raise ValueError(f"there is no trained run in {parent}; train one with ckcnn fit, or give --ckpt_path")
    return run.checkpoint(options.ckpt_path or "best")


def _recordings(model: TrainedModel, source: Path, options: Any) -> Any:
    trained = model.preprocessing
    names = {"sequence": options.sequence_column, "time": options.time_column, "label": options.label_column}
    given = {part: name for part, name in names.items() if name is not None}
    columns = sequence_files.Columns(channels=trained.channel_names, required=tuple(given.values()), **given)
    rate = trained.rate if options.dt == 1 else None  # with another step the user has said what the rate is
    return sequence_files.read(source, columns, rate, sounds=trained.rate is not None)


def _progress(quiet: bool) -> Progress:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, disable=quiet or not console.is_terminal)
