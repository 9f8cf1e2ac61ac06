"""`ckcnn fit-kernel` as it is typed, and what the paper says about it, in short runs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.image import imread

from ckcnn.__main__ import main
from ckcnn.kernel_fits.fits import FEWEST_POINTS, NETS, TARGETS, fit

PIECEWISE = [name for name in NETS if not name.startswith("sine")]
ORANGE, BLUE = np.array([0xD5, 0x5E, 0x00]) / 255, np.array([0x00, 0x72, 0xB2]) / 255


def read_table(text: str) -> dict[str, dict[str, float]]:
    """The errors that were printed, by function and net."""
    head, *rows = (line.split() for line in text.splitlines())
    return {row[0]: dict(zip(head[3:], map(float, row[1:]), strict=True)) for row in rows if row[0] in TARGETS}


def test_sines_fit_what_piecewise_nets_cannot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rough, output = ["sawtooth", "chirp", "noise"], tmp_path / "x.png"
    arguments = ["--functions", *rough, "--points", "100", "--steps", "80", "--output", str(output)]
    assert main(["fit-kernel", *arguments]) == 0
    captured = capsys.readouterr()
    table = read_table(captured.out)
    assert list(table) == rough
    for function, errors in table.items():
        assert list(errors) == list(NETS)
        assert max(errors["sine"], errors["sine-auto"]) < 5, function
        assert min(errors[net] for net in PIECEWISE) > 60, function
    assert f"drawn to {output}" in captured.out.replace("\n", "")
    assert not captured.err
    assert [path.name for path in tmp_path.iterdir()] == ["x.png"]
    assert output.read_bytes().startswith(b"\x89PNG")
    picture = imread(output)
    assert picture.shape[:2] == (int(110 * (1.05 * 3 + 0.9)), int(110 * (1.45 * 8 + 0.5)))
    orange, blue = (columns_with(colour, picture) for colour in (ORANGE, BLUE))
    assert orange.max() < 0.77 * picture.shape[1]  # six columns of piecewise nets
    assert blue.min() > 0.75 * picture.shape[1]  # two of sines


def columns_with(colour: np.ndarray, picture: np.ndarray) -> np.ndarray:
    """Where a colour is seen, from the left."""
    return np.flatnonzero((np.abs(picture[..., :3] - colour).sum(-1) < 0.02).any(0))


def test_one_row_for_each_function(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--nets", "sine", "--points", "64", "--steps", "1", "--output", str(tmp_path / "x.svg")]
    assert main(["fit-kernel", *arguments]) == 0
    assert list(read_table(capsys.readouterr().out)) == list(TARGETS)
    assert "<svg" in (tmp_path / "x.svg").read_text()


@pytest.mark.parametrize("activation", ["relu", "leaky-relu", "swish"])
def test_knots_help_where_piecewise_nets_can_follow(activation: str) -> None:
    p = torch.linspace(-1, 1, 200)
    errors = {}
    for init in ("zero", "knots"):
        torch.manual_seed(0)
        net = NETS[f"{activation}-{init}"].make(200, 1.0)
        errors[init] = fit(net, p, TARGETS["gaussian"](p), 120, 1e-2).error
    assert errors["knots"] < 0.95 * errors["zero"] < 0.2


def test_nets_are_equal_up_to_the_nonlinearity() -> None:
    """The piecewise ones have layer norm besides: a weight and a bias for each unit of two layers."""
    sizes = {name: sum(p.numel() for p in net.make(500, 30.0).parameters()) for name, net in NETS.items()}
    assert {size - 2 * 2 * 32 * (name in PIECEWISE) for name, size in sizes.items()} == {sizes["sine"]}


def test_targets_are_what_they_are_called() -> None:
    p = torch.tensor([-1.0, -0.5, 0.0, 0.05, 0.2, 1.0])
    values = {name: function(p).tolist() for name, function in TARGETS.items()}
    half = math.exp(-0.5)
    assert values["gaussian"] == pytest.approx([0, math.exp(-3.125), 1, math.exp(-1 / 32), half, 0], abs=1e-5)
    assert values["steps"] == pytest.approx([0.2, 0.9, 0.4, 0.4, -1.0, -0.2])
    assert values["sawtooth"] == pytest.approx([0, -1, 0, 0.5, 0, 0], abs=1e-5)
    assert values["sines"][2] == 0
    assert values["chirp"] == pytest.approx([0, math.sin(2 * math.pi * 1.25), 0, *values["chirp"][3:]], abs=1e-5)
    grid = torch.linspace(-1, 1, 2000)
    crossings = {name: int((f(grid)[1:] * f(grid)[:-1] < 0).sum()) for name, f in TARGETS.items()}
    assert crossings["sawtooth"] in (19, 20)  # ten teeth: up through zero, and down at the edge
    assert crossings["chirp"] in (27, 28)  # fourteen periods
    assert crossings["noise"] == pytest.approx(1000, rel=0.1)
    for name, function in TARGETS.items():
        assert function(grid).abs().max() <= 1, name
        assert function(torch.linspace(-1, 1, FEWEST_POINTS)).std() > 0.3, name
        assert torch.equal(function(grid), function(grid)), name


def test_error_of_the_best_constant_is_one() -> None:
    class Constant(torch.nn.Linear):
        def forward(self, p: torch.Tensor) -> torch.Tensor:
            return self.bias.expand(1, len(p))

    p = torch.linspace(-1, 1, 80)
    assert fit(Constant(1, 1), p, 3 + TARGETS["sines"](p), 400, 1.0).error == pytest.approx(1, abs=1e-3)


def test_of_several_learning_rates_the_best_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def error(*rates: str) -> float:
        arguments = ["--functions", "gaussian", "--nets", "sine", "--points", "64", "--steps", "30"]
        assert main(["fit-kernel", *arguments, "--output", str(tmp_path / "x.png"), "--learning-rate", *rates]) == 0
        return read_table(capsys.readouterr().out)["gaussian"]["sine"]

    alone = {rate: error(rate) for rate in ("1e-5", "1e-2", "1e30")}
    assert alone["1e-2"] < alone["1e-5"] < alone["1e30"]  # also if the last one is not a number
    assert error("1e30", "1e-2", "1e-5") == alone["1e-2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--functions", "gausian"], "there is no function 'gausian'; did you mean gaussian?"),
        (["--functions", "xyz"], "the functions are gaussian, steps, sawtooth"),
        (["--nets", "relu"], "there is no net 'relu'; did you mean relu-zero?"),
        (["--points", "63"], "--points must be at least 64, got 63"),
        (["--points", "many"], "--points must be a whole number, got 'many'; see ckcnn fit-kernel --help"),
        (["--steps", "0"], "--steps must be at least 1, got 0"),
        (["--seed", "-1"], "--seed must be at least 0, got -1"),
        (["--learning-rate", "1e-2", "0"], "--learning-rate must be a positive number, got 0"),
        (["--omega-0", "nan"], "--omega-0 must be a positive number, got nan"),
        (["--output", "x.jpeg"], "--output must end in .png, .svg or .pdf, got x.jpeg"),
        (["--output", "absent/x.png"], "--output absent/x.png lies in a folder that does not exist; make it first"),
        (["--output", "folder.png"], "--output folder.png is a folder; choose another name"),
        (
            ["--function", "noise"],
            "there is no option --function (did you mean --functions?); see",
        ),
    ],
)
def test_mistakes_end_with_one_message_before_the_work(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ckcnn.kernel_fits.command.fit", None)  # would fail
    Path("folder.png").mkdir()
    assert main(["fit-kernel", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("ckcnn: error: ")
    assert message in error
    assert len(error.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["folder.png"]
