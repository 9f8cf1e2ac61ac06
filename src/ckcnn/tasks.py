"""What the kinds of problem differ in: the loss, the metrics, and the metric that says which epoch was best."""

# B batch, O outputs, T time

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torchmetrics import Metric, MetricCollection
from torchmetrics.classification import (
    BinaryAccuracy,
    BinaryAUROC,
    BinaryConfusionMatrix,
    MulticlassAccuracy,
    MulticlassConfusionMatrix,
)
from torchmetrics.regression import MeanSquaredError

IGNORED = -100  # the label of a step that does not count


class WeightedMean(Metric):
    """A mean over batches of different sizes.

    torchmetrics' own leaves out what is not a number, or, told not to, leaves out the weights (1.9).
    """

    full_state_update = False
    total: Tensor
    weight: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", torch.zeros(()), dist_reduce_fx="sum")
        self.add_state("weight", torch.zeros(()), dist_reduce_fx="sum")

    def update(self, value: Tensor, weight: Tensor) -> None:
        """Adds the mean of a batch and the number of values in it."""
        self.total = self.total + value * weight
        self.weight = self.weight + weight

    def compute(self) -> Tensor:
        """The mean of all values."""
        return self.total / self.weight


class BitsPerCharacter(WeightedMean):
    """The mean cross entropy of all counted characters, in bits."""

    def update(self, scores: Tensor, target: Tensor) -> None:
        """Takes scores ``(B, O, T)`` and characters ``(B, T)``."""
        nats = F.cross_entropy(scores, target, ignore_index=IGNORED)
        super().update(nats / math.log(2), (target != IGNORED).sum())


@dataclass(frozen=True)
class Task:
    """A kind of problem.

    Attributes:
        loss: of what the network answers and the targets of a batch, the mean over everything that counts.
        metrics: makes the metrics for a number of outputs, by name.
        monitor: the metric that chooses the best epoch.
        mode: whether a good value of it is large or small.
        answer: from what the network answers to what `predict` writes.
        confusion: makes what counts how often each class was taken for each, where a sequence has a class.
        stops_on_loss: whether early stopping watches the loss instead of `monitor`, because the loss still tells how
            sure the answers are when all of them are right.
    """

    loss: Callable[[Tensor, Tensor], Tensor]
    metrics: Callable[[int], dict[str, Metric]]
    monitor: str
    mode: Literal["max", "min"]
    answer: Callable[[Tensor], Tensor]
    confusion: Callable[[int], Metric] | None = None
    stops_on_loss: bool = False

    @property
    def stopping(self) -> tuple[str, Literal["max", "min"]]:
        """The metric that early stopping watches, and whether a good value of it is large or small."""
        return ("loss", "min") if self.stops_on_loss else (self.monitor, self.mode)

    def collection(self, outputs: int, split: str) -> MetricCollection:
        """The metrics of one split, named such as ``val/accuracy``."""
        return MetricCollection(dict(self.metrics(outputs)), prefix=f"{split}/", compute_groups=False)


def _cross_entropy(scores: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(scores, target, ignore_index=IGNORED)


def _binary_loss(scores: Tensor, target: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(scores[:, 0], target.to(scores))


class _OneLogit:
    """Lets a metric take scores ``(B, 1)``."""

    def update(self, scores: Tensor, target: Tensor) -> None:
        super().update(scores[:, 0].sigmoid(), target)  # type: ignore[misc]


class _AUROC(_OneLogit, BinaryAUROC): ...


class _Accuracy(_OneLogit, BinaryAccuracy): ...


class _Confusion(_OneLogit, BinaryConfusionMatrix): ...


def _class_metrics(outputs: int) -> dict[str, Metric]:
    accuracy = MulticlassAccuracy(outputs, average="micro", ignore_index=IGNORED, validate_args=False)
    return {"accuracy": accuracy}


TASKS: dict[str, Task] = {
    "classification": Task(
        _cross_entropy,
        _class_metrics,
        "accuracy",
        "max",
        lambda scores: scores.argmax(1),
        lambda outputs: MulticlassConfusionMatrix(outputs, validate_args=False),
    ),
    "every_step": Task(
        _cross_entropy, _class_metrics, "accuracy", "max", lambda scores: scores.argmax(1), stops_on_loss=True
    ),
    "binary": Task(
        _binary_loss,
        lambda _: {"auroc": _AUROC(validate_args=False), "accuracy": _Accuracy(validate_args=False)},
        "auroc",
        "max",
        lambda scores: scores[:, 0].sigmoid(),
        lambda _: _Confusion(validate_args=False),
    ),
    "regression": Task(F.mse_loss, lambda _: {"mse": MeanSquaredError()}, "mse", "min", lambda values: values),
    "language": Task(
        _cross_entropy, lambda _: {"bpc": BitsPerCharacter()}, "bpc", "min", lambda scores: scores.argmax(1)
    ),
}
