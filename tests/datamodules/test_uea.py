"""Problems of the UEA and UCR archives: those that ship with sktime, and files below the data root."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sktime.datasets import load_UCR_UEA_dataset

from ckcnn.datamodules import UEA, DataError
from ckcnn.datamodules.uea import shipped_problems
from tests.datamodules import official


def test_every_shipped_problem_has_the_official_sizes(tmp_path: Path) -> None:
    assert {"BasicMotions", "GunPoint", "JapaneseVowels", "UnitTest"} <= set(shipped_problems())
    data = UEA("GunPoint", root=tmp_path)
    assert data.sizes == (45, 5, 150)
    assert (data.in_channels, data.out_channels, data.horizon, data.classes) == (1, 2, 150, ("1", "2"))
    assert not any(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore")  # of pandas within sktime
def test_values_labels_and_lengths_are_those_of_sktime(tmp_path: Path) -> None:
    data = UEA("JapaneseVowels", root=tmp_path, pad="valid", standardise="none")
    data.prepare_data()
    data.setup()
    x, y = load_UCR_UEA_dataset("JapaneseVowels", split="test", return_type="nested_univ")
    batch = data.dataset("test").__getitems__(range(20))
    assert [data.classes[label] for label in batch.y] == list(y[:20])
    assert batch.lengths is not None
    for row in range(20):
        series = np.stack([np.asarray(channel) for channel in x.iloc[row]])
        assert batch.lengths[row] == series.shape[1]
        np.testing.assert_allclose(batch.x[row, :, : series.shape[1]], series, rtol=1e-6)


def test_the_splits_are_the_official_ones(tmp_path: Path) -> None:
    data = UEA("UnitTest", root=tmp_path)
    data.prepare_data()
    data.setup()
    assert [len(data.splits[name]) for name in ("train", "val", "test")] == [18, 2, 22] == list(data.sizes or ())
    assert data.splits["test"].min() == 20


def test_a_regression_problem_has_values(tmp_path: Path) -> None:
    data = UEA("Tecator", root=tmp_path)
    data.prepare_data()
    data.setup()
    assert (data.task, data.out_channels) == ("regression", 1)
    assert data.dataset("train")[0].y.shape == (1,)


def test_files_below_the_root_are_found(tmp_path: Path) -> None:
    official.write_trajectories(tmp_path)
    data = UEA("CharacterTrajectories", root=tmp_path)
    data.prepare_data()
    data.setup()
    assert data.in_channels == 3
    assert set(data.dataset("val").__getitems__(range(len(data.splits["val"]))).y.tolist()) == set(range(20))


def test_a_problem_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UEA, "download", lambda self: (_ for _ in ()).throw(DataError("needs these files")))
    with pytest.raises(DataError, match=r"^needs these files"):
        UEA("NoSuchProblem", root=tmp_path)
    with pytest.raises(DataError, match="did you mean GunPoint"):
        UEA("gunpoint", root=tmp_path)
    with pytest.raises(ValueError, match="such as BasicMotions, got"):
        UEA("../x", root=tmp_path)
