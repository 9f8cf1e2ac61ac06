"""What every benchmark must do, whatever its data."""

from __future__ import annotations

import itertools
import math
import pickle
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler

from ckcnn.datamodules import SequenceBatch, SequenceDataModule
from ckcnn.datamodules.datasets import SequenceDataset
from ckcnn.datamodules.loading import ShardSampler
from ckcnn.datamodules.transforms import drop_count
from tests.datamodules.cases import CASES, make, ready

SPLITS = ("train", "val", "test")
SIGNALS = [case for case in CASES if case != "ptb"]  # text has no values to drop, standardise or resample


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The files of every case, written once; the caches in these folders are shared by the tests."""
    folders = {}
    for case, (_, write, _) in CASES.items():
        folders[case] = tmp_path_factory.mktemp("data") / case
        write(folders[case])
    return folders


def _loader(module: SequenceDataModule, split: str) -> DataLoader[SequenceBatch]:
    return getattr(module, f"{split}_dataloader")()


def _batches(module: SequenceDataModule, split: str, limit: int = 3) -> list[SequenceBatch]:
    return list(itertools.islice(_loader(module, split), limit))


def _all(module: SequenceDataModule, split: str = "val") -> SequenceBatch:
    """A split as one batch, in file order."""
    dataset = module.dataset(split)
    return dataset.__getitems__(range(len(dataset)))


def _parts(batch: SequenceBatch) -> Iterator[Tensor]:
    return (part for part in batch if part is not None)


def _assert_same(left: list[SequenceBatch], right: list[SequenceBatch]) -> None:
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        for one, other in zip(_parts(a), _parts(b), strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("case", [case for case in CASES if case != "arrays"])
def test_facts_need_no_file(case: str, tmp_path: Path) -> None:
    module = make(case, tmp_path / "nowhere", drop_rate=0.0 if case == "ptb" else 0.3)
    assert min(module.in_channels, module.out_channels, module.horizon) >= 1
    assert module.task in ("classification", "binary", "regression", "every_step", "language")
    assert module.dt == {"train": 1.0, "val": 1.0, "test": 1.0}
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("case", CASES)
def test_batches_hold_what_the_facts_say(case: str, roots: dict[str, Path]) -> None:
    module = ready(case, roots[case])
    for split in SPLITS:
        for batch in _batches(module, split):
            if module.task == "language":
                assert batch.x.dtype == batch.y.dtype == torch.int64
                assert batch.x.shape == batch.y.shape
                assert batch.x.shape[1] <= module.horizon
            else:
                assert batch.x.dtype == torch.float32
                assert batch.x.shape[1:] == (module.in_channels, module.horizon)
                assert batch.x.isfinite().all()
            _check_labels(module, batch)


def _check_labels(module: SequenceDataModule, batch: SequenceBatch) -> None:
    if module.task == "regression":
        assert batch.y.dtype == torch.float32
        assert batch.y.shape == (len(batch.x), module.out_channels)
        return
    assert batch.y.dtype == torch.int64
    timed = module.task in ("every_step", "language")
    assert batch.y.shape == ((len(batch.x), batch.x.shape[-1]) if timed else (len(batch.x),))
    labels = batch.y[batch.y != -100]
    assert 0 <= int(labels.min()) <= int(labels.max()) < max(2, module.out_channels)


@pytest.mark.parametrize("case", SIGNALS)
@pytest.mark.parametrize("missing", ["mask", "counts", "times"])
def test_in_channels_counts_what_is_added(case: str, missing: str, roots: dict[str, Path]) -> None:
    module = ready(case, roots[case], drop_rate=0.5, missing=missing)
    added = {"mask": 1, "times": 0, "counts": module.channels if module.sporadic is None else module.sporadic}
    assert module.in_channels == module.channels + added[missing]
    assert _batches(module, "train", 1)[0].x.shape[1] == module.in_channels


@pytest.mark.parametrize("case", CASES)
def test_splits_are_disjoint_and_cover_everything(case: str, roots: dict[str, Path]) -> None:
    module = ready(case, roots[case])
    together = np.concatenate([module.splits[split] for split in SPLITS])
    assert all(len(module.splits[split]) for split in SPLITS)
    assert np.array_equal(np.sort(together), np.arange(len(together)))
    assert len(together) == module._store.shape[0]
    if module.task != "language":
        assert [sum(len(batch.x) for batch in _loader(module, split)) for split in SPLITS] == [
            len(module.splits[split]) for split in SPLITS
        ]


@pytest.mark.parametrize("case", CASES)
def test_repeatable_under_the_seed(case: str, roots: dict[str, Path]) -> None:
    drop = 0.0 if case == "ptb" else 0.4
    first, second = (ready(case, roots[case], seed=3, drop_rate=drop) for _ in range(2))
    torch.rand(1)  # what else is drawn makes no difference
    for split in SPLITS:
        assert np.array_equal(first.splits[split], second.splits[split])
        _assert_same(_batches(first, split), _batches(second, split))
    other = _batches(ready(case, roots[case], seed=4, drop_rate=drop), "train")
    assert not torch.equal(other[0].x, _batches(first, "train")[0].x)


@pytest.mark.parametrize("case", CASES)
def test_training_order_depends_on_the_epoch_alone(case: str, roots: dict[str, Path]) -> None:
    loader, resumed = (_loader(ready(case, roots[case]), "train") for _ in range(2))
    epochs = [list(loader) for _ in range(3)]
    assert not all(torch.equal(a.x, b.x) for a, b in zip(epochs[0], epochs[1], strict=True))
    resumed.sampler.set_epoch(2)
    _assert_same(list(resumed), epochs[2])


@pytest.mark.parametrize("case", SIGNALS)
@pytest.mark.parametrize("by", ["channel", "step"])
def test_statistics_come_from_observed_training_values(case: str, by: str, roots: dict[str, Path]) -> None:
    module = ready(case, roots[case], standardise=by, drop_rate=0.3)
    dataset = module.dataset("train")
    x, observed = dataset.pipeline.observe(dataset.store.rows(dataset.index))
    values = np.where(observed.expand_as(x), x, np.nan).astype(np.float64)
    scaled = module.channels - module.unscaled
    rows = values[:, :scaled].swapaxes(0, 1) if by == "channel" else values[:, :scaled].transpose(2, 0, 1)
    for position, row in enumerate(rows.reshape(len(rows), -1)):
        seen = row[~np.isnan(row)]
        at = (0, position, 0) if by == "channel" else (0, 0, position)
        assert module.statistics.mean[at] == pytest.approx(seen.mean() if len(seen) else 0.0, rel=1e-4, abs=1e-5)
        if len(seen) > 1 and seen.std() > 1e-6:
            assert module.statistics.std[at] == pytest.approx(seen.std(ddof=1), rel=1e-4)


@pytest.mark.parametrize("case", SIGNALS)
def test_statistics_ignore_the_other_splits(case: str, roots: dict[str, Path]) -> None:
    module = ready(case, roots[case], standardise="channel")
    store = module._store
    others = torch.from_numpy(np.concatenate([module.splits["val"], module.splits["test"]]))
    before = module.statistics
    store.x[others] = 100
    after = module._statistics(store)
    assert torch.equal(before.mean, after.mean)
    assert torch.equal(before.std, after.std)


def _protocol_pattern(count: int, length: int, rate: float) -> Tensor:
    """The authors' recipe, word by word."""
    generator = torch.Generator().manual_seed(56789)
    kept = torch.ones(count, length, dtype=torch.bool)
    for row in kept:
        row[torch.randperm(length, generator=generator)[: drop_count(length, rate)]] = False
    return kept


