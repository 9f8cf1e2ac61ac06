"""Tables and names of classes as data to train on."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from ckcnn.datamodules import Arrays, DataError
from ckcnn.datamodules.sequence_files import read
from tests.datamodules import official


def _ready(path: Path, **options: object) -> Arrays:
    module = Arrays(path, root=path.parent, **options)
    module.prepare_data()
    module.setup()
    return module


def _table(path: Path, step: float = 0.5, jitter: float = 0.0) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    signals = [random.normal(size=(2, 5 + number % 3)) for number in range(40)]
    lines = ["sequence,time,label,left,right"]
    for number, signal in enumerate(signals):
        label = ("walk", "run")[number % 2]
        for index, (left, right) in enumerate(signal.T.tolist()):
            lines.append(f"s{number},{index * step + jitter * (index % 2)},{label},{left},{right}")
    path.write_text("\n".join(lines) + "\n")
    return signals


def test_a_long_table(tmp_path: Path) -> None:
    signals = _table(tmp_path / "mine.csv")
    module = _ready(tmp_path / "mine.csv", standardise="none", pad="valid")
    assert (module.channels, module.length, module.out_channels, module.task) == (2, 7, 2, "classification")
    assert (module.classes, list(module.channel_names)) == (("run", "walk"), ["left", "right"])
    assert not module.stamped  # a regular grid needs no stamps
    batch = module.dataset("test").__getitems__(range(len(module.splits["test"])))
    for row, number in enumerate(module.splits["test"]):
        assert batch.y[row] == (number + 1) % 2
        assert np.allclose(batch.x[row, :, : batch.lengths[row]], signals[number])
    _table(tmp_path / "jitter.csv", jitter=0.1)
    assert _ready(tmp_path / "jitter.csv").stamped


def test_a_table_of_sktime(tmp_path: Path) -> None:
    official.write_trajectories(tmp_path, per_class=10)
    path = tmp_path / official.UEA / "CharacterTrajectories_TRAIN.ts"
    module = _ready(path)
    assert (module.channels, module.out_channels) == (3, 20)
    assert module.classes == tuple(map(str, range(1, 21)))  # 2 before 10
    from sktime.datasets import load_from_tsfile

    table, labels = load_from_tsfile(str(path), return_data_type="nested_univ")
    for recording, row, label in zip(read(path), table.to_numpy(), labels, strict=True):
        assert recording.label == label
        assert np.array_equal(recording.x, np.stack([np.asarray(series) for series in row]))


def test_names_as_labels(tmp_path: Path) -> None:
    arrays = official.user_arrays()
    names = np.array(["stop", "go", "wait"])
    np.savez(tmp_path / "mine.npz", **{**arrays, "y": names[arrays["y"]]})
    assert _ready(tmp_path / "mine.npz").classes == ("go", "stop", "wait")
    np.savez(tmp_path / "named.npz", **arrays, classes=names)
    assert _ready(tmp_path / "named.npz").classes == tuple(names)
    with h5py.File(tmp_path / "mine.h5", "w") as file:
        file["x"] = arrays["x"]
        file.create_dataset("y", data=names[arrays["y"]].astype(object), dtype=h5py.string_dtype())
    module = _ready(tmp_path / "mine.h5", classes=list(names))
    assert module.preprocessing.classes == tuple(names)
    assert np.array_equal(module.dataset("test").__getitems__(range(9)).y, arrays["y"][module.splits["test"]])
    with pytest.raises(DataError, match="y holds 'wait', which is none of the classes stop, go"):
        Arrays(tmp_path / "mine.h5", classes=["stop", "go"])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "sequence,value\n0,x\n0,y\n", "sequence 0 must have numbers in column value, got 'x'"),
        ("a.csv", "sequence,label,value\n0,a,1\n0,b,2\n", "has the labels a and b"),
        ("a.csv", "sequence,time,value\n0,2,1\n0,1,2\n", "times of sequence 0 go backwards"),
        ("a.csv", "", "must be a table with commas, got an empty file"),
        ("a.ts", "@data\n1,2:1\n", "the channels differ in length"),
        ("a.ts", "1,2\n", "values before @data"),
        ("a.ts", "@data\n", "holds no sequence"),
        ("a.wav", "noise", "not a WAV file"),
    ],
)
def test_bad_tables(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        list(read(tmp_path / name))
