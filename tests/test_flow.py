"""From data module to network: the facts of every benchmark build a network that takes its batches."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch

from ckcnn.datamodules import SequenceBatch, SequenceDataModule
from ckcnn.nn import CKConv, CKNet, CKTextNet
from tests.datamodules.cases import CASES, ready


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    CASES[request.param][1](tmp_path)
    return request.param


def answer(data: SequenceDataModule, batch: SequenceBatch, split: str) -> torch.Tensor:
    conv = partial(CKConv, horizon=data.horizon)
    if data.task == "language":
        return CKTextNet(data.out_channels, 6, 8, conv)(batch.x)
    readout = "every_step" if data.task == "every_step" else "last" if batch.lengths is None else "last_valid"
    net = CKNet(data.in_channels, 6, data.out_channels, conv, norm="step", readout=readout)
    return net(batch.x, data.dt[split], batch.times, batch.lengths)


@pytest.mark.parametrize("options", [{}, {"drop_rate": 0.3}, {"drop_rate": 0.3, "missing": "times"}, {"test_dt": 2}])
def test_batches_go_through_the_network(case: str, options: dict[str, object], tmp_path: Path) -> None:
    if CASES[case][0] == "PennTreebank" and options:
        pytest.skip("text has nothing to drop or subsample")
    data = ready(case, tmp_path, **options)
    for split, loader in (("train", data.train_dataloader()), ("test", data.test_dataloader())):
        batch = next(iter(loader))
        scores = answer(data, batch, split)
        assert scores.isfinite().all()
        assert scores.shape[:2] == (len(batch.x), data.out_channels)
        assert scores.shape[2:] == (batch.y.shape[1:] if data.task in ("every_step", "language") else ())
