"""What ``--space`` may say, and what becomes of it."""

from __future__ import annotations

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from ckcnn.search import space


def test_each_form() -> None:
    found = space.parse(
        [
            "model.dropout=0.0:0.3",
            "model.hidden_channels=20,30,40",
            "model.num_blocks=1:4",
            "model.learning_rate=1e-4:1e-2:log",
        ],
        (1.0, 100.0),
    )
    assert found == {
        "model.omega_0": FloatDistribution(1.0, 100.0, log=True),
        "model.dropout": FloatDistribution(0.0, 0.3),
        "model.hidden_channels": CategoricalDistribution([20, 30, 40]),
        "model.num_blocks": IntDistribution(1, 4),
        "model.learning_rate": FloatDistribution(1e-4, 1e-2, log=True),
    }


def test_choices_are_read_as_yaml() -> None:
    found = space.parse(["model.init=siren,null", "data.standardise=step", "--model.x=true,1.5,1e-3"], None)
    assert [kind.choices for kind in found.values()] == [("siren", None), ("step",), (True, 1.5, 1e-3)]  # type: ignore[attr-defined]


def test_a_named_omega_0_replaces_the_default() -> None:
    assert space.parse(["model.omega_0=5:50"], (1.0, 100.0)) == {"model.omega_0": FloatDistribution(5.0, 50.0)}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("model.dropout", "--space must be KEY=LOW:HIGH"),
        ("=1:2", "--space must be KEY=LOW:HIGH"),
        ("model.dropout=", "--space must be KEY=LOW:HIGH"),
        ("model.dropout=0.1:0.2:lin", "--space must be KEY=LOW:HIGH"),
        ("model.dropout=0.3:0.1", "0.3 is above 0.1"),
        ("model.dropout=a:0.1", "number at either end, got 'a'"),
        ("model.dropout=0:inf", "number at either end, got 'inf'"),
        ("model.learning_rate=0:1:log", "must begin above 0"),
    ],
)
def test_bad_entries(entry: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        space.parse([entry], None)


def test_corners_hold_every_end_and_choice() -> None:
    found = space.parse(["model.dropout=0.0:0.3", "model.init=siren,paper,reference"], (1.0, 100.0))
    corners = space.corners(found)
    assert {corner["model.init"] for corner in corners} == {"siren", "paper", "reference"}
    assert {corner["model.omega_0"] for corner in corners} == {1.0, 100.0}


def test_values_reach_the_command_line_exactly() -> None:
    values = {"model.omega_0": 1 / 3, "model.init": "siren", "model.x": None, "model.y": True}
    assert space.flags(values) == [
        "--model.omega_0=0.3333333333333333",
        "--model.init=siren",
        "--model.x=null",
        "--model.y=true",
    ]


def test_grid_is_even_on_the_scale_of_the_interval() -> None:
    found = space.parse([], (1.0, 100.0))
    assert space.grid(found, 5)["model.omega_0"] == pytest.approx([1, 10**0.5, 10, 10**1.5, 100])
    two = space.parse(["model.num_blocks=1:3", "model.init=siren,paper"], (1.0, 100.0))
    assert {key: len(points) for key, points in space.grid(two, 20).items()} == {
        "model.omega_0": 3,
        "model.num_blocks": 3,
        "model.init": 2,
    }


def test_suggests_from_every_kind() -> None:
    found = space.parse(["model.num_blocks=1:3", "model.init=siren,paper"], (1.0, 100.0))
    values = space.suggest(optuna.create_study().ask(), found)
    assert 1 <= values["model.omega_0"] <= 100
    assert values["model.num_blocks"] in (1, 2, 3)
    assert values["model.init"] in ("siren", "paper")
