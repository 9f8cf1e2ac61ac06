"""`ckcnn export`: a trained network as a file for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ckcnn.cli.arguments import Parser
from ckcnn.cli.quiet import make_quiet
from ckcnn.inference import load
from ckcnn.inference.export import export_model
from ckcnn.inference.loading import read_artefact, save_folder
from ckcnn.runs.folder import RunFolder


def main(argv: Sequence[str]) -> int:
    """Export a run."""
    parser = Parser(prog="ckcnn export", description="Write a trained network to a file for other programs.")
    parser.add_argument("run", type=Path, help="run folder, checkpoint, or exported folder")
    parser.add_argument("--output", type=Path, required=True, help="model.onnx, model.pt2, or a folder")
    parser.add_argument("--length", type=int, help="samples of every signal; by default any number where possible")
    parser.add_argument("--dt", type=float, default=1.0, help="sampling step in steps of training; 2 is half the rate")
    options = parser.parse_args(list(argv))
    make_quiet()
    if not options.output.suffix:
        if options.length is not None or options.dt != 1:
            raise ValueError("--length and --dt are for .onnx and .pt2; a folder takes signals of any length and rate")
        if (run := RunFolder.of(options.output)) is not None and run.path == options.output:
            raise ValueError(f"--output {options.output} is a run folder; choose another folder")
        save_folder(options.run, options.output)
        print(f"{options.output}: config.json and model.safetensors, which ckcnn.load and from_pretrained read")
        return 0
    if options.output.suffix not in (".onnx", ".pt2"):
        raise ValueError(f"--output must end in .onnx or .pt2, or be a folder without a dot, got {options.output}")
    if read_artefact(options.run)[0]["model_class"] == "OwnNet":
        raise ValueError(
            f"{options.run} has a network of its own, whose kernels ckcnn cannot make constant; choose a folder "
            "(--output NAME), or give ckcnn.load(path, net=YourNet).net to torch.export or torch.onnx"
        )
    made = export_model(load(options.run), options.output, options.length, options.dt)
    length = "any length" if made.length is None else f"{made.length:,} samples"
    size = options.output.stat().st_size / 1e6
    print(f"{options.output}: {size:.1f} MB, {' and '.join(made.inputs)} of {length}, {' and '.join(made.outputs)}")
    if not made.raw and made.in_channels:
        print("The checkpoint holds no statistics: give the graph standardised signals, as the network was trained on.")
    return 0
