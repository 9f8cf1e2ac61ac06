"""The classifiers that are compared: each with its default arguments, nothing tuned for a problem."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch

from ckcnn.models.baselines import GRU, count_parameters
from ckcnn.models.sequence_module import SequenceModule
from ckcnn.sktime import CKCNNClassifier


class GRUClassifier(CKCNNClassifier):
    """A GRU with as many parameters as the CKCNN, trained for as many steps in the same way."""

    model = GRU
    options = (
        *("learning_rate", "schedule", "warm_up", "dropout", "input_dropout", "weight_decay", "label_smoothing"),
    )

    def build(self, facts: dict[str, Any]) -> SequenceModule:
        with torch.device("meta"):
            size = count_parameters(CKCNNClassifier().build(facts))
        return super().build({**facts, "size": size})


def _minirocket(seed: int) -> Any:
    from sktime.classification.kernel_based import RocketClassifier

    return RocketClassifier(rocket_transform="minirocket", random_state=seed)


def _nearest_neighbour(seed: int) -> Any:
    from sktime.classification.distance_based import KNeighborsTimeSeriesClassifier

    return KNeighborsTimeSeriesClassifier(n_neighbors=1, distance="dtw")


METHODS: dict[str, Callable[[int], Any]] = {  # from a seed to a classifier
    "CKCNN": lambda seed: CKCNNClassifier(random_state=seed),
    "GRU": lambda seed: GRUClassifier(random_state=seed),
    "MiniROCKET": _minirocket,
    "DTW": _nearest_neighbour,
}
PADDED = ("MiniROCKET", "DTW")  # shorter series repeat their last value, which is how sktime's compare unequal ones
_COMPILED = ("MiniROCKET", "DTW")


def missing_package(method: str) -> str | None:
    """Return the package that a method needs and that is not installed, if there is one."""
    return "numba" if method in _COMPILED and find_spec("numba") is None else None
