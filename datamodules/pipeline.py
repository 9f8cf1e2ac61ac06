"""From stored rows to a batch: convert, pad, drop, standardise, permute, mask, resample."""

# B batch, C channels, S sporadic channels, T time, R remaining steps

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from ckcnn.datamodules.options import Missing
from ckcnn.datamodules.sequences import SequenceBatch
from ckcnn.datamodules.transforms import Statistics, remaining, repeat_last, thinned, valid_steps
from ckcnn.tasks import IGNORED

Padding = Literal["repeat", "missing", "valid"]


class Rows(NamedTuple):
    """Sequences as they are stored, and which of their steps are kept, ``(B, T)``, if any are dropped."""

    x: Tensor
    y: Tensor
    lengths: Tensor | None = None
    times: Tensor | None = None
    kept: Tensor | None = None


@dataclass(frozen=True)
class Pipeline:
    """Makes batches out of rows.

    Attributes:
        units: stored value that means 0, and how much of it means 1, each ``(C or 1, 1)``; None if stored as they are.
        sporadic: number of first channels that are measured in time; the others say something of the whole sequence.
        gaps: whether the data has its own gaps, stored as NaN.
        padding: what comes after the end of a shorter sequence: its last value, nothing, or nothing and its length.
        missing: how missing steps are represented, or None if none are missing.
        order: permutation of time.
        statistics: with which to standardise, or None.
        stride: every n-th sample is kept.
        first: the first one that is.
        training_stride: the same in training, the unit of time stamps.
        every_step: whether `y` has time too.
        antialias: whether a low-pass filter is applied before samples are left out.
    """

    units: tuple[Tensor, Tensor] | None
    sporadic: int
    gaps: bool
    padding: Padding
    missing: Missing | None
    order: Tensor | None = None
    statistics: Statistics | None = None
    stride: int = 1
    first: int = 0
    training_stride: int = 1
    every_step: bool = False
    antialias: bool = False

    def observe(self, rows: Rows) -> tuple[Tensor, Tensor | None]:
        """The values ``(B, C, T)``, and where they were observed: ``(B, C or 1, T)``, or None if everywhere."""
        x = rows.x.float()
        if self.units is not None:
            x = (x - self.units[0]).div_(self.units[1])
        if rows.lengths is not None and self.padding == "repeat":
            x = repeat_last(x, rows.lengths)
        observed = x.eq(x) if self.gaps else None  # only NaN differs from itself; one pass instead of two
        if rows.kept is not None:
            kept = rows.kept[:, None]
            if self.sporadic < x.shape[1]:
                kept = kept | (torch.arange(x.shape[1]) >= self.sporadic)[:, None]
            observed = kept if observed is None else observed & kept
        if self.padding == "valid" and rows.lengths is not None:
            valid = valid_steps(rows.lengths, x.shape[-1])[:, None]
            observed = valid if observed is None else observed & valid
        return x, observed

    def __call__(self, rows: Rows) -> SequenceBatch:
        """The batch of some rows."""
        x, observed = self.observe(rows)
        if self.statistics is not None:
            x = self.statistics.apply(x)
        if observed is not None:
            x = x.masked_fill(~observed, 0.0)
        if self.order is not None:
            x = x[..., self.order]
            observed = None if observed is None else observed[..., self.order]
            rows = rows._replace(y=rows.y[..., self.order]) if self.every_step else rows
        if self.missing == "times":
            return self._stamped(x, observed, rows)
        return self._regular(self._tell(x, observed), rows)

    def _tell(self, x: Tensor, observed: Tensor | None) -> Tensor:
        """Add what says where values are missing: one mask channel last, or a count for each channel first."""
        if self.missing is None or observed is None:
            return x
        seen = observed[:, : self.sporadic]
        if self.missing == "mask":
            return torch.cat([x, seen.any(1, keepdim=True).to(x)], dim=1)
        counts = seen.cumsum(-1, dtype=x.dtype).expand(-1, self.sporadic, -1)
        return torch.cat([counts, x], dim=1)

    def _regular(self, x: Tensor, rows: Rows) -> SequenceBatch:
        y, lengths, times, valid = rows.y, None, self._own_times(rows), None
        if self.padding == "valid":
            lengths = self._lengths(rows)
            valid = valid_steps(lengths, x.shape[-1])
            x = x * valid[:, None]
            y = _where(valid, y) if self.every_step else y
            lengths = (lengths + self.stride - 1) // self.stride
        if times is not None:
            times = times[:, self.first :: self.stride]
        if self.every_step:
            y = y[..., self.first :: self.stride]
        filtered = self.antialias and self.stride > 1
        thin = thinned(x, self.stride, self.first, valid) if filtered else x[..., self.first :: self.stride]
        return SequenceBatch(thin.contiguous(), y, times, lengths)

    def _stamped(self, x: Tensor, observed: Tensor | None, rows: Rows) -> SequenceBatch:
        """Take out the missing steps; the others keep their stamps."""
        batch, channels, time = x.shape
        keep = torch.ones(batch, time, dtype=torch.bool) if observed is None else observed[:, : self.sporadic].any(1)
        index, lengths = remaining(keep & (torch.arange(time) % self.stride == self.first))
        valid = valid_steps(lengths, index.shape[1])
        times = self._own_times(rows)
        if times is None:
            times = (torch.arange(time) / self.training_stride).expand(batch, -1)
        y = rows.y
        if self.every_step:
            places = index if y.dim() == 2 else index[:, None].expand(-1, y.shape[1], -1)
            y = _where(valid, y.gather(-1, places))
        x = x.gather(2, index[:, None].expand(-1, channels, -1)) * valid[:, None]
        # Whether all rows are equally long must not depend on the batch: dropping alone leaves equally many everywhere.
        equal = not self.gaps and self.padding != "valid" and (rows.kept is None or self.stride == 1)
        return SequenceBatch(x, y, times.gather(1, index), None if equal else lengths)

    def _own_times(self, rows: Rows) -> Tensor | None:
        if rows.times is None:
            return None
        times = rows.times if rows.lengths is None else repeat_last(rows.times, rows.lengths)
        return times / self.training_stride

    @staticmethod
    def _lengths(rows: Rows) -> Tensor:
        return torch.full((len(rows.x),), rows.x.shape[-1]) if rows.lengths is None else rows.lengths


def _where(valid: Tensor, y: Tensor) -> Tensor:
    """Targets ``(B, T)`` or ``(B, outputs, T)``; after the end of a sequence they do not count."""
    return torch.where(valid if y.dim() == 2 else valid[:, None], y, math.nan if y.is_floating_point() else IGNORED)
