from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from ckcnn.datamodules import Arrays, DataError
from tests.datamodules.official import user_arrays


def _write(path: Path, **arrays: Any) -> Path:
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    else:
        with h5py.File(path, "w") as file:
            for name, array in arrays.items():
                kind = h5py.string_dtype() if np.asarray(array).dtype.kind == "U" else None
                file.create_dataset(name, data=np.asarray(array, dtype=object) if kind else array, dtype=kind)
    return path


def _ready(path: Path, **options: Any) -> Arrays:
    module = Arrays(path, root=path.parent, **options)
    module.prepare_data()
    module.setup()
    return module


@pytest.mark.parametrize("name", ["mine.npz", "mine.h5"])
def test_everything_a_file_can_hold(name: str, tmp_path: Path) -> None:
    arrays = user_arrays()
    arrays["times"] = np.cumsum(np.random.default_rng(0).random((60, 32)), axis=1)
    arrays["split"] = np.array(["train", "val", "test"] * 20)
    module = _ready(_write(tmp_path / name, **arrays), standardise="none", pad="valid", test_dt=1)
    assert Arrays(tmp_path / name, test_dt=2).dt["test"] == 1.0  # the stamps hold the step already
    assert (module.in_channels, module.out_channels, module.horizon, module.task) == (2, 3, 32, "classification")
    batch = module.dataset("test").__getitems__(range(20))
    assert module.splits["test"].tolist() == list(range(2, 60, 3))
    rows = module.splits["test"]
    assert np.array_equal(batch.lengths, arrays["lengths"][rows])
    for row, source in enumerate(rows):
        length = int(arrays["lengths"][source])
        assert np.allclose(batch.x[row, :, :length], arrays["x"][source, :, :length])
        stamps = arrays["times"][source, :length]
        assert np.allclose(batch.times[row, :length], stamps - stamps[0], rtol=0, atol=1e-12)
        assert (batch.times[row, length:] == batch.times[row, length - 1]).all()
    assert np.array_equal(batch.y, arrays["y"][rows])


@pytest.mark.parametrize(
    ("y", "options", "task", "outputs"),
    [
        (np.arange(60) % 4, {}, "classification", 4),
        (np.arange(60) % 2, {"task": "binary"}, "binary", 1),
        (np.arange(60) % 2 == 0, {}, "classification", 2),
        (np.linspace(0, 1, 60), {}, "regression", 1),
        (np.ones((60, 5)), {}, "regression", 5),
        (np.arange(60 * 32).reshape(60, 32) % 7, {}, "every_step", 7),
        (np.arange(60 * 5).reshape(60, 5) % 2, {"task": "multi_label"}, "multi_label", 5),
        (np.ones((60, 3, 32)), {}, "step_regression", 3),
        (np.ones((60, 32)), {"task": "step_regression"}, "step_regression", 1),
        (np.ones((60, 32)), {"task": "regression"}, "regression", 32),
        (np.arange(60), {"task": "regression"}, "regression", 1),
    ],
)
def test_the_task_follows_from_y(
    y: np.ndarray, options: dict[str, Any], task: str, outputs: int, tmp_path: Path
) -> None:
    module = _ready(_write(tmp_path / "mine.npz", x=user_arrays()["x"], y=y), **options)
    assert (module.task, module.out_channels) == (task, outputs)
    assert len(module.dataset("train")) == 42


def test_a_split_without_validation_holds_out_training_sequences(tmp_path: Path) -> None:
    x, y = user_arrays()["x"], user_arrays()["y"]
    module = _ready(_write(tmp_path / "mine.npz", x=x, y=y, split=np.array([0] * 40 + [2] * 20)))
    assert module.splits["test"].tolist() == list(range(40, 60))
    assert (len(module.splits["train"]), len(module.splits["val"])) == (36, 4)


