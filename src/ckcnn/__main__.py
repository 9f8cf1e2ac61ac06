"""The command line: `main` hands over to the module of a command, which is imported only then."""

from __future__ import annotations

import getpass
import importlib
import io
import os
import re
import sys
from collections.abc import Sequence

import ckcnn
from ckcnn.checks.hints import nearest
from ckcnn.cli import short_help

# Each command is a function that takes the other arguments and returns the exit code, and the line that the help shows.
COMMANDS = {
    "fit": ("ckcnn.cli.commands:fit", "train: ckcnn fit --config digits.yaml"),
    "validate": ("ckcnn.cli.commands:validate", "score a checkpoint on the validation split"),
    "test": ("ckcnn.cli.commands:test", "score a checkpoint on the test split: ckcnn test --config digits.yaml"),
    "predict": ("ckcnn.cli.commands:predict", "predict the test split, or new sequences: ckcnn predict --input FILE"),
    "generate": ("ckcnn.cli.generate:main", "generate text: ckcnn generate --ckpt_path RUN --prompt 'the company'"),
    "search": ("ckcnn.search.command:main", "find omega_0 and other settings: ckcnn search --config digits.yaml"),
    "report": ("ckcnn.report.command:main", "all runs on one page: ckcnn report runs --output report.html"),
    "reproduce": ("ckcnn.reproduce.command:main", "the paper's tables, trained from scratch: ckcnn reproduce --list"),
    "import": ("ckcnn.cli.import_command:main", "make a checkpoint from weights that the paper's authors published"),
    "export": (
        "ckcnn.cli.export_command:main",
        "write a trained network to a file: ckcnn export RUN --output model.onnx",
    ),
    "presets": ("ckcnn.cli.listing:main", "list the presets with their size and the paper's result"),
    "fit-kernel": ("ckcnn.kernel_fits.command:main", "fit kernel nets to functions: why kernels are made of sines"),
    "data": ("ckcnn.cli.data:main", "list the benchmarks, prepare their data, draw samples"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments after the name of the program; by default those of the process.

    Returns:
        The exit code: 0, or 2 after a mistake, with one message on standard error.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    _print_anything()
    _name_the_user()
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        return 0
    if arguments[0] == "--version":
        print(f"ckcnn {ckcnn.__version__}")
        return 0
    if arguments[0] not in COMMANDS:
        return _fail(f"there is no command {arguments[0]!r}; {nearest(arguments[0], COMMANDS, 'commands')}")
    try:
        if arguments[0] in short_help.COMMANDS and short_help.wanted(arguments[1:]):
            print(short_help.text(arguments[0], arguments[1:]))
            return 0
        module, _, function = COMMANDS[arguments[0]][0].partition(":")
        return int(getattr(importlib.import_module(module), function)(arguments[1:]))
    except UnicodeEncodeError as error:
        return _fail(f"the locale cannot hold all characters of {ascii(error.object)[:80]}; set PYTHONUTF8=1")
    except OSError as error:  # what a disk or a folder refuses, without the number that the system has for it
        place = f": {error.filename}" if error.filename else ""
        return _fail(f"{error.strerror or error}{place}")
    except ValueError as error:  # what this package raises for a mistake of the user
        return _fail(str(error))
    except KeyboardInterrupt:
        return _fail("interrupted")


def _print_anything() -> None:
    """Let a terminal that knows only ASCII show other characters by their numbers, instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.encoding.lower().startswith("utf"):
            stream.reconfigure(errors="backslashreplace")


def _name_the_user() -> None:
    """Give a user that the system does not know a name, as in a container: torch asks for one when it is imported."""
    try:
        getpass.getuser()
    except (KeyError, OSError):
        os.environ["LOGNAME"] = f"uid-{os.getuid()}"


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {text}" for name, (_, text) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: ckcnn COMMAND ...",
            "",
            "Continuous-kernel convolutional networks (CKConv, ICLR 2022).",
            "",
            *lines,
            "",
            "ckcnn COMMAND --help explains a command, ckcnn --version prints the version.",
        ]
    )


def _fail(message: str) -> int:
    """One line, whatever characters a name or a value has brought along, and however long it is."""
    message = re.sub(r"\[Errno -?\d+\] ", "", message).strip()  # the number that the system has for it
    message = re.sub(r"\S{500,}", lambda word: f"{word[0][:60]}...{word[0][-20:]}", message)
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)
    print(f"ckcnn: error: {shown}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
