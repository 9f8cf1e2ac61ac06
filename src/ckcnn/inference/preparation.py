"""What turns raw sequences into what the network gets, shared by predictions and exported graphs."""

# B batch, C channels, T time

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ckcnn.datamodules.pipeline import Pipeline, Rows
from ckcnn.datamodules.preprocessing import Preprocessing
from ckcnn.datamodules.sequences import SequenceBatch
from ckcnn.datamodules.transforms import Statistics, repeat_last


@dataclass(frozen=True)
class Preparation:
    """The pipeline of training, for sequences of another length or on another grid.

    Attributes:
        trained: what training did to its sequences.
        pipeline: makes batches.
        width: steps of a raw sequence, padding included; None for any, where nothing depends on it.
        step: sampling step of a raw sequence, in raw steps of training.
    """

    trained: Preprocessing
    pipeline: Pipeline
    width: int | None
    step: float

    @classmethod
    def of(cls, trained: Preprocessing, longest: int | None, dt: float) -> Preparation:
        """Fit the pipeline of training to raw sequences.

        Args:
            trained: what training did to its sequences.
            longest: steps of the longest sequence; None for any.
            dt: sampling step, in raw steps of training.

        Raises:
            ValueError: if training knows something of each time step, which does not fit.
        """
        width = longest
        if longest is not None and trained.varying:  # shorter sequences are padded as in training
            width = max(math.ceil(trained.length / dt), longest)
        stride = max(1, math.floor(trained.train_dt / dt + 1e-9))
        pipeline = trained.pipeline(stride, width)
        if trained.knows_missing:
            pipeline = replace(pipeline, gaps=True)
        if width is not None:
            pipeline = _fitted(trained, pipeline, width, dt)
        return cls(trained, pipeline, width, dt)

    @property
    def dt(self) -> float:
        """Sampling step of a batch without stamps, in training samples."""
        return self.step * self.pipeline.stride / self.trained.train_dt

    def __call__(self, x: Tensor, steps: Tensor, lengths: Tensor | None, times: Tensor | None = None) -> SequenceBatch:
        """Make a batch.

        Args:
            x: raw values ``(B, C, T)``, NaN where nothing was observed.
            steps: what becomes the `y` of the batch.
            lengths: number of valid steps ``(B,)``; it is used where training had different lengths.
            times: stamps ``(B, T)``.
        """
        trained, pipeline = self.trained, self.pipeline
        known, kept = lengths if trained.varying else None, None
        if known is not None and self.width is not None:
            x = self._widened(x, known, self.width)
            times = None if times is None else _fit(times, self.width)
        if trained.knows_missing and not trained.gaps:
            if known is not None and trained.padding == "repeat":
                x, times, known = _padded(x, known), None if times is None else repeat_last(times, known), None
            if trained.missing == "times":
                pipeline, kept = _dropped(pipeline, x)
        return pipeline(Rows(x, steps, known, times, kept))

    def _widened(self, x: Tensor, lengths: Tensor, width: int) -> Tensor:
        """The values on `width` steps; where nothing was measured after the end, NaN says so."""
        if self.trained.padding != "missing":
            return _fit(x, width)
        x = _fit(x.float(), width)
        after = torch.arange(width) >= lengths[:, None]  # (B, T)
        sporadic = self.trained.sporadic
        last = x.gather(2, (lengths - 1)[:, None, None].expand(-1, x.shape[1], 1))
        return torch.cat(
            [
                x[:, :sporadic].masked_fill(after[:, None], math.nan),
                torch.where(after[:, None], last[:, sporadic:], x[:, sporadic:]),
            ],
            dim=1,
        )


def _fitted(trained: Preprocessing, pipeline: Pipeline, width: int, dt: float) -> Pipeline:
    """What training knows of each time index, for sequences on another grid."""
    length = trained.length
    if pipeline.order is not None and (width != length or dt != 1):
        raise ValueError(
            f"the model permutes the {length} steps of a sequence, so x must have {length} of them "
            f"at the rate of training (dt=1), got {width} with dt={dt:g}"
        )
    if pipeline.statistics is None or pipeline.statistics.mean.shape[-1] == 1:
        return pipeline
    if dt != int(dt) or (width - 1) * dt >= length:
        raise ValueError(
            f"the model standardises each of {length} time steps by itself, so x must have at most so many, "
            f"at a whole multiple of the sampling step, got {width} with dt={dt:g}"
        )
    mean, std = (part[..., :: int(dt)][..., :width] for part in vars(pipeline.statistics).values())
    return replace(pipeline, statistics=Statistics(mean, std))


def _dropped(pipeline: Pipeline, x: Tensor) -> tuple[Pipeline, Tensor | None]:
    """Which steps were kept, ``(B, T)``, if equally many of every sequence were dropped whole, as in training."""
    absent = x.ne(x)  # only NaN differs from itself
    kept = ~absent.any(1)
    if not absent.any():
        return replace(pipeline, gaps=False), None
    if torch.equal(absent.any(1), absent.all(1)) and int(kept.sum(1).min()) == int(kept.sum(1).max()):
        return replace(pipeline, gaps=False), kept
    return pipeline, None


def _fit(values: Tensor, width: int) -> Tensor:
    """Values on `width` steps; time is the last axis. What is added lies after the end and is never looked at."""
    return torch.nn.functional.pad(values, (0, width - values.shape[-1]))


def _padded(x: Tensor, lengths: Tensor) -> Tensor:
    """After the end of each sequence, the last observed value of each channel."""
    steps = torch.arange(x.shape[-1])
    valid = (steps < lengths[:, None])[:, None]  # (B, 1, T)
    last = torch.where(x.eq(x) & valid, steps, 0).amax(-1, keepdim=True)  # (B, C, 1)
    return torch.where(valid, x, x.gather(2, last))
