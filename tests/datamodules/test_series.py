"""Windows of long series: chronological, without a look ahead, beside the naive forecast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ckcnn.datamodules import DataError, Series, SktimeSeries

_T = np.arange(200)
TABLE = np.stack([_T * 1.0, np.sin(_T / 5), 1000 + _T % 7])  # (channels, time)


def _csv(path: Path, table: np.ndarray = TABLE, **columns: Any) -> Path:
    names = [*columns, *(f"c{number}" for number in range(len(table)))]
    rows = [[*(column[row] for column in columns.values()), *table[:, row]] for row in range(table.shape[1])]
    path.write_text("\n".join(",".join(map(str, line)) for line in [names, *rows]))
    return path


def _ready(path: Path, window: int = 12, ahead: int = 3, **options: Any) -> Series:
    data = Series(path, window, ahead, **options)
    data.prepare_data()
    data.setup()
    return data


def test_windows_are_cut_in_the_order_of_time_and_no_split_knows_a_later_one(tmp_path: Path) -> None:
    data = _ready(_csv(tmp_path / "power.csv", time=_T * 0.5), standardise="none")
    assert (data.in_channels, data.out_channels, data.horizon, data.task) == (3, 9, 12, "forecasting")
    assert data.channel_names == ("c0", "c1", "c2")
    part = {"train": (0, 140), "val": (140, 170), "test": (170, 200)}
    for split, (low, high) in part.items():
        dataset = data.dataset(split)
        batch = dataset.__getitems__(range(len(dataset)))
        targets = batch.y[:, 0]  # the first channel counts the steps
        assert torch.equal(batch.x[:, 0, -1] + 1, targets[:, 0]), "the targets come right after the window"
        assert sorted(set(targets.flatten().tolist())) == list(range(max(low, 12), high)), split
        assert torch.equal(
            batch.x[:, :2],
            torch.stack([torch.tensor(TABLE[:2, int(s) : int(s) + 12]).float() for s in batch.x[:, 0, 0]]),
        )
    assert len(data.dataset("train")) == 140 - 12 - 3 + 1
    assert len(data.dataset("test")) == 30 - 3 + 1
    later = TABLE.copy()
    later[:, 140:] += 1e4
    changed = _ready(_csv(tmp_path / "other.csv", later))
    same = _ready(_csv(tmp_path / "same.csv"))
    assert changed.statistics is not None
    assert same.statistics is not None
    assert torch.equal(changed.statistics.mean, same.statistics.mean), "statistics are of the training part alone"
    assert np.allclose(same.statistics.mean[0, :, 0], TABLE[:, :140].mean(1), rtol=1e-5)
    targets = changed.dataset("train").__getitems__(range(126)).y
    assert float(targets.max()) < 1e4, "no training target lies in a later part"


def test_several_series_are_not_mixed(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", x=np.stack([TABLE[:1], TABLE[:1] + 5000]))
    data = _ready(tmp_path / "two.npz", standardise="none")
    for split in ("train", "val", "test"):
        dataset = data.dataset(split)
        batch = dataset.__getitems__(range(len(dataset)))
        whole = torch.cat([batch.x, batch.y], dim=2)[:, 0]
        assert (whole.diff(dim=1) == 1).all(), "a window lies within one series"
        assert ((whole[:, 0] >= 5000).float().mean() == 0.5).item()


@pytest.mark.parametrize("period", [0, 7])
def test_the_naive_forecast_is_the_last_value_or_that_of_a_season_before(period: int, tmp_path: Path) -> None:
    data = _ready(_csv(tmp_path / "power.csv", TABLE[2:]), ahead=9, period=period)
    errors = []
    for start in range(170 - 12, 200 - 12 - 9 + 1):
        for step in range(9):
            back = period - step % period if period else 1
            errors.append(TABLE[2, start + 12 - back] - TABLE[2, start + 12 + step])
    scores = data.reference_scores("test")
    assert scores["naive_mae"] == pytest.approx(np.abs(errors).mean())
    assert scores["naive_mse"] == pytest.approx(np.square(errors).mean())
    assert (scores["naive_mae"] == 0) == (period == 7)


def test_series_that_come_with_sktime() -> None:
    data = SktimeSeries("longley", window=4)
    assert (data.in_channels, data.channel_names[:2]) == (6, ("TOTEMP", "GNPDEFL"))
    assert SktimeSeries("airline", window=24, ahead=12, period=12).channels == 1
    with pytest.raises(ValueError, match=r"series must be one of airline, lynx.*did you mean airline"):
        SktimeSeries("airlines", window=4)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "season": ({"period": 13}, "period must lie within the window of 12 steps, got 13"),
    "parts": ({"parts": (0.5, 0.5, 0.5)}, "parts must be three fractions that add up to 1"),
    "dropped": ({"drop_rate": 0.3}, "forecasting needs every step of the series; leave drop_rate alone"),
    "too long": ({"window": 500}, "has 200 steps, fewer than a window of 500 with 3 ahead"),
    "too far": ({"ahead": 10**9}, "has 200 steps, fewer than a window of 12 with 1000000000 ahead"),
    "no room": (
        {"window": 30, "ahead": 31},
        r"no window of 30 steps with 31 ahead lies in the part for val \(30 steps\)",
    ),
}


@pytest.mark.parametrize("fault", BAD)
def test_what_cannot_be_cut(fault: str, tmp_path: Path) -> None:
    options, message = BAD[fault]
    with pytest.raises(ValueError, match=message):
        _ready(_csv(tmp_path / "power.csv"), **options)


def test_series_with_holes_are_refused(tmp_path: Path) -> None:
    hole = TABLE.copy()
    hole[1, 70] = np.nan
    with pytest.raises(DataError, match="must have a number at every step, got nan in channel 1, step 70, and 0 more"):
        _ready(_csv(tmp_path / "power.csv", hole))
    gone = np.where(_T < 50, _T, _T + 3)
    with pytest.raises(DataError, match="from row 49 to the next one it is 4 times the usual step; fill in the rows"):
        _ready(_csv(tmp_path / "gap.csv", time=gone))
    months = np.datetime64("1990-01") + _T
    assert _ready(_csv(tmp_path / "months.csv", time=months)).channels == 3, "dates are fine, and months too"
    with pytest.raises(DataError, match="from row 59 to the next one it is 2 times"):
        _ready(_csv(tmp_path / "power.csv", time=np.delete(np.datetime64("1990-01") + np.arange(201), 60)))
