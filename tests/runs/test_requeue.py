"""SLURM is asked to run a job again that it stopped."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ckcnn.runs.requeue import requeue


@pytest.fixture(autouse=True)
def _no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        monkeypatch.delenv(name)


def test_slurm_is_asked_to_run_the_job_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "scontrol"
    script.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert not requeue()
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    assert requeue()
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "10")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    assert requeue()
    assert (tmp_path / "asked").read_text().splitlines() == ["requeue 12", "requeue 10_3"]


def test_a_person_who_ended_a_shell_does_not_want_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("SLURM_JOB_NAME", "interactive")
    assert not requeue()


def test_a_machine_without_scontrol_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("PATH", str(tmp_path))
    with caplog.at_level("INFO"):
        assert not requeue()
    assert "SLURM could not be asked to run job 12 again" in caplog.text
