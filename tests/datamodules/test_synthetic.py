from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ckcnn.datamodules import AddingProblem, CopyMemory, SequenceBatch, SequenceDataModule


def _split(module: SequenceDataModule, split: str) -> SequenceBatch:
    module.prepare_data()
    module.setup()
    dataset = module.dataset(split)
    return dataset.__getitems__(range(len(dataset)))


@pytest.mark.parametrize("length", [1, 100])
def test_copy_memory_is_that_of_the_paper(length: int, tmp_path: Path) -> None:
    module = CopyMemory(length=length, root=tmp_path)
    assert module.horizon == length + 20
    batch = _split(module, "test")
    assert batch.x.shape == (1000, 1, length + 20)
    x, digits = batch.x[:, 0].long(), batch.x[:, 0, :10].long()
    assert set(digits.unique().tolist()) == set(range(1, 9))
    assert not x[:, 10 : 10 + length - 1].any()
    assert (x[:, -11:] == 9).all()
    assert not batch.y[:, :-10].any()
    assert torch.equal(batch.y[:, -10:], digits)


@pytest.mark.parametrize("length", [100, 200])
def test_adding_problem_is_that_of_the_paper(length: int, tmp_path: Path) -> None:
    batch = _split(AddingProblem(length=length, root=tmp_path), "train")
    values, marks = batch.x[:, 0], batch.x[:, 1]
    assert batch.x.shape == (50_000, 2, length)
    assert 0 <= float(values.min()) < 0.01
    assert 0.99 < float(values.max()) < 1
    assert set(marks.unique().tolist()) == {0.0, 1.0}
    assert (marks.sum(1) == 2).all()
    assert torch.allclose(batch.y[:, 0], (values * marks).sum(1))
    assert 0.1647 < float((batch.y - 1).square().mean()) < 0.1770  # one sixth is what it tends to
    halves = marks[:, : length // 2].sum(1)
    assert float((halves == 1).float().mean()) == pytest.approx(0.5, abs=0.02)  # not one in each half


def test_real_sizes(tmp_path: Path) -> None:
    assert {s: len(_split(CopyMemory(length=5, root=tmp_path), s).x) for s in ("train", "val", "test")} == {
        "train": 10_000,
        "val": 1_000,
        "test": 1_000,
    }


def test_splits_and_seeds_differ(tmp_path: Path) -> None:
    module = AddingProblem(length=20, root=tmp_path)
    train, val = _split(module, "train").x, _split(module, "val").x
    assert not torch.equal(train[:1000], val)
    assert not torch.equal(train[:1000], train[1000:2000])
    assert not torch.equal(_split(AddingProblem(length=20, root=tmp_path, seed=1), "val").x, val)


def test_the_longest_length_is_read_lazily(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _split(AddingProblem(length=20, root=tmp_path), "val").x
    monkeypatch.setattr("ckcnn.datamodules.datasets.LAZY_BYTES", 0)
    lazy = AddingProblem(length=20, root=tmp_path)
    assert torch.equal(_split(lazy, "val").x, whole)
    assert not isinstance(lazy._store.x, torch.Tensor)


@pytest.mark.parametrize("length", [0, -1, 1.5, True])
def test_bad_length(length: object) -> None:
    with pytest.raises(ValueError, match="length must be a whole number"):
        CopyMemory(length=length)
