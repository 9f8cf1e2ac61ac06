"""The shared options, and a data module of one's own under a real trainer."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pytorch_lightning import LightningModule, Trainer

from ckcnn import datamodules
from ckcnn.datamodules import (
    CharacterTrajectories,
    DataError,
    Digits,
    PhysioNet,
    RawSequences,
    SequenceBatch,
    SequenceDataModule,
    datasets,
)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"drop_rate": 30}, r"drop_rate must lie in \[0, 1\), got 30; it is a fraction"),
        ({"drop_rate": -0.1}, "drop_rate must lie in"),
        ({"drop_rate": 1.0}, "drop_rate must lie in"),
        ({"drop_rate": float("nan")}, "drop_rate must lie in"),
        ({"train_dt": 3}, "train_dt must be one of 1, 2, 4, 8, 16"),
        ({"test_dt": 0}, "test_dt must be one of 1, 2, 4, 8, 16"),
        ({"missing": "masks"}, "missing must be one of mask, times, counts, got 'masks'; did you mean mask"),
        ({"standardise": "chanel"}, "did you mean channel"),
        ({"pad": "zero"}, "pad must be one of paper, valid"),
        ({"keep": "all"}, "keep must be one of first, last"),
        ({"keep": "last", "pad": "valid"}, "keep: last counts back from the common end"),
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1"),
        ({"num_workers": -1}, "num_workers must be a whole number of at least 0"),
        ({"on_device": True, "num_workers": 1}, "on_device makes all sequences once, without the processes"),
        ({"seed": 1.5}, "seed must be a whole number"),
    ],
)
def test_bad_options_are_told_at_once(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Digits(**options)


def test_sequences_on_the_device_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaders = []
    monkeypatch.setattr(datasets, "_RESIDENT_ROWS", 500)
    for on_device in (False, True):
        data = Digits(root=tmp_path, batch_size=50, drop_rate=0.3, on_device=on_device)
        data.prepare_data()
        data.setup()
        loaders.append((data.train_dataloader(), data.train_dataloader(), data.val_dataloader()))
    for plain, resident in zip(*loaders, strict=True):
        for ours, expected in zip(resident, plain, strict=True):
            assert all(a is b or torch.equal(a, b) for a, b in zip(ours, expected, strict=True))


def test_what_cannot_stay_on_the_device_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Digits(root=tmp_path, on_device=True, augment="crop")
    data.prepare_data()
    data.setup()
    with pytest.raises(DataError, match="on_device needs sequences that are the same in every epoch"):
        data.train_dataloader()

    def full(*_: object) -> None:
        raise torch.OutOfMemoryError

    data = Digits(root=tmp_path, on_device=True)
    data.setup()
    monkeypatch.setattr(datasets, "_each", full)
    with pytest.raises(DataError, match="1257 sequences do not fit into the memory of cpu; leave"):
        data.train_dataloader()


def test_unknown_options_are_refused() -> None:
    with pytest.raises(TypeError, match="drop"):
        datamodules.SequentialMNIST(drop=0.3)


def test_where_the_data_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CKCNN_DATA", raising=False)
    assert Digits().root == Path("data")
    monkeypatch.setenv("CKCNN_DATA", str(tmp_path))
    assert Digits().root == tmp_path
    assert Digits().cache == tmp_path / "cache"
    assert Digits(root="here", cache="there").cache_path == Path("there/digits.h5")


@pytest.mark.parametrize(
    ("module", "channels", "horizon", "dt"),
    [
        (CharacterTrajectories(), 3, 182, 1.0),
        (CharacterTrajectories(drop_rate=0.3), 4, 182, 1.0),
        (CharacterTrajectories(drop_rate=0.3, missing="counts"), 6, 182, 1.0),
        (CharacterTrajectories(drop_rate=0.3, missing="times", test_dt=2), 3, 182, 1.0),
        (CharacterTrajectories(train_dt=2), 3, 91, 1.0),
        (CharacterTrajectories(train_dt=8, test_dt=2), 3, 23, 0.25),
        (CharacterTrajectories(train_dt=1, test_dt=16), 3, 182, 16.0),
        (PhysioNet(), 75, 72, 1.0),
        (PhysioNet(missing="mask"), 42, 72, 1.0),
        (PhysioNet(missing="times"), 41, 72, 1.0),
    ],
)
def test_facts(module: SequenceDataModule, channels: int, horizon: int, dt: float) -> None:
    assert (module.in_channels, module.horizon, module.dt["test"]) == (channels, horizon, dt)


class Ramps(SequenceDataModule):
    """A user's benchmark: all it takes."""

    task = "classification"
    channels, length, out_channels = 1, 8, 2

    def load(self) -> Iterator[RawSequences]:
        x = np.arange(40, dtype=np.float32)[:, None, None] + np.zeros((1, 1, 8), dtype=np.float32)
        yield RawSequences(x, np.arange(40) % 2)


class Recorder(LightningModule):
    """Remembers which sequences it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.seen: list[list[float]] = []

    def on_train_epoch_start(self) -> None:
        self.seen.append([])

    def training_step(self, batch: SequenceBatch, _: int) -> torch.Tensor:
        assert isinstance(batch, SequenceBatch)
        self.seen[-1] += batch.x[:, 0, 0].tolist()
        return self.weight * batch.x.mean()

    def validation_step(self, batch: SequenceBatch, _: int) -> None: ...

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.mark.filterwarnings("ignore")  # Lightning's advice on workers, and its use of what torch has deprecated
def test_a_resumed_run_sees_what_an_uninterrupted_one_would(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "default_root_dir": tmp_path,
        "accelerator": "cpu",
        "logger": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    whole, first, second = Recorder(), Recorder(), Recorder()
    Trainer(max_epochs=3, enable_checkpointing=False, **options).fit(whole, datamodule=Ramps(root=tmp_path))
    trainer = Trainer(max_epochs=2, **options)
    trainer.fit(first, datamodule=Ramps(root=tmp_path))
    trainer.save_checkpoint(tmp_path / "last.ckpt")
    Trainer(max_epochs=3, **options).fit(
        second, datamodule=Ramps(root=tmp_path), ckpt_path=tmp_path / "last.ckpt", weights_only=False
    )
    assert whole.seen == first.seen + second.seen
    assert sorted(whole.seen[0]) == sorted(whole.seen[1]) != whole.seen[0] != whole.seen[1]


def test_benchmarks_only_describe_their_data() -> None:
    """No loader and no mask outside of what is shared."""
    folder = Path(datamodules.__file__).parent
    shared = {"base", "preparation", "datasets", "loading", "pipeline", "transforms"}
    for path in folder.glob("*.py"):
        names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
        if path.stem not in shared:
            assert not names & {"DataLoader", "mask"}, path
