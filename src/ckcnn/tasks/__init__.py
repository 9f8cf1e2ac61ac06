"""The kinds of problem, one entry each: what targets look like, the loss, the metrics, which epoch was best.

Data modules, models and results take what they need to know about a task from here; nobody asks for its name.
"""

# B batch, O outputs, T time

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:  # torchmetrics takes its time, and not everybody who asks about a task measures something
    from torchmetrics import Metric, MetricCollection

Mode = Literal["max", "min"]  # whether a good value of a metric is large or small
IGNORED = -100  # the label of a step that does not count, torch's own `ignore_index`


@dataclass(frozen=True)
class Task:
    """A kind of problem.

    Attributes:
        loss: of the network's output and the targets of a batch, the mean over everything that counts.
        metrics: makes the metrics for a number of outputs, by name.
        monitor: the metric that chooses the best epoch.
        mode: whether a good value of it is large or small.
        answer: from the network's output to what `predict` writes.
        target: whether targets are classes, numbered from 0, or values.
        every_step: whether there is a target at every step instead of one for a sequence.
        ahead: whether the answers are the next steps of the channels of the sequence itself.
        from_tokens: whether sequences are tokens instead of signals.
        one_logit: whether two classes share one output.
        many_labels: whether each output is a label of its own, which a sequence has or has not.
        axes: what the axes of a prediction are after that of the sequences.
        confusion: makes what counts how often each class was taken for each, where a sequence has a class.
        stops_on_loss: whether early stopping watches the loss instead of `monitor`, because the loss still shows how
            sure the predictions are when all of them are right.
    """

    loss: Callable[[Tensor, Tensor], Tensor]
    metrics: Callable[[int], dict[str, Metric]]
    monitor: str
    mode: Mode
    answer: Callable[[Tensor], Tensor]
    target: Literal["class", "value"] = "class"
    every_step: bool = False
    ahead: bool = False
    from_tokens: bool = False
    one_logit: bool = False
    many_labels: bool = False
    axes: tuple[str, ...] = ()
    confusion: Callable[[int], Metric] | None = None
    stops_on_loss: bool = False

    @property
    def stopping(self) -> tuple[str, Mode]:
        """The metric that early stopping watches, and whether a good value of it is large or small."""
        return ("loss", "min") if self.stops_on_loss else (self.monitor, self.mode)

    def classes(self, outputs: int) -> int:
        """The number of classes of a network with this many outputs; of a label, that it is there or not."""
        return 2 if self.one_logit or self.many_labels else outputs

    @property
    def ignored(self) -> float:
        """The value of a target, or a prediction, that does not count."""
        return math.nan if self.target == "value" else IGNORED

    def counted(self, target: Tensor) -> Tensor:
        """Which entries of a target count."""
        return target.eq(target) if self.target == "value" else target != IGNORED

    @property
    def smoothable(self) -> bool:
        """Whether the loss is a cross entropy over several outputs, whose labels can be smoothed."""
        return self.target == "class" and not self.one_logit and not self.many_labels

    def target_shape(self, outputs: int, length: int) -> tuple[int, ...]:
        """The shape of the target of one sequence."""
        if self.target == "value":
            return (outputs, length) if self.every_step else (outputs,)
        if self.many_labels:
            return (outputs,)
        return (length,) if self.every_step else ()

    def collection(self, outputs: int, split: str) -> MetricCollection:
        """The metrics of one split, named such as ``val/accuracy``."""
        from torchmetrics import MetricCollection

        return MetricCollection(dict(self.metrics(outputs)), prefix=f"{split}/", compute_groups=False)


