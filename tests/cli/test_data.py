"""`ckcnn data` as it is typed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from ckcnn.__main__ import main
from ckcnn.cli.data import BENCHMARKS
from tests.datamodules import official


def test_the_list_tells_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    official.write_mnist(tmp_path)
    official.write_trajectories(tmp_path)
    assert main(["data", "prepare", "CharacterTrajectories", "--root", str(tmp_path)]) == 0
    capsys.readouterr()
    assert main(["data", "--root", str(tmp_path)]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert lines.keys() >= BENCHMARKS.keys()
    assert len(BENCHMARKS) == 13
    assert "54,000 / 6,000 / 10,000" in lines["SequentialMNIST"]
    assert "present   188 kB" in lines["SequentialMNIST"]
    assert "prepared" in lines["CharacterTrajectories"]
    assert "75 x 72" in lines["PhysioNet"]
    assert "absent" in lines["PhysioNet"]
    assert "built in" in lines["Digits"]


def test_prepare_shows_how_far_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    official.write_sepsis(tmp_path)
    assert main(["data", "--root", str(tmp_path), "prepare", "PhysioNet", "Digits"]) == 0
    captured = capsys.readouterr()
    assert "PhysioNet: reading patients" in captured.err
    assert "28 train, 6 val, 6 test" in captured.out
    assert "Digits: 1,257 train" in captured.out
    assert (tmp_path / "cache" / "digits.h5").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["Digits"],
        ["Digits", "--drop-rate", "0.5", "--dt", "1", "4"],
        ["CopyMemory", "--set", "length=30"],
        ["AddingProblem", "--set", "length=30", "--samples", "2"],
        ["PhysioNet", "--drop-rate", "0.3"],
        ["SpeechCommands", "--set", "mfcc=true", "--drop-rate", "0.3"],
        ["PennTreebank", "--set", "window=40", "--set", "history=8"],
        ["Arrays", "--set", "path={root}/mine.npz"],
    ],
)
def test_show_draws(arguments: list[str], tmp_path: Path) -> None:
    official.write_sepsis(tmp_path)
    official.write_speech(tmp_path)
    official.write_ptb(tmp_path)
    np.savez(tmp_path / "mine.npz", **official.user_arrays())
    output = tmp_path / "x.png"
    places = ["--root", str(tmp_path), "--output", str(output)]
    assert main(["data", "show", *(text.format(root=tmp_path) for text in arguments), *places]) == 0
    picture = imread(output)
    assert picture.shape[1] >= 1000
    assert picture.std() > 0.03  # not blank


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prepare", "Digit"], "there is no benchmark 'Digit'; did you mean Digits?"),
        (["prepare", "sequentialmnist"], "did you mean SequentialMNIST?"),
        (["prepare"], "the following arguments are required: NAME"),
        (["perpare", "Digits"], "must be one of 'prepare', 'show', got 'perpare'"),
        (["prepare", "Digits", "--set", "batchsize=3"], "Digits has no option 'batchsize'; did you mean batch_size?"),
        (["prepare", "Digits", "--set", "seed"], "--set wants OPTION=VALUE, got 'seed'"),
        (["prepare", "Arrays"], "Arrays needs path: --set path=..."),
        (["show", "SktimeSeries", "--set", "series=lynx", "--output", "x.png"], "needs window: --set window=..."),
        (["prepare", "SpeechCommands", "--set", "words=[yes, go]"], "quotes"),
        (["show", "Digits"], "the following arguments are required: --output"),
        (["show", "Digits", "--output", "x.png", "--drop-rate", "30"], "it is a fraction"),
        (["show", "Digits", "--output", "x.png", "--dt", "3"], "train_dt must be one of"),
        (["show", "Digits", "--output", "x.png", "--samples", "0"], "--samples must be at least 1, got 0"),
    ],
)
def test_mistakes_end_with_one_message(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["data", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("ckcnn: error: ")
    assert len(error.splitlines()) == 1


def test_an_image_that_cannot_be_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "show", "Digits", "--root", str(tmp_path), "--output", str(tmp_path / "x.xyz")]) == 2
    assert "x.xyz" in capsys.readouterr().err.splitlines()[-1]
