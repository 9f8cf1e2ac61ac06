"""How much training pruning saves, from a search without: ``python -m benchmarks.pruning runs/digits_search``.

The search was run with ``--strategy random --pruner none``. Random trials do not depend on each other, and runs are
repeatable to the last bit. So what a search with a pruner would have done is found by showing it the epochs of the
finished trials one by one. The order of the trials is shuffled 200 times, because it matters which ones come first.
"""

from __future__ import annotations

import argparse
import csv
import random
import statistics
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import optuna

from ckcnn.runs import metrics_table
from ckcnn.runs.folder import RunFolder
from ckcnn.search.strategies import Pruner, make_pruner

ORDERS = 200


def curves(folder: Path) -> list[list[float]]:
    """The best value so far after each epoch, for every complete trial; large is good."""
    with (folder / "search.csv").open(newline="") as file:
        trials = [row for row in csv.DictReader(file) if row["state"] == "complete"]
    monitor = next(name for name in trials[0] if name.startswith("val/"))
    tables = [metrics_table.read(RunFolder.all(folder / row["folder"])[-1].metrics) for row in trials]
    sign = 1 if monitor.endswith(("accuracy", "auroc")) else -1
    return [list(accumulate((sign * float(row[monitor]) for row in table), max)) for table in tables]


def replay(trials: Sequence[Sequence[float]], pruner: Pruner, epochs: int) -> tuple[int, int | None]:
    """Epochs that a search would have trained in all, and until it had the best value; None if it never had."""
    study = optuna.create_study(study_name="replayed", direction="maximize", pruner=make_pruner(pruner, epochs))
    best, trained, until = max(curve[-1] for curve in trials), 0, None
    for curve in trials:
        trial = study.ask()
        pruned = False
        for epoch, value in enumerate(curve, 1):
            trial.report(value, epoch)
            trained += 1
            if epoch < len(curve) and trial.should_prune():
                pruned = True
                break
        if pruned:
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        else:
            study.tell(trial, curve[-1])
            until = trained if until is None and curve[-1] == best else until
    return trained, until


def report(folder: Path) -> None:
    """Print a table."""
    trials = curves(folder)
    epochs = max(map(len, trials))
    orders = [random.Random(seed).sample(trials, len(trials)) for seed in range(ORDERS)]
    print(f"{folder}: {len(trials)} trials of {epochs} epochs, best value {max(curve[-1] for curve in trials):.4f}")
    print(
        "| pruner | epochs, as they came | mean of all orders | best value found | until the best value, where found |"
    )
    print("|---|---|---|---|---|")
    whole = [replay(order, "none", epochs) for order in orders]
    for pruner in ("none", "median", "hyperband"):
        as_it_came, _ = replay(trials, pruner, epochs)  # type: ignore[arg-type]
        shuffled = [replay(order, pruner, epochs) for order in orders]  # type: ignore[arg-type]
        both = [(until, before) for (_, until), (_, before) in zip(shuffled, whole, strict=True) if until and before]
        share = statistics.mean(until for until, _ in both) / statistics.mean(before for _, before in both)
        mean = statistics.mean(total for total, _ in shuffled)
        figures = f"{mean:.0f} ({mean / whole[0][0]:.0%}) | {len(both) / ORDERS:.0%} | {share:.0%}"
        print(f"| {pruner} | {as_it_came} | {figures} |")


if __name__ == "__main__":
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    for path in parser.parse_args().folders:
        report(path)
