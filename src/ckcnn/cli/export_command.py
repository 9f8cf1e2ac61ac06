"""`ckcnn export`: a trained network as a file for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ckcnn import presets
from ckcnn.cli.arguments import Parser
from ckcnn.cli.quiet import make_quiet
from ckcnn.inference.export import export_checkpoint
from ckcnn.inference.loading import save_folder
from ckcnn.presets import value_of
from ckcnn.runs.folder import RunFolder


def main(argv: Sequence[str]) -> int:
    """Export a run."""
    parser = Parser(prog="ckcnn export", description="Write a trained network to a file for other programs.")
    parser.add_argument("run", type=Path, help="run folder, or checkpoint")
    parser.add_argument("--output", type=Path, required=True, help="model.onnx, model.pt2, or a folder")
    parser.add_argument("--length", type=int, help="samples of every signal; by default any number where possible")
    parser.add_argument("--dt", type=float, help="sampling step in training samples: 2 is half the rate (default 1)")
    options = parser.parse_args(list(argv))
    make_quiet()
    if not options.output.suffix:
        save_folder(options.run, options.output)
        print(f"{options.output}: config.json and model.safetensors, which ckcnn.load and from_pretrained read")
        return 0
    run = RunFolder.of(options.run)
    _check_stamps(run, options.dt)
    if options.run.is_dir() and run is None:
        raise ValueError(
            f"{options.run} is not a run folder (it would hold the config.yaml and the checkpoints of a run)"
        )
    path = run.checkpoint("best") if run and options.run.is_dir() else options.run
    made = export_checkpoint(path, options.output, options.length, 1.0 if options.dt is None else options.dt)
    length = "any length" if made.length is None else f"{made.length:,} samples"
    size = options.output.stat().st_size / 1e6
    print(f"{options.output}: {size:.1f} MB, signals of {length}, outputs {' and '.join(made.outputs)}")
    if not made.raw and made.in_channels:
        print("The checkpoint holds no statistics: give the graph standardised signals, as the network was trained on.")
    return 0


def _check_stamps(run: RunFolder | None, dt: float | None) -> None:
    if run and dt is None and value_of(presets.load(run.config), "data.missing") == "times":
        raise ValueError(
            f"{run.path} was trained with time stamps, which an exported graph does not take; "
            "for signals on a regular grid, give their step in training samples with --dt"
        )