@pytest.mark.parametrize("case", SIGNALS)
def test_mask_is_what_was_dropped(case: str, roots: dict[str, Path]) -> None:
    module = ready(case, roots[case], drop_rate=0.3, missing="mask")
    kept = _protocol_pattern(module._store.shape[0], module.length, 0.3)[module.splits["val"]]
    dataset = module.dataset("val")
    if dataset.pipeline.order is not None:
        kept = kept[:, dataset.pipeline.order]
    batch = _all(module)
    sporadic = module.channels if module.sporadic is None else module.sporadic
    assert (batch.x[:, :sporadic].mT[~kept] == 0).all()
    if module.gaps:  # hours without any measurement are missing, too
        assert not batch.x[:, -1][~kept].any()
    else:
        assert torch.equal(batch.x[:, -1].bool(), kept)


@pytest.mark.parametrize("case", SIGNALS)
@pytest.mark.parametrize("pad", ["paper", "valid"])
def test_times_are_where_the_mask_is_one(case: str, pad: str, roots: dict[str, Path]) -> None:
    masked = _all(ready(case, roots[case], drop_rate=0.6, missing="mask", pad=pad))
    module = ready(case, roots[case], drop_rate=0.6, missing="times", pad=pad)
    stamped = _all(module)
    assert stamped.times.dtype == torch.float32
    assert (stamped.times.diff() >= 0).all()
    lengths = torch.full((len(stamped.x),), stamped.x.shape[-1]) if stamped.lengths is None else stamped.lengths
    for row in range(len(stamped.x)):
        steps = masked.x[row, -1].nonzero()[:, 0]
        length = int(lengths[row])
        if len(steps):
            assert torch.equal(stamped.times[row, :length], steps.float())
            assert torch.equal(stamped.x[row, :, :length], masked.x[row, :-1, steps])
        assert (stamped.times[row, length:] == stamped.times[row, length - 1]).all()
        assert not stamped.x[row, :, length:].any()
        if module.task == "every_step":
            assert (stamped.y[row, length:] == -100).all()
            assert torch.equal(stamped.y[row, :length], masked.y[row, steps])


