"""`ckcnn fit-kernel`: which functions a kernel net can become, as a table and a picture."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from ckcnn.checks.hints import nearest
from ckcnn.cli.arguments import Parser
from ckcnn.files import check_output, replacing
from ckcnn.kernel_fits.fits import FEWEST_POINTS, NETS, TARGETS, Fit, fit

Fits = Mapping[tuple[str, str], Fit]  # by function and net
_GREY, _BLUE, _ORANGE = "#bdbdbd", "#0072b2", "#d55e00"  # distinguishable for the colour-blind
_ENLARGED = {"noise": 5}  # of which only such a part is drawn, because all of it would be a solid area


def main(argv: Sequence[str]) -> int:
    """Fit every net to every function, print the errors and draw the fits."""
    options = _parser().parse_args(list(argv))
    _check(options)
    start = time.perf_counter()
    torch.set_num_threads(1)  # the shapes are small; and so the result does not depend on the machine's cores
    p = torch.linspace(-1, 1, options.points)
    fits = _fit_all(options, p)
    draw(p, fits, f"Kernel nets after {options.steps:,} steps of training", options.output)
    table = Table("error in %", *options.nets, box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for function in options.functions:
        table.add_row(function, *(f"{100 * fits[function, net].error:.2f}" for net in options.nets))
    console = Console(width=120, soft_wrap=True)
    console.print(table)
    seconds = time.perf_counter() - start
    console.print(
        "Root mean square, relative to the deviation of the function: the best constant has 100.\n"
        f"{options.steps:,} steps on {options.points:,} points in {seconds:.0f} s, drawn to {options.output}",
        highlight=False,
    )
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="ckcnn fit-kernel",
        description="Fit kernel nets of the same size to functions from simple to rough, print the errors and draw "
        "the fits: sines take every shape, piecewise nets only the simple ones (paper, Sec. 4.2 and Appx. D.1).",
        epilog="example: ckcnn fit-kernel --functions chirp noise --nets relu-knots sine --omega-0 30",
    )
    parser.add_argument("--functions", nargs="+", metavar="NAME", default=list(TARGETS), help=", ".join(TARGETS))
    parser.add_argument("--nets", nargs="+", metavar="NAME", default=list(NETS), help=", ".join(NETS))
    parser.add_argument("--omega-0", type=float, default=100.0, help="of the net called sine (default: 100)")
    parser.add_argument("--points", type=int, default=500, help="samples of a function (default: 500)")
    parser.add_argument("--steps", type=int, default=1000, help="of training (default: 1000)")
    parser.add_argument(
        "--learning-rate",
        type=float,
        nargs="+",
        metavar="RATE",
        default=[1e-2],
        help="of all nets (default: 0.01); with several, every fit is the best of them",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the weights that nets start from (default: 0)")
    parser.add_argument(
        "--output", type=Path, default=Path("fit_kernel.png"), help="the picture (default: fit_kernel.png)"
    )
    return parser


def _check(options: argparse.Namespace) -> None:
    """All mistakes are reported before the work begins."""
    for what, names, known in (("function", options.functions, TARGETS), ("net", options.nets, NETS)):
        for name in names:
            if name not in known:
                raise ValueError(f"there is no {what} {name!r}; {nearest(name, known, f'{what}s')}")
    for option, least in (("points", FEWEST_POINTS), ("steps", 1), ("seed", 0)):
        if getattr(options, option) < least:
            raise ValueError(f"--{option} must be at least {least}, got {getattr(options, option)}")
    for option, values in (("learning-rate", options.learning_rate), ("omega-0", [options.omega_0])):
        for value in values:
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"--{option} must be a positive number, got {value:g}")
    check_output(options.output, ".png", ".svg", ".pdf")


def _fit_all(options: argparse.Namespace, p: Tensor) -> Fits:
    from rich.progress import track

    def train(function: str, net: str, learning_rate: float) -> Fit:
        torch.manual_seed(options.seed)  # every function finds the same net
        made = NETS[net].make(options.points, options.omega_0)
        return fit(made, p, TARGETS[function](p), options.steps, learning_rate)

    fits = {}
    pairs = [(function, net) for function in options.functions for net in options.nets]
    console = Console(stderr=True)
    for function, net in track(pairs, "fitting", console=console, transient=True, disable=not console.is_terminal):
        trained = [train(function, net, learning_rate) for learning_rate in options.learning_rate]
        fits[function, net] = min(trained, key=lambda one: one.error)
    return fits


def draw(p: Tensor, fits: Fits, title: str, path: Path) -> None:
    """Draw one row for each function and one column for each net, with the error above each fit.

    Args:
        p: the coordinates.
        fits: by the names of function and net.
        title: goes in front of what the colours mean.
        path: of the image; its ending says of which kind.
    """
    from matplotlib.figure import Figure

    functions, nets = (list(dict.fromkeys(key[index] for key in fits)) for index in (0, 1))
    width = max(6.5, 1.45 * len(nets) + 0.5)  # less would cut the title
    figure = Figure(figsize=(width, 1.05 * len(functions) + 0.9), layout="constrained")
    figure.suptitle(f"{title} (grey: the function, above each fit: its relative error)", fontsize=10)
    axes = figure.subplots(len(functions), len(nets), squeeze=False, sharex="row", sharey="row")
    for (function, net), found in fits.items():
        axis = axes[functions.index(function)][nets.index(net)]
        shown = slice(len(p) // _ENLARGED.get(function, 1))
        colour = _BLUE if net.startswith("sine") else _ORANGE
        target = TARGETS[function](p)
        axis.plot(p[shown], target[shown], color=_GREY, linewidth=2.2)
        axis.plot(p[shown], found.values[shown], color=colour, linewidth=0.8)
        low, high = target.min().item(), target.max().item()
        axis.set(xticks=[], yticks=[], ylim=(low - 0.2 * (high - low), high + 0.2 * (high - low)))
        axis.margins(x=0.02)
        axis.spines[:].set_color("#e0e0e0")
        axis.set_title(_percent(found.error), loc="right", pad=2, fontsize=8, color=colour)
    for axis, function in zip(axes[:, 0], functions, strict=True):
        part = f"\n(1/{_ENLARGED[function]} of it)" if function in _ENLARGED else ""
        axis.set_ylabel(function + part, fontsize=9)
    for axis, net in zip(axes[0], nets, strict=True):
        axis.annotate(NETS[net].title, (0.5, 1.3), xycoords="axes fraction", ha="center", fontsize=9)
    with replacing(path) as file:
        figure.savefig(file, format=path.suffix.removeprefix("."), dpi=110)


def _percent(error: float) -> str:
    return f"{100 * error:.1f} %" if error >= 5e-4 else "< 0.1 %"
