"""Long series, cut into windows whose next steps are to be forecast."""

# S series, C channels, L steps of all series, N windows, W window, H steps ahead

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ckcnn.checks import check_choice, check_count
from ckcnn.datamodules import sequence_files
from ckcnn.datamodules.base import SequenceDataModule
from ckcnn.datamodules.datasets import SequenceDataset, Store
from ckcnn.datamodules.sequences import SPLITS, DataError
from ckcnn.datamodules.tables import channel_names
from ckcnn.datamodules.transforms import Statistics, statistics

_GAP = 1.5  # a step of so many usual ones means that others are missing; months differ by less
_WINDOWS = 1 << 14  # processed together


class Series(SequenceDataModule):
    """Windows of long series, and the `ahead` steps after each of them.

    A ``.csv`` file is a table with a row for each step and a column for each channel; a column ``time`` only says that
    the rows are in order, on one grid, and a column ``sequence`` separates several series. An ``.npz`` or ``.h5``
    file holds `x` ``(series, channels, time)``.

    The split is chronological: the first part of every series is for training, the next for validation, the last for
    test. A target lies in the part that it counts for; a window of validation or test may begin in the part before,
    whose values are known by then. Series are standardised with the mean and deviation of the training part alone.
    Metrics are in the units of the series, `naive_mae` and `naive_mse` beside them are those of the naive forecast: the
    last value, or with `period` the value one period before.

    Args:
        path: of the file.
        window: steps that the model sees.
        ahead: steps that it forecasts.
        period: steps of a season, such as 12 for months; 0 for none.
        parts: of each series for training, validation and test, as fractions.
        shared: see `SequenceDataModule`; no steps can be dropped or left out.
    """

    task = "forecasting"
    standardise_targets = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        window: int,
        ahead: int = 1,
        period: int = 0,
        parts: Sequence[float] = (0.7, 0.15, 0.15),
        **shared: Any,
    ) -> None:
        self.path = Path(path).expanduser()
        check_count("window", window, least=2)
        check_count("ahead", ahead)
        check_count("period", period, least=0)
        if period > window:
            raise ValueError(
                f"period must lie within the window of {window} steps, got {period}; choose a longer window"
            )
        if len(parts) != len(SPLITS) or not all(part > 0 for part in parts) or not math.isclose(sum(parts), 1.0):
            raise ValueError(
                f"parts must be three fractions that add up to 1, for training, validation and test, got {list(parts)}"
            )
        self.length, self.ahead, self.period, self.parts = window, ahead, period, tuple(parts)
        self._naive: dict[str, dict[str, float]] = {}
        super().__init__(**shared)
        for name, plain in {"drop_rate": 0.0, "train_dt": 1, "test_dt": 1, "schedule_dt": None, "pad": "paper"}.items():
            if getattr(self, name) != plain:
                raise ValueError(f"forecasting needs every step of the series; leave {name} alone")
        if self.standardise == "step" or self.missing == "times":
            raise ValueError('series are standardised by "channel" or "none", and have no missing steps to stamp')

    @property
    def channels(self) -> int:  # type: ignore[override]
        """Channels of the series, all of which are forecast."""
        return len(self._series[0])

    @property
    def out_channels(self) -> int:  # type: ignore[override]
        """Values to forecast: `ahead` for each channel."""
        return self.channels * self.ahead

    @cached_property
    def channel_names(self) -> Sequence[str]:  # type: ignore[override]
        """Names of the columns of a table."""
        return tuple(channel_names(self.path))

    @property
    def files(self) -> tuple[str, ...]:  # type: ignore[override]
        """The one file, wherever it lies."""
        return (str(self.path.resolve()),)

    def read(self) -> Iterator[sequence_files.Recording]:
        """Yield the series."""
        if self.path.is_dir():
            raise DataError(f"path must be a file with series, got the folder {self.path}")
        yield from sequence_files.read(self.path)

    def prepare_data(self) -> None:
        """Do nothing: the file is read in `setup`, there is no cache."""

    def open_store(self) -> Store:
        """Return all windows of all series and what follows them, as views of the values."""
        joined = torch.cat(self._series, dim=1)  # (C, L)
        windows = joined.unfold(1, self.length + self.ahead, 1).transpose(0, 1)  # (N, C, W + H)
        return Store(windows[..., : self.length], {"y": windows[..., self.length :]})

    def split(self, store: Store) -> dict[str, NDArray[np.int64]]:
        found: dict[str, list[NDArray[np.int64]]] = {name: [] for name in SPLITS}
        start = 0
        for series in self._series:
            for name, (low, high) in self._bounds(series.shape[1]).items():
                first = max(low - (0 if name == "train" else self.length), 0)
                found[name].append(np.arange(start + first, start + high - self.length - self.ahead + 1))
            start += series.shape[1]
        for name, parts in found.items():
            if not sum(map(len, parts)):
                raise DataError(
                    f"{self.source_name}: no window of {self.length} steps with {self.ahead} ahead lies in the part "
                    f"for {name} ({' + '.join(str(self._size(one, name)) for one in self._series)} steps); "
                    "choose a shorter window or ahead, or other parts"
                )
        return {name: np.concatenate(parts) for name, parts in found.items()}

    def reference_scores(self, split: str) -> dict[str, float]:
        """Return the errors of the naive forecast: the last value, or the one a period before."""
        if split in self._naive:
            return self._naive[split]
        dataset, period = self.dataset(split), self.period or 1
        if not isinstance(dataset, SequenceDataset):
            raise TypeError("series have no text")
        store = dataset.store
        back = [self.length - period + step % period for step in range(self.ahead)]
        absolute = square = 0.0
        rows = torch.from_numpy(self.splits[split])
        for some in torch.split(rows, _WINDOWS):
            error = (store.rows(some).x[..., back] - store.labels(some)).double()
            absolute, square = absolute + float(error.abs().sum()), square + float(error.square().sum())
        values = len(rows) * self.out_channels
        self._naive[split] = {"naive_mae": absolute / values, "naive_mse": square / values}
        return self._naive[split]

    @property
    def source_name(self) -> str:
        """Where the series are from, for messages."""
        return str(self.path)

    def _bounds(self, steps: int) -> dict[str, tuple[int, int]]:
        """Where each part of a series of this many steps begins and ends."""
        ends = [round(steps * share) for share in np.cumsum(self.parts)]
        return dict(zip(SPLITS, zip([0, *ends], ends, strict=False), strict=True))

    def _size(self, series: Tensor, split: str) -> int:
        low, high = self._bounds(series.shape[1])[split]
        return high - low

    def _statistics(self, store: Store) -> Statistics | None:
        if self.standardise == "none":
            return None
        training = [series[:, : self._size(series, "train")] for series in self._series]
        return statistics([(part[None], None) for part in training], "channel")

    def _target_statistics(self, store: Store) -> Statistics | None:
        return self.statistics  # of the same channels

    @cached_property
    def _series(self) -> list[Tensor]:
        """Every series, ``(C, its steps)``."""
        found: list[Tensor] = []
        for name, x, times, _ in self.read():
            where = f"{self.source_name}: series {name}"
            if found and len(x) != len(found[0]):
                raise DataError(f"{where} must have {len(found[0])} channels like the one before, got {len(x)}")
            bad = np.argwhere(~np.isfinite(x.astype(np.float64)))
            if len(bad):
                channel, step = bad[0]
                raise DataError(
                    f"{where} must have a number at every step, got {x[channel, step]:g} in channel {channel}, "
                    f"step {step}, and {len(bad) - 1} more; fill them in"
                )
            _check_grid(where, times)
            found.append(torch.from_numpy(x.astype(np.float32)))
        if not found:
            raise DataError(f"{self.source_name} holds no series")
        if (steps := sum(series.shape[1] for series in found)) < self.length + self.ahead:
            raise DataError(
                f"{self.source_name} has {steps} steps, fewer than a window of {self.length} with "
                f"{self.ahead} ahead; choose shorter ones"
            )
        return found


