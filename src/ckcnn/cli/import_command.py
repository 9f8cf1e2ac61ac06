"""`ckcnn import`: checkpoints from the weights that the paper's authors published."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytorch_lightning.cli import LightningArgumentParser
from rich.console import Console
from rich.table import Table

from ckcnn.cli import listing
from ckcnn.cli.lightning_cli import CKCNNCLI
from ckcnn.cli.quiet import make_quiet
from ckcnn.models.ckcnn import CKCNN
from ckcnn.reference import published
from ckcnn.reference.importing import import_weights
from ckcnn.runs import checkpoints

USAGE = "ckcnn import FILE.pt --config smnist.yaml --output smnist.ckpt"
HELP = f"""usage: {USAGE}
       ckcnn import --list

Convert weights that the paper's authors published to a checkpoint for ckcnn test, predict and validate.

  FILE.pt            the authors' file; nothing in it is executed
  --config PRESET    the preset that the file belongs to, which knows what the file does not; and overlays
  --output FILE      the checkpoint to write
  --list             the published files, with preset, size and the paper's result
  --model.omega_0 X, --data.drop_rate X, ...
                     override the preset, as in ckcnn fit
"""


def main(argv: Sequence[str]) -> int:
    """Import a file, or list the published files."""
    if not argv or argv[0] in ("-h", "--help"):
        print(HELP, end="")
        return 0
    if list(argv) == ["--list"]:
        _print_list()
        return 0
    if argv[0].startswith("-"):
        raise ValueError(f"the file comes first, got {argv[0]}; write {USAGE}")
    make_quiet()
    path, settings = Path(argv[0]), Settings(argv[1:])
    if settings.output.exists() and path.exists() and settings.output.samefile(path):
        raise ValueError(f"--output is the file to import, {path}; choose another file")
    checkpoint = import_weights(path, **settings.model.hparams)
    try:
        checkpoints.save(checkpoint, settings.output)
    except OSError as error:
        raise ValueError(
            f"cannot write --output {settings.output}: {os.strerror(error.errno or 0)}; choose another file"
        ) from None
    size = sum(tensor.numel() for tensor in checkpoint["state_dict"].values())
    print(f"{settings.output}: {size:,} parameters of {path.name}. What to do next:\n  {settings.test_command()}")
    command = published.command_of(path.name)
    if command and command.split()[0] != settings.preset:  # not every file says enough to refuse it
        print(f"By its name the file goes with --config {command}, not with {settings.preset}.")
    return 0


class Settings(CKCNNCLI):
    """Reads a preset and flags as the other commands do, but looks for no run and makes no trainer.

    Args:
        args: what follows the file.
    """

    def __init__(self, args: Sequence[str]) -> None:
        super().__init__("import", list(args))
        if not isinstance(self.model, CKCNN):
            raise ValueError(f"the authors' weights are for a CKCNN, got --model {type(self.model).__name__}")
        if self.config.output is None:
            raise ValueError(f"the file to write is missing; write {USAGE}")
        self.output = Path(self.config.output)
        self.words = list(args)

    @property
    def preset(self) -> str | None:
        """The file name of the first configuration."""
        return self.layers.files[0].name if self.layers.files else None

    def test_command(self) -> str:
        """How to score the checkpoint on the data that was given."""
        words, kept = iter(self.words), []
        for word in words:
            if word == "--output":
                next(words)
            elif not word.startswith("--output="):
                kept.append(word)
        return shlex.join(["ckcnn", "test", *kept, "--ckpt_path", str(self.output)])

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        super().add_arguments_to_parser(parser)
        parser.add_argument("--output", type=str | None, help="the checkpoint to write")

    def before_instantiate_classes(self) -> None: ...

    def instantiate_trainer(self, **_: Any) -> Any: ...

    def after_instantiate_classes(self) -> None: ...


def _print_list() -> None:
    """Show each file with its preset, its size and the paper's result."""
    table = Table("file", "ckcnn import FILE --config ...", "parameters", "paper", box=None, pad_edge=False)
    table.columns[2].justify = "right"
    paper = dict(listing.rows())
    for name, command in published.FILES.items():
        table.add_row(name, command, f"{paper[command]['size']:,}", listing.figure(paper[command]))
    for name, command in published.STALE.items():
        table.add_row(name, command, f"{paper[command.split()[0]]['size']:,}", "-")
    console = Console(width=140, soft_wrap=True)
    console.print(table)
    console.print(
        "\nThey are in the folder saved of https://github.com/dwromero/ckconv. Their names round omega_0, the presets\n"
        "have its exact value. The last file has no mask channel and belongs to no result of the paper.",
        highlight=False,
    )