def _cross_entropy(scores: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(scores, target, ignore_index=IGNORED)


def _binary_loss(scores: Tensor, target: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(scores[:, 0], target.to(scores))


def _accuracy(outputs: int) -> dict[str, Metric]:
    from ckcnn.tasks.metrics import CountedAccuracy

    return {"accuracy": CountedAccuracy(outputs)}


def _confusion(outputs: int) -> Metric:
    from torchmetrics.classification import MulticlassConfusionMatrix

    return MulticlassConfusionMatrix(outputs, validate_args=False)


def _binary_metrics(outputs: int) -> dict[str, Metric]:
    from ckcnn.tasks.metrics import OneLogitAccuracy, OneLogitAUROC

    return {"auroc": OneLogitAUROC(validate_args=False), "accuracy": OneLogitAccuracy(validate_args=False)}


def _binary_confusion(outputs: int) -> Metric:
    from ckcnn.tasks.metrics import OneLogitConfusion

    return OneLogitConfusion(validate_args=False)


def _labels_loss(scores: Tensor, target: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(scores, target.to(scores))


def _label_metrics(outputs: int) -> dict[str, Metric]:
    from ckcnn.tasks.metrics import LabelsAccuracy, LabelsAUROC, LabelsF1

    return {
        "auroc": LabelsAUROC(outputs),
        "f1": LabelsF1(outputs, validate_args=False),
        "accuracy": LabelsAccuracy(outputs, average="micro", validate_args=False),
    }


def _step_loss(values: Tensor, target: Tensor) -> Tensor:
    counted = target.eq(target)
    error = torch.where(counted, values - target, 0.0)  # the gradient of a step without a target is zero
    return error.square().sum() / counted.sum().clamp(min=1)


def _step_errors(outputs: int) -> dict[str, Metric]:
    from ckcnn.tasks.metrics import StepAbsoluteError, StepSquaredError

    return {"mse": StepSquaredError(), "mae": StepAbsoluteError()}


def _forecast_errors(outputs: int) -> dict[str, Metric]:
    from torchmetrics.regression import MeanAbsoluteError, MeanSquaredError

    return {"mae": MeanAbsoluteError(), "mse": MeanSquaredError()}


def _mean_squared_error(outputs: int) -> dict[str, Metric]:
    from torchmetrics.regression import MeanSquaredError

    return {"mse": MeanSquaredError()}


def _bits_per_character(outputs: int) -> dict[str, Metric]:
    from ckcnn.tasks.metrics import BitsPerCharacter

    return {"bpc": BitsPerCharacter()}


TASKS: dict[str, Task] = {
    "classification": Task(
        loss=_cross_entropy,
        metrics=_accuracy,
        monitor="accuracy",
        mode="max",
        answer=lambda scores: scores.argmax(1),
        confusion=_confusion,
    ),
    "binary": Task(
        loss=_binary_loss,
        metrics=_binary_metrics,
        monitor="auroc",
        mode="max",
        answer=lambda scores: scores[:, 0].sigmoid(),
        one_logit=True,
        confusion=_binary_confusion,
    ),
    "regression": Task(
        loss=F.mse_loss,
        metrics=_mean_squared_error,
        monitor="mse",
        mode="min",
        answer=lambda values: values,
        target="value",
        axes=("output",),
    ),
    "multi_label": Task(
        loss=_labels_loss,
        metrics=_label_metrics,
        monitor="auroc",
        mode="max",
        answer=lambda scores: scores.sigmoid(),
        many_labels=True,
        axes=("label",),
    ),
    "step_regression": Task(
        loss=_step_loss,
        metrics=_step_errors,
        monitor="mse",
        mode="min",
        answer=lambda values: values,
        target="value",
        every_step=True,
        axes=("output", "step"),
    ),
    "forecasting": Task(
        loss=F.mse_loss,
        metrics=_forecast_errors,
        monitor="mae",
        mode="min",
        answer=lambda values: values,
        target="value",
        ahead=True,
        axes=("channel", "ahead"),
    ),
    "every_step": Task(
        loss=_cross_entropy,
        metrics=_accuracy,
        monitor="accuracy",
        mode="max",
        answer=lambda scores: scores.argmax(1),
        every_step=True,
        stops_on_loss=True,
        axes=("step",),
    ),
    "language": Task(
        loss=_cross_entropy,
        metrics=_bits_per_character,
        monitor="bpc",
        mode="min",
        answer=lambda scores: scores.argmax(1),
        every_step=True,
        from_tokens=True,
        axes=("step",),
    ),
}

# The direction of each metric that chooses an epoch. Accuracy comes last: some tasks count it beside their own metric.
MONITORED: dict[str, Mode] = {
    task.monitor: task.mode for task in sorted(TASKS.values(), key=lambda task: task.monitor == "accuracy")
}
