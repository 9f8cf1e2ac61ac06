"""Asks SLURM to run a job again."""

from __future__ import annotations

import os
import subprocess

from pytorch_lightning.utilities import rank_zero_info  # which knows the rank, also before there is a trainer


def requeue() -> bool:
    """Ask SLURM to run this job again; return whether it will."""
    job = os.environ.get("SLURM_JOB_ID")
    if job is None or os.environ.get("SLURM_JOB_NAME") in ("bash", "interactive"):
        return False
    if array := os.environ.get("SLURM_ARRAY_JOB_ID"):
        job = f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    try:
        done = subprocess.run(["scontrol", "requeue", job], check=False, capture_output=True, text=True)
    except OSError as error:
        rank_zero_info(f"SLURM could not be asked to run job {job} again: {error}")
        return False
    rank_zero_info(f"job {job} will run again" if done.returncode == 0 else f"scontrol requeue {job}: {done.stderr}")
    return done.returncode == 0
