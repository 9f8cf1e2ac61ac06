"""The cases of the pipeline that no benchmark of the paper has."""

from __future__ import annotations

import torch

from ckcnn.datamodules.pipeline import Pipeline, Rows


def _pipeline(**options: object) -> Pipeline:
    defaults = {"units": None, "sporadic": 1, "gaps": False, "padding": "repeat", "missing": None}
    return Pipeline(**{**defaults, **options})


def test_a_target_at_every_step_is_permuted_with_the_signal() -> None:
    x = torch.arange(6.0).view(1, 1, 6)
    order = torch.tensor([3, 1, 0, 5, 4, 2])
    batch = _pipeline(order=order, every_step=True)(Rows(x, x[:, 0].long()))
    assert batch.x[0, 0].tolist() == batch.y[0].tolist() == order.tolist()


def test_padding_never_counts_at_every_step() -> None:
    x = torch.ones(2, 1, 4)
    rows = Rows(x, torch.ones(2, 4, dtype=torch.int64), lengths=torch.tensor([4, 2]))
    batch = _pipeline(padding="valid", every_step=True)(rows)
    assert batch.y.tolist() == [[1, 1, 1, 1], [1, 1, -100, -100]]


def test_stamps_of_the_data_are_thinned_and_rescaled() -> None:
    rows = Rows(torch.ones(1, 1, 4), torch.zeros(1), times=torch.tensor([[0.0, 1.0, 5.0, 9.0]]))
    assert _pipeline(stride=2, training_stride=2)(rows).times.tolist() == [[0.0, 2.5]]


def test_stamps_of_the_data_survive_dropping() -> None:
    kept = torch.tensor([[True, False, True, True]])
    rows = Rows(torch.ones(1, 1, 4), torch.zeros(1), times=torch.tensor([[0.0, 1.0, 5.0, 9.0]]), kept=kept)
    assert _pipeline(missing="times")(rows).times.tolist() == [[0.0, 5.0, 9.0]]


def test_rows_are_left_as_they_were() -> None:
    x = torch.rand(3, 1, 4)
    before = x.clone()
    _pipeline(units=(torch.tensor([[0.5]]), torch.tensor([[2.0]])))(Rows(x, torch.zeros(3)))
    assert torch.equal(x, before)
