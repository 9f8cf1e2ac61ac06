"""``--help`` shows first what a user changes, with the real defaults, and the rest on request."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from typing import Any

import pytest
from pytorch_lightning import Trainer

from ckcnn import CKCNN, presets
from ckcnn.__main__ import main
from ckcnn.cli import commands, short_help
from ckcnn.datamodules import Arrays, SequenceDataModule


def _said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 0
    return capsys.readouterr().out


def test_the_first_page_has_about_twenty_lines_that_are_true(capsys: pytest.CaptureFixture[str]) -> None:
    said = _said(capsys, "fit", "--help")
    flags = re.findall(r"^  (--[\w.]+) (\S+)", said, re.MULTILINE)
    assert 15 <= len(flags) <= 25
    assert "omega_0" in said
    assert max(map(len, said.splitlines())) <= 120
    base = presets.load(presets.BASE)
    known: dict[str, Any] = {
        f"--{part}.{name}": parameter.default
        for part, kinds in {"model": [CKCNN], "data": [Arrays, SequenceDataModule], "trainer": [Trainer]}.items()
        for kind in kinds
        for name, parameter in inspect.signature(kind.__init__).parameters.items()
    }
    known["--trainer.max_epochs"] = base["trainer"]["max_epochs"]
    assert f"--early_stopping.patience {base['early_stopping']['patience']}" in said
    for flag, value in flags:
        if "." in flag:
            assert flag in known
            if known[flag] is not None:
                assert value == str(known[flag]), flag


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--help", "model"], ["Options of CKCNN", "--model.omega_0 30.0", "--model.causal true"]),
        (["--help=model", "--model", "GRU"], ["Options of GRU", "--model.size"]),
        (["--help", "data", "Series"], ["--data.ahead 1", "--data.window", "--data.batch_size 64"]),
        (["--help", "trainer"], ["--trainer.accumulate_grad_batches 1", "--trainer.precision"]),
    ],
)
def test_the_options_of_a_group(words: list[str], shown: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    said = _said(capsys, "fit", *words)
    assert all(text in said for text in shown)
    assert "in_channels" not in said, "a fact of the data is no option"


def test_every_option_of_ours_is_explained() -> None:
    for group, name in (("model", "CKCNN"), ("model", "TCN"), ("data", "Arrays"), ("data", "UEA")):
        lines = short_help.text("fit", ["--help", group, name]).splitlines()[2:]
        assert not [line for line in lines if line.startswith("  --") and len(line.split()) < 3 and len(line) < 36], (
            name
        )
        assert not [line for line in lines if re.search(r"\bsee [A-Z]", line)], "help that sends the reader elsewhere"


@pytest.mark.parametrize("command", ["validate", "test", "predict"])
def test_commands_that_use_a_run(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = _said(capsys, command, "-h")
    assert "--ckpt_path RUN" in said
    assert ("--input FILE" in said) == (command == "predict")
    assert "--model.dropout" not in said


def test_a_group_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "--help", "modle"]) == 2
    assert "--help explains model, data, trainer, got 'modle'; did you mean model?" in capsys.readouterr().err
    assert main(["fit", "--help", "model", "CKNN"]) == 2
    assert "there is no model CKNN; did you mean CKCNN?" in capsys.readouterr().err


def test_all_options_are_those_of_lightning(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    class Recorded:
        def __init__(self, command: str, words: list[str]) -> None:
            asked.append(words)

        def execute(self) -> None: ...

    monkeypatch.setattr(commands, "CKCNNCLI", Recorded)
    assert main(["fit", "--help-all"]) == 0
    assert asked == [["--help"]]


def test_the_first_page_does_not_wait_for_torch() -> None:
    code = "import sys; from ckcnn.__main__ import main; main(['fit', '--help']); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
