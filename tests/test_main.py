from __future__ import annotations

import subprocess
import sys

import pytest

import ckcnn
from ckcnn.__main__ import main


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "data" in capsys.readouterr().out
    assert main([]) == 0


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"ckcnn {ckcnn.__version__}\n"


def test_unknown_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dat"]) == 2
    captured = capsys.readouterr()
    assert captured.err == "ckcnn: error: there is no command 'dat'; did you mean data?\n"
    assert not captured.out


def test_help_loads_nothing_heavy() -> None:
    program = "import sys; from ckcnn.__main__ import main; main(['--help']); print('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert answer.splitlines()[-1] == "False"
