from __future__ import annotations

import numpy as np
import pytest
import torch

from ckcnn.datamodules.transforms import drop_count, kept_steps, remaining, repeat_last, statistics, unpack_steps


@pytest.mark.parametrize(
    ("length", "rate", "dropped"),
    [(182, 0.3, 54), (182, 0.5, 91), (182, 0.7, 127), (16000, 0.3, 4800), (16000, 0.5, 8000), (16000, 0.7, 11200)],
)
def test_drop_counts_are_the_published_ones(length: int, rate: float, dropped: int) -> None:
    assert drop_count(length, rate) == dropped  # the authors' counts
    kept = unpack_steps(kept_steps(3, length, rate), length)
    assert (~kept).sum(1).tolist() == [dropped] * 3


def test_the_first_sequence_has_the_authors_pattern() -> None:
    generator = torch.Generator().manual_seed(56789)
    kept = unpack_steps(kept_steps(2, 182, 0.3), 182)
    for row in kept:
        assert sorted(torch.randperm(182, generator=generator)[:54].tolist()) == (~row).nonzero()[:, 0].tolist()


def test_seeds_give_other_patterns() -> None:
    assert not np.array_equal(kept_steps(2, 100, 0.5, seed=0), kept_steps(2, 100, 0.5, seed=1))


def test_repeat_last_keeps_full_sequences() -> None:
    x = torch.randn(3, 2, 5)
    assert torch.equal(repeat_last(x, torch.tensor([5, 5, 5])), x)
    assert (repeat_last(x, torch.tensor([1, 1, 1])) == x[..., :1]).all()


def test_remaining_never_leaves_a_sequence_empty() -> None:
    index, lengths = remaining(torch.zeros(2, 4, dtype=torch.bool))
    assert index.tolist() == [[0], [0]]
    assert lengths.tolist() == [1, 1]


@pytest.mark.parametrize("by", ["channel", "step"])
def test_statistics_do_not_depend_on_the_pieces(by: str) -> None:
    x = 1e4 + torch.randn(50, 3, 20)
    seen = torch.rand(50, 3, 20) < 0.5
    whole = statistics([(x, seen)], by)
    parts = statistics(zip(x.split(7), seen.split(7), strict=True), by)
    assert torch.allclose(whole.mean, parts.mean)
    assert torch.allclose(whole.std, parts.std, rtol=1e-4)
    standard = whole.apply(x)[seen]
    assert float(standard.mean()) == pytest.approx(0.0, abs=1e-2)
    assert float(standard.std()) == pytest.approx(1.0, abs=0.05)


def test_what_never_changes_in_training_is_not_magnified() -> None:
    found = statistics([(torch.full((10, 1, 4), 0.1), None)], "channel")
    assert float(found.apply(torch.full((1, 1, 4), 0.2)).abs().max()) < 1.0


def test_what_was_never_observed_stays_finite() -> None:
    x = torch.full((4, 1, 3), float("nan"))
    found = statistics([(x, torch.zeros(4, 1, 3, dtype=torch.bool))], "channel")
    assert found.mean.isfinite().all()
    assert found.apply(torch.zeros(1, 1, 3)).isfinite().all()
