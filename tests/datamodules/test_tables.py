"""Tables and names of classes as data to train on."""

from __future__ import annotations

import wave
from pathlib import Path

import h5py
import numpy as np
import pytest
import soundfile

from ckcnn.datamodules import Arrays, DataError, tables
from ckcnn.datamodules.readers import read_wav
from ckcnn.datamodules.sequence_files import Columns, read
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
        list(read(tmp_path / name, sounds=True))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "sequence,v\na,1,2\n", "as many values in every row as names in the first line, got 3 values for 2"),
        ("a.csv", f"sequence,v\na,{'9' * 400}\n", r"must hold numbers up to 3.4e38, got a larger one"),
        ("a.csv", "sequence,time,v\na,0,1\na,inf,2\n", "times must be finite numbers, got inf in sequence a, step 1"),
        ("a.csv", "sequence,time,v\na,2,1\na,1,2\n", "times of sequence a go backwards; sort its rows by time"),
        ("a.csv", "v\n1\n\n3\n", "line 3 is empty; write nan for a value that is missing"),
        ("a.csv", "sequence,v\na,1\n,2\n", "name the sequence of every row, got nothing in column sequence of row 2"),
        ("a.csv", ",v\n0,1\n1,2\n", "must name every column, got none for column 1; .* write .* with index=False"),
        ("a.csv", "u;v\n1;2\n", "must be a table with commas, got semicolons; write it with commas"),
        ("a.ts", "@timeStamps true\n@data\n(0,1),(1)\n", r"expected pairs such as \(0,1.5\),\(1,2.5\)"),
        ("a.ts", "@timeStamps true\n@data\n(1,1),(0,1)\n", "times of sequence 0 go backwards"),
        ("a.ts", "@timeStamps true\n@data\n(nan,1),(0,1)\n", "times must be finite numbers, got nan in sequence 0"),
    ],
)
def test_what_is_no_table_of_sequences(name: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        list(read(tmp_path / name))


def test_names_of_sequences_and_classes_are_texts(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("\n\nsequence,label,v\n007,01,1\n007,,2\n8,02,nan\n8,02,4\n\n")  # one label may be enough
    first, second = read(path)
    assert (first.name, first.label, second.name, second.label) == ("007", "01", "8", "02")
    assert tables.read_arrays(path)["y"].tolist() == ["01", "02"]
    path.write_text("sequence,label,v\na,walk,1\nb,,2\n")
    with pytest.raises(DataError, match="a label for every sequence or for none, got none for sequence b"):
        tables.read_arrays(path)


def test_channels_are_found_by_name(tmp_path: Path) -> None:
    path, columns = tmp_path / "a.csv", Columns(channels=("left", "right"))
    for names, expected in {
        "right,other,left": [[3], [1]],
        "Right,other,LEFT": [[3], [1]],
        "u,v,w": [[1], [2], [3]],  # nothing is known of these
    }.items():
        path.write_text(f"{names}\n1,2,3\n")
        (recording,) = read(path, columns)
        assert recording.x.tolist() == expected
    path.write_text("left,other\n1,2\n")
    with pytest.raises(DataError, match=r"a.csv must have a column for each channel of training, got none for right"):
        list(read(path, columns))


def test_hidden_files_of_a_folder_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("v\n1\n2\n")
    (tmp_path / "._a.csv").write_bytes(b"\x00\x05")
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache/b.csv").write_text("v\n1\n")
    assert [recording.name for recording in read(tmp_path)] == ["a.csv"]


def test_a_column_that_was_named_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("sequence,v\na,1\n")
    with pytest.raises(DataError, match="must have a column person, got only 'sequence, v'"):
        list(read(tmp_path / "a.csv", Columns(sequence="person", required=("person",))))


def test_a_sound_that_is_cut_short_is_no_shorter_sound(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(bytes(2000))
    assert [recording.x.shape for recording in read(path, rate=16_000, sounds=True)] == [(1, 1000)]
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(DataError, match=r"a.wav is cut short: it has 500 bytes, expected 2044"):
        list(read(path, rate=16_000, sounds=True))
    with pytest.raises(DataError, match="is cut short"):
        read_wav(path, 16_000)


def test_training_reads_sound_with_16_bits(tmp_path: Path) -> None:
    """As whole numbers, floating-point samples would all be 0."""
    soundfile.write(tmp_path / "a.wav", np.full(9, 0.5), 16_000, subtype="FLOAT")
    with pytest.raises(DataError, match=r"must have samples with 16 bits \(PCM_16\), got FLOAT; convert it"):
        read_wav(tmp_path / "a.wav", 16_000)


@pytest.mark.parametrize("times", [np.full((2, 3), np.nan), [[0, 1, 1e300]] * 2, [[2, 1, 0]] * 2])
def test_stamps_of_new_arrays_are_checked(times: object, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((2, 1, 3)), times=np.array(times))
    with pytest.raises(DataError, match=r"times must be finite numbers|times of sequence 0 go backwards"):
        list(read(tmp_path / "a.npz"))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"classes": np.array(["a"])}, r"classes must name all classes 0 ... 1 of y, got 1 names"),
        ({"classes": np.array(["a", "a"])}, "classes must be different names, got 'a' twice"),
        ({"channel_names": np.array(["u", "v"])}, "channel_names must name the 1 channels of x, got 2 names"),
        ({"y": np.arange(8) % 2 * 10**9}, "y must number its classes 0, 1, 2 and so on, got class 1000000000 among 8"),
    ],
)
def test_names_and_numbers_that_do_not_fit(arrays: dict[str, np.ndarray], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **{"x": np.zeros((8, 1, 5)), "y": np.arange(8) % 2, **arrays})
    with pytest.raises(DataError, match=message):
        _ = Arrays(tmp_path / "a.npz", root=tmp_path).out_channels