@pytest.mark.parametrize("case", SIGNALS)
def test_the_newest_sample_can_be_kept(case: str, roots: dict[str, Path]) -> None:
    whole = ready(case, roots[case], drop_rate=0.3)
    module = ready(case, roots[case], drop_rate=0.3, train_dt=4, test_dt=8, keep="last")
    for split, step in (("train", 4), ("test", 8)):
        expected, kept = (data.dataset(split).__getitems__(range(4)) for data in (whole, module))
        assert torch.equal(kept.x, expected.x[..., (whole.length - 1) % step :: step])
        assert kept.x.shape[-1] == -(-whole.length // step)


def test_the_newest_stamp_can_be_kept(roots: dict[str, Path]) -> None:
    module = ready("digits", roots["digits"], missing="times", train_dt=4, keep="last")
    assert module.dataset("train")[0].times.tolist() == [step / 4 for step in range(3, 64, 4)]


@pytest.mark.parametrize("case", SIGNALS)
@pytest.mark.parametrize(("train_dt", "test_dt"), [(1, 2), (2, 1), (4, 16), (8, None)])
def test_subsampling_is_every_nth(case: str, train_dt: int, test_dt: int | None, roots: dict[str, Path]) -> None:
    full = ready(case, roots[case], drop_rate=0.3)
    module = ready(case, roots[case], drop_rate=0.3, train_dt=train_dt, test_dt=test_dt)
    step = {"train": train_dt, "val": train_dt, "test": test_dt or train_dt}
    assert module.dt == {"train": 1.0, "val": 1.0, "test": step["test"] / train_dt}
    for split in SPLITS:
        whole, thin = _all(full, split), _all(module, split)
        assert torch.equal(thin.x, whole.x[..., :: step[split]])
        if module.task == "every_step":
            assert torch.equal(thin.y, whole.y[:, :: step[split]])
    assert _all(module, "train").x.shape[-1] == module.horizon


@pytest.mark.parametrize("case", SIGNALS)
def test_stamps_count_training_samples(case: str, roots: dict[str, Path]) -> None:
    module = ready(case, roots[case], missing="times", train_dt=2, test_dt=4)
    train, test = _all(module, "train"), _all(module, "test")
    if not module.gaps:
        steps = torch.arange(module.horizon).float()
        assert torch.equal(train.times[0], steps)
        assert torch.equal(test.times[0], steps[::2])
    assert module.dt["test"] == 1.0
    assert float(train.times.max()) <= module.horizon - 1


@pytest.mark.parametrize("case", SIGNALS)
def test_valid_padding_carries_lengths(case: str, roots: dict[str, Path]) -> None:
    module = ready(case, roots[case], pad="valid", train_dt=2)
    batch, store = _all(module), module._store
    full = torch.full((store.shape[0],), module.length) if store.lengths is None else store.lengths
    expected = full[module.splits["val"]]
    assert torch.equal(batch.lengths, (expected + 1) // 2)
    for x, length in zip(batch.x, batch.lengths.tolist(), strict=True):
        assert not x[:, length:].any()


@pytest.mark.parametrize("case", CASES)
def test_workers_make_the_same_batches(case: str, roots: dict[str, Path]) -> None:
    alone, helped = (ready(case, roots[case], num_workers=count) for count in (0, 2))
    _assert_same(_batches(alone, "val"), _batches(helped, "val"))
    _assert_same(_batches(alone, "train"), _batches(helped, "train"))


@pytest.mark.parametrize("case", CASES)
def test_pickles(case: str, roots: dict[str, Path]) -> None:
    module = ready(case, roots[case])
    copy = pickle.loads(pickle.dumps(module))
    _assert_same(_batches(copy, "train"), _batches(module, "train"))
    assert copy.in_channels == module.in_channels


@pytest.mark.parametrize("case", CASES)
def test_ranks_share_the_work(case: str, roots: dict[str, Path]) -> None:
    module = ready(case, roots[case])
    for split in ("train", "val", "test"):
        dataset, seed = module.dataset(split), 0 if split == "train" else None
        assert isinstance(_loader(module, split).sampler, DistributedSampler)  # which Lightning leaves in place
        whole = list(ShardSampler(dataset, seed, 2, 1, 0))
        ranks = [ShardSampler(dataset, seed, 2, 3, rank) for rank in range(3)]
        shares = [list(sampler) for sampler in ranks]
        assert [len(sampler) for sampler in ranks] == [len(share) for share in shares]
        assert sorted(whole) == list(range(len(dataset)))
        assert [share[0] for share in shares] == whole[:3]  # a step of all ranks is a larger step of one
        if split == "train":  # training keeps all ranks busy, evaluation counts each sequence once
            assert len({math.ceil(len(share) / 2) for share in shares}) == 1
            assert set().union(*shares) == set(whole)
        else:
            assert sorted(item for share in shares for item in share) == sorted(whole)


@pytest.mark.parametrize("count", [1, 5, 12, 13, 16, 23])
@pytest.mark.parametrize("processes", [1, 2, 4])
def test_every_sequence_counts_the_same_in_the_last_step(count: int, processes: int) -> None:
    """The mean over processes of their mean losses, weighted, is the mean over the sequences of the batch."""
    batch_size = 12 // processes
    dataset: Any = range(count)
    samplers = [ShardSampler(dataset, 7, batch_size, processes, rank) for rank in range(processes)]
    parts = [list(sampler) for sampler in samplers]
    steps = {math.ceil(len(part) / batch_size) for part in parts}
    assert steps == {math.ceil(count / 12)}
    weights: dict[int, float] = defaultdict(float)
    for sampler, part in zip(samplers, parts, strict=True):
        last = part[(math.ceil(count / 12) - 1) * batch_size :]
        for item in last:
            weights[item] += sampler.last_share / len(last) / processes
    counted = [weight for weight in weights.values() if weight]
    assert counted == pytest.approx([1 / len(counted)] * len(counted))
    assert len(counted) == (count % 12 or 12)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_goes_on_where_it_stopped(workers: int, roots: dict[str, Path]) -> None:
    loader, fresh = (_loader(ready("digits", roots["digits"], num_workers=workers), "train") for _ in range(2))
    loader.sampler.set_epoch(3)
    expected = list(loader)
    loader.sampler.set_epoch(3)
    batches = iter(loader)
    given = [next(batches), next(batches)]
    fresh.skip = loader.given
    fresh.sampler.set_epoch(3)
    _assert_same([*given, *fresh], expected)
    assert len(list(fresh)) == len(expected), "the next epoch starts at its beginning"


@pytest.mark.parametrize("case", SIGNALS)
def test_an_item_is_a_row_of_a_batch(case: str, roots: dict[str, Path]) -> None:
    dataset = ready(case, roots[case]).dataset("val")
    assert isinstance(dataset, SequenceDataset)
    batch = dataset.__getitems__([1, 0])
    assert torch.equal(dataset[0].x, batch.x[1])
    assert torch.equal(dataset[0].y, batch.y[1])


@pytest.mark.parametrize("case", [case for case in CASES if case not in ("adding", "copy", "digits", "arrays")])
def test_the_cache_is_enough(case: str, tmp_path: Path) -> None:
    CASES[case][1](tmp_path / "root")
    cache = tmp_path / "elsewhere"
    before = set((tmp_path / "root").rglob("*"))
    make(case, tmp_path / "root", cache=cache).prepare_data()
    assert set((tmp_path / "root").rglob("*")) == before  # so the root may be read-only
    module = ready(case, tmp_path / "without files", cache=cache)
    assert len(_batches(module, "train"))
