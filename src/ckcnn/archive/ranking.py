"""Mean ranks over problems, and which of them differ (Demšar, 2006)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ckcnn.archive.results import Result


def accuracies(results: Sequence[Result]) -> dict[str, dict[str, float]]:
    """Return the mean accuracy over seeds of each method, for each problem."""
    found: dict[str, dict[str, list[float]]] = {}
    for result in results:
        found.setdefault(result.problem, {}).setdefault(result.method, []).append(result.accuracy)
    return {
        problem: {method: sum(values) / len(values) for method, values in methods.items()}
        for problem, methods in found.items()
    }


def mean_ranks(table: Mapping[str, Mapping[str, float]], methods: Sequence[str]) -> tuple[dict[str, float], int]:
    """Return the mean rank of each method and the number of problems, those that all methods have a result for.

    The best one has rank 1; equally good ones share the mean of their ranks.

    Example:
        >>> mean_ranks({"one": {"a": 0.9, "b": 0.8, "c": 0.8}, "two": {"a": 0.7, "b": 0.9}}, ["a", "b", "c"])
        ({'a': 1.0, 'b': 2.5, 'c': 2.5}, 1)
    """
    complete = [row for row in table.values() if all(method in row for method in methods)]
    if not complete:
        return {}, 0
    ranks = {method: [_rank(row, method, methods) for row in complete] for method in methods}
    return {method: sum(values) / len(values) for method, values in ranks.items()}, len(complete)


def _rank(row: Mapping[str, float], method: str, methods: Sequence[str]) -> float:
    better = sum(row[other] > row[method] for other in methods)
    equal = sum(row[other] == row[method] for other in methods)
    return better + (equal + 1) / 2


def critical_difference(methods: int, problems: int) -> float:
    """Return how far mean ranks must lie apart to differ at the 5 % level (Nemenyi test).

    Example:
        >>> round(critical_difference(4, 11), 2)
        1.41
    """
    from scipy.stats import studentized_range

    quantile = float(studentized_range.ppf(0.95, methods, math.inf)) / math.sqrt(2)
    return quantile * math.sqrt(methods * (methods + 1) / (6 * problems))
