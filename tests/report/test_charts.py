"""Everything that is drawn lies on the canvas, in its place, and few points show the same outline as many."""

from __future__ import annotations

import math
import re

import pytest

from ckcnn.report.axes import Axis
from ckcnn.report.charts import CANVAS, Line, chart


def positions(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"([-\d.]+),([-\d.]+)", path)]


def test_a_line_runs_from_corner_to_corner() -> None:
    made = chart("t", "x", [Line("a", [(0, 0.0), (1, 0.5), (2, 1.0)])])
    assert made is not None
    points = positions(made.lines[0].path)
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert [y for _, y in points] == sorted((y for _, y in points), reverse=True), "up is less on a canvas"
    left, middle, right = points
    assert middle == ((left[0] + right[0]) / 2, (left[1] + right[1]) / 2)
    assert all(CANVAS["left"] <= x <= CANVAS["right"] and CANVAS["top"] <= y <= CANVAS["bottom"] for x, y in points)


@pytest.mark.parametrize(
    "points",
    [
        [(0, 1.0)],
        [(5, 0.0), (5, 0.0)],
        [(0, -3.0), (1, -3.0)],
        [(0, 1e-30), (1, 1e30)],
        [(1, 1e300), (2, -1e300)],
        [(10**6, 0.1), (10**7, 0.2)],
        [(0, 0.123456789), (1, 0.123456790)],
    ],
)
@pytest.mark.parametrize("percent", [False, True])
def test_any_values_have_a_place_and_ticks(points: list[tuple[float, float]], percent: bool) -> None:
    made = chart("t", "x", [Line("a", points)], percent=percent)
    assert made is not None
    assert 1 <= len(made.y_ticks) <= 7
    assert 1 <= len(made.x_ticks) <= 7
    drawn = positions(made.lines[0].path)
    places = [*(y for y, _ in made.y_ticks), *(y for _, y in drawn)]
    assert all(CANVAS["top"] - 1 <= y <= CANVAS["bottom"] + 1 for y in places)
    assert len({text for _, text in made.y_ticks}) == len(made.y_ticks), "two ticks with the same text"


def test_gaps_are_left_out_and_nothing_is_no_chart() -> None:
    nan = math.nan
    made = chart("t", "x", [Line("a", [(0, 1.0), (1, nan), (2, math.inf), (3, 2.0)]), Line("b", [(0, nan)])])
    assert made is not None
    assert [line.name for line in made.lines] == ["a"]
    assert len(positions(made.lines[0].path)) == 2
    assert chart("t", "x", [Line("b", [(0, nan)])]) is None
    assert chart("t", "x", [Line("b", [(0.0, 1.0), (-1.0, 2.0)])], log_x=True) is None


def test_more_lines_than_colours_are_counted() -> None:
    made = chart("t", "x", [Line(str(n), [(0, n), (1, n)]) for n in range(9)])
    assert made is not None
    assert (len(made.lines), made.left_out) == (6, 3)


def test_many_points_keep_their_outline() -> None:
    values = [math.sin(n / 900) for n in range(16000)]
    values[7777] = 5.0  # one sample that sticks out
    made = chart("t", "lag", [Line("a", list(enumerate(values)))])
    assert made is not None
    points = positions(made.lines[0].path)
    assert len(points) <= 200
    assert min(y for _, y in points) == pytest.approx(
        Axis.over(values, CANVAS["bottom"], CANVAS["top"], margin=0.06)(5.0)
    )
    assert [x for x, _ in points] == sorted(x for x, _ in points)


@pytest.mark.parametrize(
    ("values", "log", "percent", "texts"),
    [
        ((0.857, 1.0), False, True, ["90 %", "95 %", "100 %"]),
        ((0, 11), False, False, ["0", "5", "10"]),
        ((-0.21, 0.26), False, False, ["-0.2", "-0.1", "0.0", "0.1", "0.2"]),
        ((1, 100), True, False, ["1", "10", "100"]),
        ((1, 16), True, False, ["1", "3", "10"]),
        ((2, 4), True, False, ["2", "2.5", "3", "3.5", "4"]),
        ((1e-30, 1e30), True, False, ["1e-30", "1e-15", "1", "1e+15", "1e+30"]),
    ],
)
def test_ticks_are_round(values: tuple[float, float], log: bool, percent: bool, texts: list[str]) -> None:
    ticks = Axis.over(values, 0, 100, log).ticks(percent)
    assert [text for _, text in ticks] == texts
    assert [place for place, _ in ticks] == sorted(place for place, _ in ticks)


def test_wide_positive_values_are_drawn_logarithmically() -> None:
    made = chart("loss", "epoch", [Line("a", [(0, 1.0), (1, 0.1), (2, 0.01)])])
    assert made is not None
    assert [text for _, text in made.y_ticks] == ["0.01", "0.1", "1"]
    first, second, third = (y for _, y in positions(made.lines[0].path))
    assert second - first == pytest.approx(third - second, abs=0.11)