def test_the_file_may_change(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    arrays = user_arrays()
    path = _write(tmp_path / "mine.npz", **arrays)
    before = _ready(path, standardise="none").dataset("test")[0].x
    _write(path, **{**arrays, "x": arrays["x"] + 1})
    assert torch.allclose(_ready(path, standardise="none").dataset("test")[0].x, before + 1)
    assert "the source files have changed" in caplog.text


def _changed(**changes: Any) -> dict[str, Any]:
    arrays = {**user_arrays(), **changes}
    return {name: array for name, array in arrays.items() if array is not None}


def _with_nan() -> np.ndarray:
    x = user_arrays()["x"].copy()
    x[7, 1, 3] = np.nan
    return x


BAD = {
    "NaN": (
        _changed(x=_with_nan()),
        "x must be finite numbers up to 3.4e.38, got nan at sequence 7, channel 1, step 3",
    ),
    "no y": (_changed(y=None), "has no array y, so only a trained model can use it"),
    "no x": (_changed(x=None), "must hold an array x"),
    "flat x": (_changed(x=np.zeros((60, 32))), r"\(sequences, channels, time\).*got \(60, 32\)"),
    "text x": (_changed(x=np.full((60, 2, 32), "a")), "x must be real numbers"),
    "labels": (_changed(y=np.arange(59)), "59 entries in y do not match 60 sequences"),
    "negative": (_changed(y=np.arange(60) - 1), r"labels must lie in 0 \.\.\. 58, got -1"),
    "NaN in y": (_changed(y=np.full(60, np.nan)), "y must be finite"),
    "one name": (_changed(y=np.array(["a"] * 60)), "y must name at least two classes, got only 'a'"),
    "pickle": (_changed(y=np.array([{}] * 60, dtype=object)), "plain array"),
    "lengths": (_changed(lengths=np.full(60, 33)), r"lengths must lie in 1 \.\.\. 32, got 33"),
    "float lengths": (_changed(lengths=np.full(60, 3.5)), "lengths must be a whole number"),
    "split": (_changed(split=np.array(["train", "dev"] * 30)), "split must hold train, val and test.*'dev'"),
    "no test": (_changed(split=np.array(["train", "val"] * 30)), "no sequence to test"),
    "times": (_changed(times=np.zeros((60, 31))), r"times must be numbers of shape \(60, 32\)"),
    "a value for each step": (_changed(y=np.ones((60, 32))), "--data.task step_regression for one value at every step"),
    "labels without a task": (_changed(y=np.ones((60, 5), int)), "--data.task multi_label for labels that are there"),
    "steps": (
        _changed(y=np.ones((60, 2, 31))),
        r"y must be finite numbers of shape \(sequences, 2, 32\), got \(60, 2, 31",
    ),
    "backwards": (_changed(times=-np.ones((60, 1)) * np.arange(32)), "times of sequence 0 go backwards"),
}


@pytest.mark.parametrize("fault", BAD)
def test_bad_arrays(fault: str, tmp_path: Path) -> None:
    arrays, message = BAD[fault]
    path = _write(tmp_path / "mine.npz", **arrays)
    with pytest.raises(DataError, match=message) as caught:
        _ready(path)
    assert str(path) in str(caught.value)
    assert not list((tmp_path / "cache").glob("*.h5*"))


@pytest.mark.parametrize(
    ("y", "task", "message"),
    [
        (np.full((60, 5), 2), "multi_label", r"labels must lie in 0 \.\.\. 1, got 2"),
        (np.arange(60) % 2, "multi_label", r"task multi_label must have shape \(sequences, labels\), 0 or 1 each"),
        (np.ones((60, 31)), "step_regression", r"must have shape \(sequences, 32\) or \(sequences, outputs, 32\)"),
        (np.ones((60, 5), int), "classification", r"must have shape \(sequences,\), got \(60, 5\)"),
    ],
)
def test_y_must_fit_the_task(y: np.ndarray, task: str, message: str, tmp_path: Path) -> None:
    path = _write(tmp_path / "mine.npz", **_changed(y=y))
    with pytest.raises(DataError, match=message):
        _ready(path, task=task)


def test_values_at_every_step_have_the_time_of_the_sequence(tmp_path: Path) -> None:
    arrays = user_arrays()
    y = np.arange(60 * 2 * 32, dtype=float).reshape(60, 2, 32)
    y[3, :, 5] = np.nan
    split = np.array([0] * 40 + [1] * 10 + [2] * 10)
    path = _write(tmp_path / "mine.npz", x=arrays["x"], y=y, lengths=arrays["lengths"], split=split)
    batch = _ready(path, pad="valid", standardise_targets=True).dataset("train").__getitems__([3, 0])
    ends = arrays["lengths"][[3, 0]]
    wanted = np.where(np.arange(32) < ends[:, None, None], y[[3, 0]], np.nan)
    assert np.array_equal(batch.y, wanted.astype(np.float32), equal_nan=True), "in their own units; padding has none"
    dropped = _ready(path, pad="valid", drop_rate=0.5, missing="times").dataset("train").__getitems__([0])
    assert dropped.times is not None
    assert dropped.lengths is not None
    kept = dropped.times[0, : int(dropped.lengths[0])].long()
    assert np.array_equal(dropped.y[0, :, : len(kept)], y[0][:, kept].astype(np.float32))
    half = _ready(path, train_dt=2).dataset("train").__getitems__([1])
    assert np.array_equal(half.y[0], y[1][:, ::2].astype(np.float32))


def test_statistics_of_targets_are_those_of_training(tmp_path: Path) -> None:
    y = np.random.default_rng(0).normal(50, 9, (60, 2))
    path = _write(tmp_path / "mine.npz", x=user_arrays()["x"], y=y, split=np.array([0] * 40 + [1] * 10 + [2] * 10))
    assert _ready(path).target_statistics is None
    found = _ready(path, standardise_targets=True).target_statistics
    assert found is not None
    assert np.allclose(found.mean, y[:40].mean(0))
    assert np.allclose(found.std, y[:40].std(0))
    values = torch.from_numpy(y).float()
    assert torch.allclose(found.undo(found.apply(values)), values)


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no file .*absent\.npz"):
        Arrays(tmp_path / "absent.npz")
    with pytest.raises(DataError, match=r"mine\.txt must be an \.npz, \.h5, \.csv or \.ts file"):
        Arrays(tmp_path / "mine.txt")
    for name in ("broken.npz", "broken.h5"):
        (tmp_path / name).write_bytes(b"PK\x03\x04 nothing")
        with pytest.raises(DataError, match=f"{name} is damaged, or not a whole"):
            Arrays(tmp_path / name)
    with pytest.raises(ValueError, match="task must be one of classification"):
        Arrays(tmp_path / "mine.npz", task="clasification")


class TestTimeUnit:
    def write(self, path: Path, start: float, step: float) -> Path:
        arrays = user_arrays()
        arrays["times"] = start + step * np.arange(32) + np.zeros((60, 1))
        return _write(path / "mine.npz", **arrays)

    def test_unix_times_keep_their_differences(self, tmp_path: Path) -> None:
        module = _ready(self.write(tmp_path, 1.7e9, 1.5))
        times = module.dataset("train").__getitems__([0]).times
        assert times is not None
        assert times[0, :5].tolist() == [0.0, 1.5, 3.0, 4.5, 6.0]

    @pytest.mark.parametrize("unit", [0.01, "auto"])
    def test_stamps_in_seconds(self, unit: Any, tmp_path: Path) -> None:
        module = _ready(self.write(tmp_path, 0.0, 0.01), time_unit=unit)
        times = module.dataset("train").__getitems__([0]).times
        assert np.allclose(times[0, :5], np.arange(5))
        assert module.time_unit == pytest.approx(0.01)
        assert module.recipe()["time_unit"] == module.time_unit

    def test_an_unlikely_unit_gets_a_warning(self, tmp_path: Path) -> None:
        with pytest.warns(UserWarning, match=r"median gap of times is 0\.01 samples, .* set time_unit to \"auto\""):
            _ready(self.write(tmp_path, 0.0, 0.01))

    @pytest.mark.parametrize("unit", [0.0, -1.0, "second"])
    def test_other_units_are_refused(self, unit: Any, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match='time_unit must be a positive number or "auto"'):
            Arrays(self.write(tmp_path, 0.0, 1.0), time_unit=unit)


def test_sequences_without_labels_are_for_a_trained_model(tmp_path: Path) -> None:
    arrays = user_arrays()
    trained = _ready(_write(tmp_path / "mine.npz", **arrays), pad="valid", classes=["a", "b", "c"]).preprocessing
    del arrays["y"]
    module = Arrays(_write(tmp_path / "new.npz", **arrays), root=tmp_path, pad="valid")
    assert not module.labelled
    module.use_statistics(trained)
    module.prepare_data()
    for stage in ("fit", "validate", "test"):
        with pytest.raises(
            DataError, match=r"new\.npz must hold labels \(an array y\) to train or score with; ckcnn pred"
        ):
            module.setup(stage)
    module.setup("predict")
    assert module.splits["test"].tolist() == list(range(60))
    assert (module.out_channels, module.classes) == (3, ("a", "b", "c"))
    batch = next(iter(module.predict_dataloader()))
    mean, std = arrays["x"][0, :, 0], trained.std.numpy()[0, :, 0] + 1e-5
    assert np.allclose(batch.x[0, :, 0], (mean - trained.mean.numpy()[0, :, 0]) / std, atol=1e-6)
