"""Charts as geometry: where lines, dots and ticks lie on a small canvas. The template of the page draws them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ckcnn.report.axes import Axis, Ticks

CANVAS = {"width": 360, "height": 210, "left": 48, "right": 352, "top": 8, "bottom": 176}
_POINTS = 120  # of a line; more cannot be distinguished on the canvas
_LINES = 6  # of a chart; more have no colour of their own
_WIDE = 30.0  # positive values that spread more than this get a logarithmic axis


@dataclass(frozen=True)
class Line:
    """A series of points, in rising order of x.

    Attributes:
        name: for the legend.
        points: pairs of x and y; those that are not finite are left out.
        look: how it is drawn: ``line``, ``dots``, ``rings`` or ``both``.
    """

    name: str
    points: Sequence[tuple[float, float]]
    look: str = "line"

    def drawable(self, log_x: bool) -> list[tuple[float, float]]:
        """The points that have a place on the canvas."""
        return [(x, y) for x, y in self.points if math.isfinite(x) and math.isfinite(y) and (x > 0 or not log_x)]


@dataclass(frozen=True)
class Drawn:
    """A line on the canvas.

    Attributes:
        name: for the legend.
        look: as in `Line`.
        path: the line, in SVG's words.
        dots: positions.
    """

    name: str
    look: str
    path: str
    dots: list[tuple[float, float]]


@dataclass(frozen=True)
class Chart:
    """A chart on its canvas: what is written, and where everything lies.

    Attributes:
        title: what it shows.
        x_label: what lies along the x axis.
        x_ticks: positions and texts.
        y_ticks: positions and texts.
        lines: at most as many as there are colours.
        mark: position of a dashed vertical line.
        mark_name: what it marks, for the legend.
        left_out: how many lines did not fit.
    """

    title: str
    x_label: str
    x_ticks: Ticks
    y_ticks: Ticks
    lines: list[Drawn]
    mark: float | None
    mark_name: str
    left_out: int


def chart(
    title: str,
    x_label: str,
    lines: Sequence[Line],
    *,
    percent: bool = False,
    log_x: bool = False,
    x_ticks: Ticks | None = None,
    mark: float | None = None,
    mark_name: str = "",
) -> Chart | None:
    """Lay lines out on a canvas; return None if there is nothing to draw.

    Args:
        title: what it shows.
        x_label: what lies along the x axis.
        lines: the series, the most important first.
        percent: whether values are fractions that people write as percentages.
        log_x: whether the x axis is logarithmic.
        x_ticks: values and texts along the x axis, instead of round numbers.
        mark: where to draw a dashed vertical line.
        mark_name: what it marks.
    """
    drawable = [(line, points) for line in lines if (points := line.drawable(log_x))]
    if not drawable:
        return None
    shown = drawable[:_LINES]
    points = [point for _, line_points in shown for point in line_points]
    ys = [y for _, y in points]
    log_y = min(ys) > 0 and max(ys) / min(ys) > _WIDE
    x_axis = Axis.over([x for x, _ in points], CANVAS["left"], CANVAS["right"], log_x, 0.02)
    y_axis = Axis.over(ys, CANVAS["bottom"], CANVAS["top"], log_y, 0.06)
    return Chart(
        title=title,
        x_label=x_label,
        x_ticks=x_axis.ticks() if x_ticks is None else [(x_axis(value), text) for value, text in x_ticks],
        y_ticks=y_axis.ticks(percent),
        lines=[_draw(line, line_points, x_axis, y_axis) for line, line_points in shown],
        mark=None if mark is None else x_axis(mark),
        mark_name=mark_name,
        left_out=len(drawable) - len(shown),
    )


def _draw(line: Line, points: list[tuple[float, float]], x_axis: Axis, y_axis: Axis) -> Drawn:
    thin = _thin(points) if line.look == "line" else points
    placed = [(x_axis(x), y_axis(y)) for x, y in thin]
    path = "M" + " ".join(f"{x:g},{y:g}" for x, y in placed) if line.look in ("line", "both") else ""
    dots = placed if line.look != "line" or len(placed) == 1 else []
    return Drawn(line.name, line.look, path, dots)


def _thin(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Few points with the same outline: the lowest and the highest one of each stretch, in their order."""
    if len(points) <= _POINTS:
        return points
    size = math.ceil(len(points) / (_POINTS // 2))
    kept = []
    for start in range(0, len(points), size):
        stretch = points[start : start + size]
        ends = {min(stretch, key=lambda point: point[1]), max(stretch, key=lambda point: point[1])}
        kept += sorted(ends)
    return kept
