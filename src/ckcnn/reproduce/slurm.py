"""A job array for SLURM: one job for each training."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from ckcnn.files import replacing

_SCRIPT = """#!/bin/bash
# {count} trainings of the paper's tables, one job each; a job that is stopped saves its run and is requeued.
#SBATCH --job-name=ckcnn-reproduce
#SBATCH --array=0-{last}
#SBATCH --gpus=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=4
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=TERM@120

exec srun ckcnn reproduce {words} --job "$SLURM_ARRAY_TASK_ID"
"""


def write(path: Path, count: int, words: Sequence[str]) -> str:
    """Write the script and say what to do with it."""
    with replacing(path) as file:
        file.write(_SCRIPT.format(count=count, last=count - 1, words=shlex.join(words)).encode())
    return f"{count} jobs written to {path}; set time and partition in it, then: sbatch {path}"
