"""The table of accuracies and times, and the critical-difference picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ckcnn.archive.ranking import accuracies, critical_difference, mean_ranks
from ckcnn.archive.results import Result
from ckcnn.files import replacing, replacing_path


def write(results: Sequence[Result], folder: Path) -> list[Path]:
    """Write ``archive.md``, and ``archive.png`` once two methods have a problem in common; return their paths."""
    methods = list(dict.fromkeys(result.method for result in results))
    table = accuracies(results)
    ranks, problems = mean_ranks(table, methods)
    paths = [folder / "archive.md"]
    with replacing(paths[0]) as file:
        file.write(markdown(results, methods, table, ranks, problems).encode())
    if problems and len(methods) > 1:
        paths.append(folder / "archive.png")
        with replacing_path(paths[1]) as part:
            draw(ranks, critical_difference(len(methods), problems), problems, part)
    return paths


def markdown(
    results: Sequence[Result],
    methods: Sequence[str],
    table: Mapping[str, Mapping[str, float]],
    ranks: Mapping[str, float],
    problems: int,
) -> str:
    """Return the accuracy of each method on each problem, the mean ranks, and the seconds of training."""
    seconds: dict[tuple[str, str], list[float]] = {}
    for result in results:
        seconds.setdefault((result.problem, result.method), []).append(result.seconds)
    lines = ["# Classification on the UEA and UCR archives", ""]
    lines += ["Accuracy on the test set, in percent; every method with its default arguments.", ""]
    lines += [_line(["", *methods]), _rule(len(methods))]
    for problem, row in table.items():
        lines.append(_line([problem, *(f"{100 * row[method]:.2f}" if method in row else "-" for method in methods)]))
    if problems:
        lines.append(_line([f"**mean rank** ({problems} problems)", *(f"{ranks[method]:.2f}" for method in methods)]))
    lines += ["", "Processor seconds of training, mean over seeds.", "", _line(["", *methods]), _rule(len(methods))]
    for problem in table:
        times = [seconds.get((problem, method)) for method in methods]
        lines.append(_line([problem, *("-" if not some else f"{sum(some) / len(some):.1f}" for some in times)]))
    return "\n".join(lines) + "\n"


def draw(ranks: Mapping[str, float], difference: float, problems: int, path: Path) -> None:
    """Draw mean ranks on a line; a bar joins methods that do not differ at the 5 % level."""
    from matplotlib.figure import Figure

    ordered = sorted(ranks.items(), key=lambda item: item[1])
    figure = Figure(figsize=(7, 1.2 + 0.35 * len(ordered)), layout="constrained")
    axes = figure.add_subplot()
    for height, (method, rank) in enumerate(ordered):
        axes.plot([rank, rank], [0, -1 - height], color="0.6", linewidth=1)
        axes.text(rank, -1 - height, f" {method}  {rank:.2f}", va="center")
    for level, (low, high) in enumerate(cliques([rank for _, rank in ordered], difference)):
        axes.plot([low - 0.03, high + 0.03], [-0.25 - 0.2 * level] * 2, color="black", linewidth=4)
    axes.set_xlim(0.9, len(ordered) + 0.6)  # room for the last name
    axes.set_xticks(range(1, len(ordered) + 1))
    axes.set_ylim(-len(ordered) - 0.7, 0)
    axes.xaxis.set_ticks_position("top")
    axes.set_yticks([])
    for side in ("left", "right", "bottom"):
        axes.spines[side].set_visible(False)
    axes.set_title(f"mean rank over {problems} problems; critical difference {difference:.2f}", fontsize=10)
    figure.savefig(path, dpi=120, format="png")


def cliques(ranks: Sequence[float], difference: float) -> list[tuple[float, float]]:
    """Return the first and last of ascending ranks that lie within the critical difference, largest groups only.

    Example:
        >>> cliques([1.0, 1.5, 2.2, 4.0], 1.3)
        [(1.0, 2.2)]
    """
    found: list[tuple[float, float]] = []
    for start, low in enumerate(ranks):
        high = max(rank for rank in ranks[start:] if rank - low <= difference)
        if high > low and (not found or high > found[-1][1]):
            found.append((low, high))
    return found


def _line(words: Sequence[str]) -> str:
    return f"| {' | '.join(words)} |"


def _rule(columns: int) -> str:
    return "|---" * (columns + 1) + "|"
