from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from ckcnn.datamodules import DataError
from ckcnn.datamodules.sequences import TEST, TRAIN, VAL
from ckcnn.datamodules.splits import split_indices

LABELS = np.repeat(np.arange(20), 143)[:2858]


def test_the_recipe_of_the_authors() -> None:
    """The authors' recipe: random states 0 and 1, validation before test."""
    train, rest = train_test_split(np.arange(2858), train_size=0.7, random_state=0, stratify=LABELS)
    val, test = train_test_split(rest, train_size=0.5, random_state=1, stratify=LABELS[rest])
    found = split_indices(LABELS, None, seed=0)
    assert {name: len(rows) for name, rows in found.items()} == {"train": 2000, "val": 429, "test": 429}
    for name, rows in (("train", train), ("val", val), ("test", test)):
        assert np.array_equal(found[name], np.sort(rows))


def test_sizes_of_speech_commands() -> None:
    labels = np.arange(34_975) % 10
    sizes = [len(rows) for rows in split_indices(labels, None, seed=0).values()]
    assert sizes == [24_482, 5_246, 5_247]  # the authors' sizes


def test_official_training_and_test_sets_stay_apart() -> None:
    labels = np.arange(1200) % 10
    codes = np.array([TRAIN] * 1000 + [TEST] * 200, dtype=np.int8)
    found = split_indices(labels, codes, seed=0)
    assert found["test"].tolist() == list(range(1000, 1200))
    assert np.bincount(labels[found["val"]]).tolist() == [10] * 10
    assert set(found["train"]) | set(found["val"]) == set(range(1000))


def test_a_split_of_the_source_is_kept() -> None:
    codes = np.array([VAL, TRAIN, TEST, TRAIN], dtype=np.int8)
    found = split_indices(np.zeros(4, dtype=int), codes, seed=9)
    assert {name: rows.tolist() for name, rows in found.items()} == {"train": [1, 3], "val": [0], "test": [2]}


def test_other_seeds_split_differently() -> None:
    assert not np.array_equal(split_indices(LABELS, None, 0)["val"], split_indices(LABELS, None, 1)["val"])


def test_values_are_split_without_strata() -> None:
    assert len(split_indices(np.random.default_rng(0).random((100, 1)), None, 0)["train"]) == 70


def test_a_missing_split_is_an_error() -> None:
    with pytest.raises(DataError, match="the test split is empty"):
        split_indices(np.zeros(20, dtype=int), np.array([TRAIN] * 20, dtype=np.int8), 0)


def test_too_few_of_a_class() -> None:
    with pytest.raises(DataError, match="give more of each class"):
        split_indices(np.array([0] * 30 + [1]), None, 0)
