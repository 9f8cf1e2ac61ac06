"""Which of two epochs is better."""

from __future__ import annotations

from itertools import permutations

import pytest

from ckcnn.runs.ranking import rank

NAN = float("nan")
BEST_FIRST = {
    "max": [(0.9, 3.0), (0.7, 0.8), (0.7, 1.0), (0.7, NAN), (-0.1, 0.1), (NAN, 0.1), (NAN, 0.2)],
    "min": [(-0.1, 0.1), (0.7, 0.8), (0.7, 1.0), (0.7, NAN), (0.9, 3.0), (NAN, 0.1), (NAN, 0.2)],
}


@pytest.mark.parametrize("mode", ["max", "min"])
def test_sorting_puts_the_best_epoch_first_whatever_the_order(mode: str) -> None:
    for order in permutations(BEST_FIRST[mode], 4):
        ranked = sorted(order, key=lambda epoch: rank(*epoch, mode))  # type: ignore[arg-type]
        assert ranked == sorted(order, key=BEST_FIRST[mode].index)
