"""The functions behind ``ckcnn fit``, ``validate``, ``test`` and ``predict``, and what their exit codes mean."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning.utilities.exceptions import SIGTERMException

from ckcnn.cli.lightning_cli import CKCNNCLI
from ckcnn.cli.quiet import make_quiet
from ckcnn.models.sequence_module import DivergenceError
from ckcnn.nn import keep_memory


def run(command: str, argv: Sequence[str]) -> int:
    """Runs a command.

    Returns:
        0, or 1 if training diverged, or 143 if it was stopped by SIGTERM and can go on.

    Raises:
        ValueError: for a mistake of the user.
    """
    keep_memory()
    make_quiet()
    try:
        CKCNNCLI(command, list(argv)).execute()
    except MisconfigurationException as error:
        hint = "; --trainer.accelerator cpu runs without a GPU" if "gpu" in str(error) or "CUDA" in str(error) else ""
        raise ValueError(f"{error}{hint}") from None
    except DivergenceError as error:
        print(f"ckcnn: error: {error}", file=sys.stderr)
        return 1
    except SIGTERMException:
        return 143  # 128 + SIGTERM, as a shell would report it
    return 0


fit, validate, test = (partial(run, command) for command in ("fit", "validate", "test"))


def predict(argv: Sequence[str]) -> int:
    """Answer the files of ``--input``, or else the test split; see `run`."""
    if any(word.split("=")[0] == "--input" for word in argv):
        from ckcnn.cli.predict_command import main

        keep_memory()
        make_quiet()
        return main(argv)
    return run("predict", argv)
