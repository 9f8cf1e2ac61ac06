"""Metrics that torchmetrics does not have, or not for the shapes that our networks return."""

# B batch, O outputs, T time

from __future__ import annotations

import math
import warnings

import torch
import torch.nn.functional as F
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.classification import (
    BinaryAccuracy,
    BinaryAUROC,
    BinaryConfusionMatrix,
    MulticlassAccuracy,
    MultilabelAccuracy,
    MultilabelAUROC,
    MultilabelF1Score,
)
from torchmetrics.utilities.data import dim_zero_cat

from ckcnn.tasks import IGNORED


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
        """Add the mean of a batch and the number of values in it."""
        self.total = self.total + value * weight
        self.weight = self.weight + weight

    def compute(self) -> Tensor:
        """The mean of all values."""
        return self.total / self.weight


class BitsPerCharacter(WeightedMean):
    """The mean cross entropy of all counted characters, in bits."""

    def update(self, scores: Tensor, target: Tensor) -> None:
        """Take scores ``(B, O, T)`` and characters ``(B, T)``."""
        nats = F.cross_entropy(scores, target, ignore_index=IGNORED)
        super().update(nats / math.log(2), (target != IGNORED).sum())


class CountedAccuracy(MulticlassAccuracy):
    """The fraction of counted steps whose class has the highest score.

    torchmetrics' own sorts out what is to be ignored by its values, for which every training step would wait for the
    device (1.9). Here ignored steps are counted, as errors, and then taken off.

    Args:
        classes: how many there are.
    """

    fp: Tensor
    fn: Tensor
    tn: Tensor

    def __init__(self, classes: int) -> None:
        super().__init__(classes, average="micro", validate_args=False)
        self.others = classes - 2

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Take scores ``(B, O, ...)`` and classes ``(B, ...)``."""
        super().update(preds, target)
        ignored = (target == IGNORED).sum()
        self.fp, self.fn = self.fp - ignored, self.fn - ignored
        self.tn = self.tn - self.others * ignored


class OneLogit:
    """Lets a metric take scores ``(B, 1)``."""

    def update(self, scores: Tensor, target: Tensor) -> None:
        super().update(scores[:, 0].sigmoid(), target)  # type: ignore[misc]


class OneLogitAUROC(OneLogit, BinaryAUROC):
    """The area under the ROC curve of scores ``(B, 1)``."""


class OneLogitAccuracy(OneLogit, BinaryAccuracy):
    """The accuracy of scores ``(B, 1)``."""


class OneLogitConfusion(OneLogit, BinaryConfusionMatrix):
    """How often each of two classes was taken for each, from scores ``(B, 1)``."""


class Labels:
    """Lets a metric of torchmetrics take scores ``(B, O)``; it would guess from their range what they are."""

    def update(self, scores: Tensor, target: Tensor) -> None:
        super().update(scores.sigmoid(), target)  # type: ignore[misc]


class LabelsAUROC(Labels, MultilabelAUROC):
    """The area under the ROC curve, the mean over all labels that some sequences have and others have not.

    torchmetrics gives 0 to a label that no sequence has.
    """

    def __init__(self, outputs: int) -> None:
        super().__init__(outputs, average="none", validate_args=False)

    def compute(self) -> Tensor:  # type: ignore[override]
        """The mean; not a number if there is no such label."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="No (positive|negative) samples")
            each = super().compute()
        target = dim_zero_cat(self.target)
        known = (target == 1).any(0) & (target == 0).any(0)
        return each[known].mean()


class LabelsF1(Labels, MultilabelF1Score):
    """The F1 score of scores ``(B, O)``, the mean over all labels."""


class LabelsAccuracy(Labels, MultilabelAccuracy):
    """The fraction of all labels that are right, from scores ``(B, O)``."""


class StepSquaredError(WeightedMean):
    """The mean square error of all steps that have a target."""

    def update(self, values: Tensor, target: Tensor) -> None:
        """Take values and targets ``(B, O, T)``; a target that is not a number does not count."""
        counted = target.eq(target)
        self.total = self.total + self.error(torch.where(counted, values - target, 0.0)).sum()
        self.weight = self.weight + counted.sum()

    @staticmethod
    def error(difference: Tensor) -> Tensor:
        """How bad a difference is."""
        return difference.square()


class StepAbsoluteError(StepSquaredError):
    """The mean absolute error of all steps that have a target."""

    @staticmethod
    def error(difference: Tensor) -> Tensor:
        return difference.abs()
