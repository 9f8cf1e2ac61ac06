"""Accuracy against omega_0: the authors' effective initialisation, SIREN, and ``omega_0: auto``.

    CKCNN_DATA=... python -m benchmarks.omega_0 run digits --runs DIR [--part 0/2]   # trains and tests what is missing
    python -m benchmarks.omega_0 report --runs DIR --output omega_0.png              # the table and the picture

Every cell is an ordinary ``ckcnn fit`` and ``ckcnn test``; the epoch is chosen on the validation split. Trainings are
short, so that 39 of them for each task are possible on a laptop: what is compared is how the kernels start and learn.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator
from pathlib import Path

from matplotlib.figure import Figure

from ckcnn.__main__ import main as ckcnn
from ckcnn.runs.folder import RunFolder

OMEGAS = (1, 3, 10, 30, 100, 300)
SEEDS = (0, 1, 2)
KINDS = {"reference": "authors' effective init", "siren": "SIREN", "auto": "auto"}
COLOURS = {"reference": "#d55e00", "siren": "#0072b2", "auto": "#009e73"}
TASKS = {
    "digits": ("digits, 20 epochs", ["--config", "digits.yaml"], []),
    "ct": (
        "CharacterTrajectories, 12 epochs",
        [
            "--config",
            "character_trajectories.yaml",
            "--trainer.max_epochs=12",
            "--model.schedule=one_cycle",
            "--model.learning_rate=2e-3",
        ],
        [],
    ),
    "copy": (
        "copy memory T = 200, 8 epochs",
        ["--config", "copy_memory.yaml", "--data.length=200", "--trainer.max_epochs=8", "--model.learning_rate=1e-3"],
        [],
    ),
    "pmnist": (
        "pMNIST, 300 steps",
        [
            "--config",
            "pmnist.yaml",
            "--trainer.max_epochs=1",
            "--trainer.limit_train_batches=300",
            "--trainer.limit_val_batches=10",
        ],
        ["--trainer.limit_test_batches=40"],
    ),
}
Cell = tuple[str, int | None, int]


def cells() -> Iterator[Cell]:
    """Kind, omega_0 and seed of every run; first one seed of all, so that an early look is possible."""
    for seed in SEEDS:
        yield "auto", None, seed
        yield from (("siren", omega_0, seed) for omega_0 in OMEGAS)
        yield from (("reference", omega_0, seed) for omega_0 in OMEGAS)


def name_of(task: str, cell: Cell) -> str:
    """The folder of a cell."""
    kind, omega_0, seed = cell
    return f"{task}-{kind}-{omega_0 or ''}-{seed}"


def run(task: str, cell: Cell, runs: Path) -> None:
    """Train and test one cell, unless that was done."""
    _, arguments, test = TASKS[task]
    kind, omega_0, seed = cell
    name = name_of(task, cell)
    if any(folder.results.is_file() for folder in RunFolder.all(runs / name)):
        return
    kernel = ["--model.omega_0=auto"] if omega_0 is None else [f"--model.omega_0={omega_0}", f"--model.init={kind}"]
    places = [f"--runs={runs}", f"--name={name}", f"--seed_everything={seed}", "--trainer.enable_progress_bar=false"]
    code = ckcnn(["fit", *arguments, *kernel, *places])
    if code == 0:
        ckcnn(["test", *arguments, *kernel, *places, *test])


def accuracy(task: str, cell: Cell, runs: Path) -> float | None:
    """In per cent; None if there is no such run."""
    for folder in reversed(RunFolder.all(runs / name_of(task, cell))):
        if folder.results.is_file():
            return 100 * float(json.loads(folder.results.read_text())["metrics"]["test/accuracy"])
    return None


def values(task: str, kind: str, omega_0: int | None, runs: Path) -> list[float]:
    """The accuracies of all seeds."""
    found = (accuracy(task, (kind, omega_0, seed), runs) for seed in SEEDS)
    return [value for value in found if value is not None]


def report(runs: Path, output: Path) -> None:
    """Print the table (mean ± deviation of the seeds) and draw the curves."""
    figure = Figure(figsize=(11, 7), layout="constrained")
    print(f"| task | start | {' | '.join(map(str, OMEGAS))} | auto |\n|---|---|{'---|' * len(OMEGAS)}---|")
    for axis, (task, (title, _, _)) in zip(figure.subplots(2, 2).flat, TASKS.items(), strict=True):
        auto = values(task, "auto", None, runs)
        for kind in ("reference", "siren"):
            found = {omega_0: values(task, kind, omega_0, runs) for omega_0 in OMEGAS}
            found = {omega_0: points for omega_0, points in found.items() if points}
            means = [statistics.mean(points) for points in found.values()]
            axis.plot(list(found), means, "-", color=COLOURS[kind], label=KINDS[kind])
            for omega_0, points in found.items():
                axis.plot([omega_0] * len(points), points, "o", color=COLOURS[kind], markersize=3.5)
            shown = [said(found.get(omega_0, [])) for omega_0 in OMEGAS]
            print(f"| {title} | {KINDS[kind]} | {' | '.join(shown)} | {said(auto)} |")
        if auto:
            axis.axhline(statistics.mean(auto), color=COLOURS["auto"], label=KINDS["auto"])
            axis.axhspan(min(auto), max(auto), color=COLOURS["auto"], alpha=0.2, linewidth=0)
        axis.set(
            xscale="log", xticks=OMEGAS, xticklabels=OMEGAS, title=title, xlabel="omega_0", ylabel="test accuracy (%)"
        )
        axis.minorticks_off()
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize=9)
    figure.savefig(output, dpi=110)


def said(points: list[float]) -> str:
    """Mean and deviation, as the table shows them."""
    if not points:
        return "-"
    spread = f" ± {statistics.stdev(points):.2f}" if len(points) > 1 else ""
    return f"{statistics.mean(points):.2f}{spread}"


def main() -> None:
    """Do what the first word says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.omega_0", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("run", help="train and test what is missing")
    train.add_argument("tasks", nargs="+", choices=TASKS)
    train.add_argument("--part", default="0/1", help="i/n: every n-th cell, from the i-th")
    draw = commands.add_parser("report", help="the table and the picture")
    draw.add_argument("--output", type=Path, default=Path("omega_0.png"))
    for command in (train, draw):
        command.add_argument("--runs", type=Path, required=True)
    options = parser.parse_args()
    if options.command == "report":
        report(options.runs, options.output)
        return
    start, step = map(int, options.part.split("/"))
    for task in options.tasks:
        for cell in list(cells())[start::step]:
            run(task, cell, options.runs)


if __name__ == "__main__":
    main()
