"""Coarse to fine: which epoch sees which samples, what is refused, and the low-pass filter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning import LightningModule, Trainer
from torch import Tensor

from ckcnn import CKCNN
from ckcnn.datamodules import Digits, PhysioNet, SequenceBatch
from ckcnn.datamodules.coarse import RateSchedule
from ckcnn.datamodules.transforms import thinned
from ckcnn.models.baselines import GRU
from tests.datamodules.cases import make, ready


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("8:10,4:5", "must go from coarse to fine and end with step 1, got '8:10,4:5'"),
        ("4:1,8:1,1:1", "must go from coarse to fine"),
        ("4:1,4:1,1:1", "must go from coarse to fine"),
        ("3:1,1:1", "with steps of 1, 2, 4, 8, 16 and at least one epoch each, got '3:1,1:1'"),
        ("4:0,1:1", "at least one epoch each"),
        ("4,1", "write step:epochs for each phase, such as 8:10,4:5,1:5"),
        (490, r"got 490 \(YAML needs quotes around it\)"),
    ],
)
def test_a_schedule_that_cannot_be_meant_is_refused(text: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Digits(schedule_dt=text)


@pytest.mark.parametrize(
    ("case", "options", "message"),
    [
        ("ptb", {"schedule_dt": "2:1,1:1"}, "text has no coarser version; leave out schedule_dt"),
        (
            "pmnist",
            {"schedule_dt": "2:1,1:1", "antialias": True},
            "permuted steps .* leave out schedule_dt and antialias",
        ),
        ("copy", {"schedule_dt": "2:1,1:1"}, "every n-th step of CopyMemory loses what has to be remembered"),
        ("adding", {"antialias": True}, "every n-th step of AddingProblem loses"),
        ("digits", {"antialias": True, "drop_rate": 0.3}, "antialias filters sequences without gaps"),
        ("digits", {"schedule_dt": "16:1,1:1", "train_dt": 16}, "every 256th of 64 samples, and fewer than 2 are left"),
    ],
)
def test_data_without_a_coarser_version_is_refused(
    case: str, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        make(case, tmp_path, **options)


def test_every_epoch_has_its_rate(tmp_path: Path) -> None:
    """The sequences and their order are those of a training at the full rate, in the processes of the loader too."""
    options = {"augment": "crop", "num_workers": 1, "train_dt": 2}
    fine, coarse = (ready("digits", tmp_path, **options, **more) for more in ({}, {"schedule_dt": "4:1,2:2,1:3"}))
    assert coarse.facts == fine.facts
    assert coarse.preprocessing.state()["train_dt"] == 2
    loaders: list[Any] = [module.train_dataloader() for module in (fine, coarse)]
    for epoch, step in enumerate((4, 2, 2, 1, 1)):
        assert loaders[1].step(epoch) == step
        for loader in loaders:
            loader.sampler.set_epoch(epoch)
        batches = [list(loader) for loader in loaders]
        assert len(batches[0]) == len(batches[1])
        for whole, part in zip(*batches, strict=True):
            assert torch.equal(part.x, whole.x[..., ::step])
            assert torch.equal(part.y, whole.y)
    assert torch.equal(next(iter(coarse.val_dataloader())).x, next(iter(fine.val_dataloader())).x)


def test_stamps_tell_the_rate_themselves(tmp_path: Path) -> None:
    module = ready("digits", tmp_path, missing="times", schedule_dt="4:1,1:1")
    loader: Any = module.train_dataloader()
    assert loader.step(0) == 1
    assert next(iter(loader)).times[0, :3].tolist() == [0, 4, 8]


class Steps(CKCNN):
    """Remembers the rate of every call."""

    calls: list[tuple[str, float, int]]

    def answers(self, batch: SequenceBatch, split: str = "test", step: float = 1.0) -> Tensor:
        self.calls.append((split, self.dt[split] * step, batch.x.shape[-1]))
        return super().answers(batch, split, step)


def fit(model: LightningModule, data: Digits, folder: Path, epochs: int) -> Trainer:
    options: dict[str, Any] = {"accelerator": "cpu", "logger": False, "enable_checkpointing": False}
    options |= {"enable_progress_bar": False, "enable_model_summary": False, "default_root_dir": folder}
    trainer = Trainer(max_epochs=epochs, limit_train_batches=1, limit_val_batches=1, num_sanity_val_steps=0, **options)
    trainer.fit(model, datamodule=data)
    return trainer


@pytest.mark.filterwarnings("ignore")  # Lightning's advice on workers
@pytest.mark.parametrize("network", [{}, {"block": "pre_norm_gated", "conv": "depthwise", "window": "channel"}])
def test_the_network_is_told_the_rate(network: dict[str, Any], tmp_path: Path) -> None:
    data = Digits(root=tmp_path, batch_size=4, schedule_dt="4:1,1:1")
    model = Steps(**data.facts._asdict(), hidden_channels=4, omega_0="auto", schedule="one_cycle", **network)
    model.calls = []
    trainer = fit(model, data, tmp_path, 2)
    assert model.calls == [("train", 4, 16), ("val", 1, 64), ("train", 1, 64), ("val", 1, 64)]
    (scheduler,) = model._schedulers()
    assert scheduler.total_steps == trainer.global_step == 2
    assert trainer.callback_metrics["train/dt"] == 1


@pytest.mark.filterwarnings("ignore")
def test_a_training_that_cannot_use_the_schedule_is_refused(tmp_path: Path) -> None:
    data = Digits(root=tmp_path, batch_size=4, schedule_dt="4:1,1:2")
    with pytest.raises(ValueError, match=r"4:1,1:2 needs 3 epochs, but .*max_epochs is 2"):
        fit(CKCNN(**data.facts._asdict(), hidden_channels=4), data, tmp_path, 2)
    with pytest.raises(ValueError, match="networks that know the sampling step, and GRU counts samples"):
        fit(GRU(**data.facts._asdict(), size=500), data, tmp_path, 3)


@pytest.mark.parametrize(("stride", "first"), [(2, 0), (4, 3), (8, 5)])
def test_the_filter_keeps_what_a_coarse_grid_can_hold(stride: int, first: int) -> None:
    t = torch.arange(400.0)
    middle = slice(8, -8)  # of the result: at the ends the filter sees one side only
    for cycles in (0.0, 0.1, 0.2, 0.3):  # in a sample of the result
        x = torch.cos(2 * torch.pi * cycles / stride * t + 0.3)
        y = thinned(x[None, None], stride, first)[0, 0]
        assert y.shape == x[first::stride].shape
        assert torch.allclose(y[middle], x[first::stride][middle], atol=0.01)
    for cycles in (0.5, 0.6, 0.9):
        x = torch.cos(2 * torch.pi * cycles / stride * t + 0.3)
        assert thinned(x[None, None], stride, first)[0, 0, middle].abs().max() < 0.01


def test_the_filter_does_not_see_padding() -> None:
    x = torch.randn(2, 3, 90)
    valid = torch.arange(90) < torch.tensor([[90], [41]])
    y = thinned(x * valid[:, None], 4, 0, valid)
    assert torch.allclose(y[1:, :, :11], thinned(x[1:, :, :41], 4), atol=1e-6)
    assert y[1, :, 11:].eq(0).all()


def test_the_filter_is_part_of_training_and_prediction(tmp_path: Path) -> None:
    plain, module = (ready("digits", tmp_path, train_dt=4, antialias=antialias) for antialias in (False, True))
    whole = ready("digits", tmp_path)
    x = whole.dataset("val").__getitems__([0, 1]).x
    filtered = module.dataset("val").__getitems__([0, 1]).x
    assert torch.allclose(filtered, thinned(x, 4), atol=1e-6)
    assert not torch.allclose(filtered, plain.dataset("val").__getitems__([0, 1]).x, atol=0.1)
    again = type(module.preprocessing).from_state(module.preprocessing.state()).pipeline()
    store = module._store
    assert store is not None
    assert torch.equal(again(store.rows(torch.from_numpy(module.splits["val"][:2]))).x, filtered)


def test_gaps_of_the_data_itself_are_seen() -> None:
    with pytest.raises(ValueError, match="antialias filters sequences without gaps"):
        PhysioNet(antialias=True)


def test_a_schedule_knows_its_phases() -> None:
    schedule = RateSchedule.parse("16:1, 2:2, 1:1")
    assert [schedule.step(epoch) for epoch in range(6)] == [16, 2, 2, 1, 1, 1]
    schedule.check_end(None)
    schedule.check_end(-1)