class SktimeSeries(Series):
    """A series that comes with sktime: real data without a download.

    Args:
        series: ``airline`` (passengers, monthly), ``lynx`` (trapped, yearly), ``shampoo_sales`` (monthly), ``longley``
            (six indicators of the economy of the United States, yearly) or ``uschange`` (five changes of it,
            quarterly).
        options: see `Series`.
    """

    def __init__(self, series: str, window: int, ahead: int = 1, period: int = 0, **options: Any) -> None:
        check_choice("series", series, _SHIPPED)
        self.series = series
        super().__init__(series, window, ahead, period, **options)

    files = ()

    @cached_property
    def channel_names(self) -> Sequence[str]:  # type: ignore[override]
        """Names of the columns."""
        return tuple(map(str, _shipped(self.series).columns))

    def read(self) -> Iterator[sequence_files.Recording]:
        yield sequence_files.Recording(self.series, _shipped(self.series).to_numpy(dtype=np.float64).T)


_SHIPPED = ("airline", "lynx", "shampoo_sales", "longley", "uschange")


def _shipped(name: str) -> Any:
    """A table of sktime with a column for each channel."""
    import pandas
    from sktime import datasets

    loaded = getattr(datasets, f"load_{name}")()
    target, others = loaded if isinstance(loaded, tuple) else (loaded, None)
    return pandas.concat([part for part in (target, others) if part is not None], axis=1)


def _check_grid(where: str, times: NDArray[np.float64] | None) -> None:
    """A series has a row for every step."""
    if times is None or len(times) < 3:
        return
    gaps = np.diff(times)
    usual = float(np.median(gaps))
    bad = np.flatnonzero((gaps <= 0) | (gaps > _GAP * usual))
    if len(bad):
        step = int(bad[0])
        raise DataError(
            f"{where} must have one row for every step, but from row {step} to the next one it is "
            f"{gaps[step] / usual:.3g} times the usual step; fill in the rows between"
        )
