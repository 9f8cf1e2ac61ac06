from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from ckcnn.datamodules import CharacterTrajectories, DataError
from tests.datamodules.official import UEA, ts_text, write_trajectories


def _ready(root: Path, **options: object) -> CharacterTrajectories:
    module = CharacterTrajectories(root=root, **options)
    module.prepare_data()
    module.setup()
    return module


def test_recordings_are_padded_with_their_last_value(tmp_path: Path) -> None:
    write_trajectories(tmp_path)
    module = _ready(tmp_path, standardise="none")
    first = (tmp_path / UEA / "CharacterTrajectories_TRAIN.ts").read_text().split("@data\n")[1].split("\n")[0]
    *channels, label = first.split(":")
    values = np.array([channel.split(",") for channel in channels], dtype=np.float32)
    split, row = next((s, int(np.flatnonzero(rows == 0)[0])) for s, rows in module.splits.items() if 0 in rows)
    found = module.dataset(split)[row]
    length = values.shape[1]
    assert np.allclose(found.x[:, :length], values)
    assert (found.x[:, length:] == found.x[:, length - 1 : length]).all()
    assert int(found.y) == int(label) - 1


def _expect(root: Path, *words: str) -> None:
    with pytest.raises(DataError) as caught:
        CharacterTrajectories(root=root).prepare_data()
    for word in words:
        assert word in str(caught.value)
    assert not list((root / "cache").glob("*.h5*"))


def test_not_a_ts_file(tmp_path: Path) -> None:
    write_trajectories(tmp_path)
    path = tmp_path / UEA / "CharacterTrajectories_TEST.ts"
    path.write_text("hello\n")
    _expect(tmp_path, str(path), "not a .ts file")


def test_missing_values_are_not_in_the_official_file(tmp_path: Path) -> None:
    write_trajectories(tmp_path)
    path = tmp_path / UEA / "CharacterTrajectories_TEST.ts"
    signal = np.zeros((3, 20))
    signal[1, 4] = np.nan
    path.write_text(ts_text([(signal, 1)]))
    _expect(tmp_path, str(path), "missing or infinite values")


def test_recording_that_is_too_long(tmp_path: Path) -> None:
    write_trajectories(tmp_path)
    path = tmp_path / UEA / "CharacterTrajectories_TRAIN.ts"
    path.write_text(ts_text([(np.zeros((3, 183)), 1)]))
    _expect(tmp_path, str(path), "183", "182")


def test_unknown_class(tmp_path: Path) -> None:
    write_trajectories(tmp_path)
    path = tmp_path / UEA / "CharacterTrajectories_TRAIN.ts"
    path.write_text(path.read_text().replace("19 20\n", "19 20 21\n").replace(":20\n", ":21\n"))
    _expect(tmp_path, str(path), "0 ... 19", "20")


def test_real_files(real_data: Path, real_cache: Path) -> None:
    module = _ready(real_data, cache=real_cache)
    assert {name: len(rows) for name, rows in module.splits.items()} == {"train": 2000, "val": 429, "test": 429}
    store = module._store
    assert store.shape == (2858, 3, 182)
    assert int(store.lengths.max()) == 182
    assert len(store.y.unique()) == 20
    for rows in module.splits.values():  # stratified: every class has its share, to one recording
        share = torch.bincount(store.y[rows], minlength=20) - torch.bincount(store.y) * len(rows) / 2858
        assert float(share.abs().max()) <= 1.0
    assert [len(module.dataset("test"))] == [429]


@pytest.mark.parametrize(("rate", "dropped"), [(0.3, 54), (0.5, 91), (0.7, 127)])
def test_real_drop_counts(rate: float, dropped: int, real_data: Path, real_cache: Path) -> None:
    module = _ready(real_data, cache=real_cache, drop_rate=rate, standardise="step")
    batch = module.dataset("val").__getitems__(range(429))
    assert batch.x.shape == (429, 4, 182)
    assert (batch.x[:, 3].sum(1) == 182 - dropped).all()
