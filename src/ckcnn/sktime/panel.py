"""From sktime's panels of time series to our sequences."""

# N series, C channels, T time

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Panel(NamedTuple):
    """Series of any lengths in one array.

    Attributes:
        x: values ``(N, C, T)``, NaN where one is missing and after the end of a series.
        lengths: number of steps of each series, ``(N,)``; None if they are equally long.
    """

    x: NDArray[np.float32]
    lengths: NDArray[np.int64] | None


def read_panel(series: NDArray[Any] | Sequence[Any], channels: int | None = None) -> Panel:
    """Return the series that sktime gives, an array ``(N, C, T)`` or a list of data frames ``(T, C)``.

    Args:
        series: as sktime gives them.
        channels: how many there must be, if that is known.

    Raises:
        ValueError: if a value is infinite, a series has no step, or the number of channels differs.
    """
    if isinstance(series, np.ndarray):
        panel = Panel(_values(series), None)
    else:
        panel = _stack([_values(frame).T for frame in series])
    if np.isinf(panel.x).any():
        raise ValueError("X must hold numbers below 3.4e38 in size, or NaN where one is missing; got infinity or more")
    if channels is not None and panel.x.shape[1] != channels:
        raise ValueError(f"X must have {channels} channels, as in fit, got {panel.x.shape[1]}")
    return panel


def add_differences(panel: Panel) -> Panel:
    """Add how much each channel has changed since the step before: a fine detail on a slow trend becomes visible.

    Example:
        >>> add_differences(Panel(np.array([[[1.0, 3.0, 2.0]]], dtype=np.float32), None)).x.tolist()
        [[[1.0, 3.0, 2.0], [0.0, 2.0, -1.0]]]
    """
    changes = np.diff(panel.x, axis=2, prepend=panel.x[:, :, :1])
    return panel._replace(x=np.concatenate([panel.x, changes], axis=1))


def add_normalised(panel: Panel) -> Panel:
    """Add each channel of each series with mean 0 and standard deviation 1: its shape, however small its values.

    Example:
        >>> add_normalised(Panel(np.array([[[1.0, 3.0, np.nan]]], dtype=np.float32), None)).x.tolist()
        [[[1.0, 3.0, nan], [-1.0, 1.0, nan]]]
    """
    x = panel.x.astype(np.float64)
    observed = ~np.isnan(x)
    count = np.maximum(observed.sum(axis=2, keepdims=True), 1)
    mean = np.where(observed, x, 0).sum(axis=2, keepdims=True) / count
    deviation = x - mean
    size = np.sqrt(np.where(observed, deviation**2, 0).sum(axis=2, keepdims=True) / count)
    constant = size <= 1e-6 * np.abs(mean)  # but for rounding
    normalised = deviation / np.where(constant, 1, size)
    return panel._replace(x=np.concatenate([panel.x, normalised.astype(np.float32)], axis=1))


def _values(series: Any) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # what is too large becomes infinity, which is refused
        return np.ascontiguousarray(series, dtype=np.float32)


def _stack(rows: Sequence[NDArray[np.float32]]) -> Panel:
    lengths = np.array([row.shape[1] for row in rows])
    if not lengths.all():
        raise ValueError(f"every series of X must have at least one step, but number {int(lengths.argmin())} has none")
    channels = np.array([row.shape[0] for row in rows])
    if (channels != channels[0]).any():
        other = int((channels != channels[0]).argmax())
        raise ValueError(
            f"every series of X must have the same channels, but number {other} has {channels[other]} "
            f"and number 0 has {channels[0]}"
        )
    x = np.full((len(rows), rows[0].shape[0], lengths.max()), np.nan, dtype=np.float32)
    for place, row in zip(x, rows, strict=True):
        place[:, : row.shape[1]] = row
    return Panel(x, None if (lengths == lengths[0]).all() else lengths)
