"""The functions of ``ckcnn fit``, ``validate``, ``test`` and ``predict``, and what their exit codes mean."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning.utilities.exceptions import SIGTERMException

from ckcnn.cli.lightning_cli import CKCNNCLI
from ckcnn.cli.quiet import make_quiet
from ckcnn.compat.torch import is_lost_process
from ckcnn.models.finite_loss import DivergenceError
from ckcnn.nn import keep_memory
from ckcnn.processes import leave_process_group


def run(command: str, argv: Sequence[str]) -> int:
    """Run a command.

    Returns:
        0, or 1 if training diverged or another process ended, or 143 if it was stopped by SIGTERM and can be resumed.

    Raises:
        ValueError: for a mistake of the user.
    """
    keep_memory()
    make_quiet()
    try:
        CKCNNCLI(command, ["--help" if word == "--help-all" else word for word in argv]).execute()
    except MisconfigurationException as error:
        hint = "; --trainer.accelerator cpu runs without a GPU" if "gpu" in str(error) or "CUDA" in str(error) else ""
        raise ValueError(f"{error}{hint}") from None
    except DivergenceError as error:
        print(f"ckcnn: error: {error}", file=sys.stderr)
        return 1
    except RuntimeError as error:
        if is_lost_process(error):
            print("ckcnn: error: another process of this run has ended; resume with --ckpt_path last", file=sys.stderr)
            return 1
        if not str(error).startswith("DataLoader worker"):
            raise
        raise ValueError(
            f"a process that makes batches has died ({str(error).splitlines()[0]}); "
            "--data.num_workers 0 does without, as does more shared memory (/dev/shm)"
        ) from None
    except SIGTERMException:
        return 143  # 128 + SIGTERM, as a shell would report it
    finally:
        leave_process_group()
    return 0


fit, validate, test = (partial(run, command) for command in ("fit", "validate", "test"))


def predict(argv: Sequence[str]) -> int:
    """Predict the files of ``--input``, or else the test split; see `run`."""
    if any(word.split("=")[0] == "--input" for word in argv):
        from ckcnn.cli.predict_command import main

        keep_memory()
        make_quiet()
        return main(argv)
    return run("predict", argv)
