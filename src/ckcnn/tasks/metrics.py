"""Metrics that torchmetrics does not have, or not for the shapes that our networks answer."""

# B batch, O outputs, T time

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.classification import BinaryAccuracy, BinaryAUROC, BinaryConfusionMatrix

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
