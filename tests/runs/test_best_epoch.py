"""The best epoch of a run is known, also after it was resumed."""

from __future__ import annotations

from pathlib import Path

from ckcnn.runs.best_epoch import BestEpoch
from ckcnn.runs.folder import RunFolder
from tests.runs.scripted import trainer


def test_of_equally_good_epochs_the_smaller_loss_is_kept(tmp_path: Path) -> None:
    best = BestEpoch(RunFolder(tmp_path), "val/accuracy", "max")
    script = [(0.5, 2.0), (0.7, 1.0), (0.7, 1.5), (0.7, 0.8), (0.6, 0.1), (0.9, 3.0)]
    kept = []
    for epoch, (accuracy, loss) in enumerate(script):
        best.on_train_epoch_end(trainer(epoch, val_accuracy=accuracy, val_loss=loss), None)  # type: ignore[arg-type]
        kept.append(best.is_new)
    assert kept == [True, True, False, True, False, True]
    assert best.epoch == 5
    assert best.best_model_path == str(tmp_path / "checkpoints/best-005.ckpt")


def test_a_resumed_run_compares_with_the_epochs_before(tmp_path: Path) -> None:
    before, after = (BestEpoch(RunFolder(tmp_path), "val/mse", "min") for _ in range(2))
    before.on_train_epoch_end(trainer(3, val_mse=0.5, val_loss=0.5), None)  # type: ignore[arg-type]
    after.load_state_dict(before.state_dict())
    after.on_train_epoch_end(trainer(4, val_mse=0.6, val_loss=0.1), None)  # type: ignore[arg-type]
    assert not after.is_new
    assert after.epoch == 3


def test_a_first_epoch_without_a_number_is_beaten_by_any(tmp_path: Path) -> None:
    best = BestEpoch(RunFolder(tmp_path), "val/accuracy", "max")
    for epoch, accuracy in enumerate((float("nan"), 0.1)):
        best.on_train_epoch_end(trainer(epoch, val_accuracy=accuracy, val_loss=1.0), None)  # type: ignore[arg-type]
        assert best.is_new
    assert best.epoch == 1


def test_without_validation_no_epoch_is_the_best(tmp_path: Path) -> None:
    best = BestEpoch(RunFolder(tmp_path), "val/accuracy", "max")
    best.on_train_epoch_end(trainer(0, train_loss=1.0), None)  # type: ignore[arg-type]
    assert not best.is_new
    assert best.best_model_path == ""
