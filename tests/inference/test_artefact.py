"""A trained network is used without its data: in a fresh process, from any place, on files of any kind."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path

import h5py
import numpy as np
import pytest
import soundfile
import torch
from numpy.typing import NDArray
from pytorch_lightning import Trainer
from sklearn.datasets import load_digits

import ckcnn
from ckcnn import CKCNN
from ckcnn.__main__ import main
from ckcnn.datamodules import Arrays, Digits, sequence_files
from ckcnn.datamodules.preprocessing import Preprocessing
from ckcnn.inference import TrainedModel
from ckcnn.inference.answers import write_answers
from ckcnn.runs import checkpoints
from ckcnn.runs.folder import RunFolder
from tests.datamodules import cases, official
from tests.inference.test_model import artefact

FIT = [
    *("fit", "--config", "digits.yaml", "--trainer.accelerator=cpu", "--trainer.enable_progress_bar=false"),
    *("--model.hidden_channels=6", "--trainer.max_epochs=1"),
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run on digits, its answers to the test split, the raw test split, and no data any more."""
    here = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        patch.delenv("CKCNN_DATA", raising=False)
        torch.set_num_threads(1)
        assert main(FIT) == 0
        assert main(["predict", "--config", "digits.yaml", "--trainer.accelerator=cpu", "--output=split.csv"]) == 0
        data = Digits()
        data.prepare_data()
        data.setup()
        np.savez("new.npz", x=load_digits().images.reshape(-1, 1, 64)[data.splits["test"]])
        assert main(["export", "runs/digits/version_0", "--output", "exported"]) == 0
        assert main(["export", "exported", "--output", "model.onnx"]) == 0
        shutil.rmtree("data")
    return here


@pytest.fixture
def here(trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(trained)
    return trained


def answers(path: str) -> list[str]:
    with Path(path).open() as file:
        return [row["prediction"] for row in csv.DictReader(file)]


def test_the_same_answers_without_the_data_in_a_fresh_process(here: Path) -> None:
    code = """
import sys
sys.modules["sklearn.datasets"] = None  # where the digits come from
import json, numpy, onnxruntime, ckcnn
x = numpy.load("new.npz")["x"]
run, file, folder = (ckcnn.load(path) for path in ("runs/digits/version_0", ckpt, "exported"))
chances = [model.predict_proba(x) for model in (run, file, folder)]
assert all((chance == chances[0]).all() for chance in chances)
graph = onnxruntime.InferenceSession("model.onnx")
_, same = graph.run(None, {"signal": x.astype("float32")})
assert abs(same - chances[0]).max() < 1e-4
assert (same.argmax(1) == folder.predict(x)).all()
assert json.loads(graph.get_modelmeta().custom_metadata_map["classes"]) == list(run.classes)
print(*[run.classes[number] for number in folder.predict(x)])
"""
    best = RunFolder(Path("runs/digits/version_0")).best()
    done = subprocess.run([sys.executable, "-c", f"ckpt = {str(best)!r}\n{code}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == answers("split.csv")
    for source in ("runs/digits/version_0", str(best), "exported"):
        assert main(["predict", "--ckpt_path", source, "--input", "new.npz", "--output", "answers.csv"]) == 0
        assert answers("answers.csv") == answers("split.csv")
    assert main(["predict", "--config", "digits.yaml", "--input=new.npz", "--output=again.csv", "--quiet"]) == 0
    assert Path("again.csv").read_text() == Path("answers.csv").read_text()
    assert not Path("data").exists()
    with Path("answers.csv").open() as file:
        rows = list(csv.DictReader(file))
    chances = np.array([[row[f"p({name})"] for name in "0123456789"] for row in rows], dtype=np.float32)
    assert np.array_equal(chances, ckcnn.load("exported").predict_proba(np.load("new.npz")["x"]))


def test_the_checkpoint_is_plain_data_and_says_what_it_is(here: Path) -> None:
    content = checkpoints.load(RunFolder(Path("runs/digits/version_0")).checkpoint("best"))
    assert content["preprocessing"]["classes"] == list("0123456789")
    assert content["made_by"] == {"ckcnn": ckcnn.__version__, "preset": "digits"}
    text = ckcnn.load("exported").describe()
    assert "1 channel (pixel, 0 ... 16)" in text
    assert "preset   digits" in text
    config = json.loads(Path("exported/config.json").read_text())
    assert config["preprocessing"]["length"] == 64
    model = CKCNN.from_pretrained("exported")
    assert model.preprocessing is not None
    model.save_pretrained("second")
    x = np.load("new.npz")["x"]
    assert np.array_equal(ckcnn.load("second").predict_proba(x), ckcnn.load("exported").predict_proba(x))
    with pytest.raises(ValueError, match="holds a CKCNN, not a GRU"):
        ckcnn.GRU.from_pretrained("exported")


def test_load_from_checkpoint_brings_everything_and_begins_anew(here: Path, tmp_path: Path) -> None:
    """Digits have a one-cycle schedule, which a resumed run could not make longer."""
    path = here / "runs/digits/version_0/checkpoints/last.ckpt"
    model = CKCNN.load_from_checkpoint(path)
    assert model.preprocessing is not None
    assert model.preprocessing.classes == tuple("0123456789")
    with pytest.raises(ValueError, match=r"the checkpoint holds a CKCNN, not a GRU; load it with ckcnn\.CKCNN"):
        ckcnn.GRU.load_from_checkpoint(path)
    trainer = Trainer(
        max_epochs=2, limit_train_batches=2, limit_val_batches=1, accelerator="cpu", logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(model, Digits(root=tmp_path))
    assert trainer.global_step == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--output=runs/digits/version_0"], "--output runs/digits/version_0 is a run folder; choose another folder"),
        (["--output=model.txt"], "--output must end in .onnx or .pt2, or be a folder without a dot, got model.txt"),
        (["--output=folder", "--dt=2"], "--length and --dt are for .onnx and .pt2; a folder takes signals of any"),
    ],
)
def test_mistakes_of_export(options: list[str], message: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "runs/digits/version_0", *options]) == 2
    assert message in capsys.readouterr().err
    assert not Path("folder").exists()
    assert not Path("runs/digits/version_0/config.json").exists()


def test_a_renamed_run_is_a_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree("runs/digits/version_0", "elsewhere/good one")
    assert main(["test", "--ckpt_path", "elsewhere/good one", "--trainer.accelerator=cpu"]) == 0
    assert Path("elsewhere/good one/results.json").is_file()
    assert sorted(path.name for path in Path("runs/digits").iterdir()) == ["version_0"]
    assert ckcnn.load("elsewhere/good one").classes == tuple("0123456789")
    for command in ("test", "validate", "predict"):
        assert main([command, "--ckpt_path", "nowhere"]) == 2
        assert "there is no run folder or checkpoint nowhere" in capsys.readouterr().err
    assert sorted(path.name for path in Path("runs").iterdir()) == ["digits"]
    (here / "mine").mkdir(exist_ok=True)
    shutil.copy("runs/digits/version_0/config.yaml", "mine/config.yaml")  # a configuration is no run yet
    assert RunFolder.of(Path("mine/config.yaml")) is None
    shutil.rmtree("data")  # the test has read the digits again


def test_a_preset_that_is_not_there_is_a_mistake(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--ckpt_path=runs/digits/version_0", "--config=nowhere.yaml", "--input=new.npz", "--output=none.csv"]
    assert main(["predict", *words]) == 2
    assert "there is no file nowhere.yaml" in capsys.readouterr().err
    assert not Path("none.csv").exists()


def test_a_checkpoint_of_an_earlier_version(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = checkpoints.load(RunFolder(Path("runs/digits/version_0")).checkpoint("best"))
    old = {name: value for name, value in content.items() if name not in ("preprocessing", "made_by")}
    x = np.load("new.npz")["x"]
    expected = ckcnn.load("exported").predict_proba(x)
    monkeypatch.chdir(tmp_path)
    checkpoints.save(old, Path("old.ckpt"))
    model = ckcnn.load("old.ckpt")
    with pytest.raises(ValueError, match=r"lacks what was done to raw values.*pass the data module of the training"):
        model.predict(x)
    assert np.array_equal(ckcnn.load("old.ckpt", data=Digits()).predict_proba(x), expected)
    Path("run/checkpoints").mkdir(parents=True)
    shutil.copy(here / "runs/digits/version_0/config.yaml", "run")
    checkpoints.save(old, Path("run/checkpoints/best-000.ckpt"))
    assert np.array_equal(ckcnn.load("run").predict_proba(x), expected)  # the data of the run is still there


def test_new_data_is_scaled_as_in_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Values in another unit are other values; with their own mean and deviation nobody would notice."""
    monkeypatch.chdir(tmp_path)
    arrays = official.user_arrays()
    np.savez("mine.npz", **arrays)
    np.savez("other.npz", **{**arrays, "x": arrays["x"] * 1000 - 7})
    Path("mine.yaml").write_text("data: {class_path: Arrays, init_args: {path: mine.npz, pad: valid}}\n")
    quick = ["--trainer.accelerator=cpu", "--model.hidden_channels=4"]
    fit = ["fit", "--config=mine.yaml", "--config=fast.yaml", "--name=first", "--trainer.max_epochs=1"]
    assert main([*fit, *quick]) == 0
    run = "runs/first/version_0"
    assert "preset   mine, fast," in ckcnn.load(run).describe()
    trained = ckcnn.load(run).preprocessing
    data = Arrays("other.npz", pad="valid")
    data.use_statistics(trained)
    data.prepare_data()
    data.setup()
    assert torch.equal(data.preprocessing.mean, trained.mean)
    assert data.dataset("test")[0].x.abs().max() > 100
    assert main(["predict", "--ckpt_path", run, "--data.path=other.npz", "--trainer.accelerator=cpu"]) == 0
    rows = ckcnn.load(run).predict(arrays["x"] * 1000 - 7, lengths=arrays["lengths"])
    assert answers("predictions.csv") == [str(rows[row]) for row in data.splits["test"]]

    np.savez("unlabelled.npz", x=arrays["x"] * 1000 - 7, lengths=arrays["lengths"])
    flags = ["--data.path=unlabelled.npz", "--trainer.accelerator=cpu"]
    assert main(["predict", "--ckpt_path", run, *flags]) == 0
    assert answers("predictions.csv") == [str(row) for row in rows]
    assert Path("predictions.csv").read_text().startswith("sequence,prediction\n")
    for command in (["fit", "--config=mine.yaml"], ["test", "--ckpt_path", run], ["validate", "--ckpt_path", run]):
        assert main([*command, *flags]) == 2
        assert "unlabelled.npz must hold labels (an array y)" in capsys.readouterr().err
    assert [path.name for path in Path("runs").glob("*/*")] == ["version_0"]


def test_files_of_every_kind_give_the_same_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    official.write_trajectories(tmp_path, per_class=4)
    module = cases.ready("trajectories", tmp_path)
    model = artefact(module, tmp_path)
    random = np.random.default_rng(0)
    recordings = [random.normal(size=(3, length)).round(6) for length in (70, 182, 100, 100, 64)]
    lengths = np.array([recording.shape[1] for recording in recordings])
    x = np.zeros((5, 3, 182))
    for row, recording in zip(x, recordings, strict=True):
        row[:, : recording.shape[1]] = recording
    np.savez("a.npz", x=x, lengths=lengths)
    np.savez_compressed("f.npz", x=np.asfortranarray(x), lengths=lengths)
    with h5py.File("B.H5", "w") as file:  # as other systems write names
        file["x"], file["lengths"] = x, lengths
    Path("c.ts").write_text(official.ts_text([(recording, 1) for recording in recordings]))
    names = model.preprocessing.channel_names
    Path("folder").mkdir()
    with Path("D.CSV").open("w") as table:
        table.write(f"sequence,time,label,{','.join(reversed(names))}\n")
        for number, recording in enumerate(recordings):
            rows = [",".join(map(str, step)) for step in recording.T]
            Path(f"folder/{number}.csv").write_text(f"{','.join(names)}\n" + "\n".join(rows) + "\n")
            lines = [",".join(map(str, [number, n / 10, "?", *step[::-1]])) for n, step in enumerate(recording.T)]
            table.write("\n".join(lines) + "\n")
    expected = [model.classes[number] for number in model.predict(x, lengths=lengths)]
    alone = [model.classes[model.predict(recording)] for recording in recordings]
    assert alone == expected
    tables = set()
    for source in ("a.npz", "f.npz", "B.H5", "c.ts", "D.CSV", "folder"):
        assert main(["predict", "--ckpt_path=model", "--input", source, "--output=out.csv"]) == 0
        assert answers("out.csv") == expected, source
        text = Path("out.csv").read_text()
        for number in range(5):
            text = text.replace(f"\n{number}.csv,", f"\n{number},")
        tables.add(text)
    assert len(tables) == 1  # to the last digit


def test_the_rate_of_a_table_is_compared_with_that_of_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).normal(size=(30, 8)).round(3)
    rows = [f"{n},{0.25 * step},{x[n, step]},{'ab'[n % 2]}" for n in range(30) for step in range(8)]
    Path("train.csv").write_text("sequence,time,value,label\n" + "\n".join(rows))
    Path("half.csv").write_text("time,value\n0,1\n0.5,2\n1.0,3\n")
    Path("same.csv").write_text("time,value\n7,1\n7.25,2\n7.5,3\n")
    data = Arrays("train.csv")
    data.prepare_data()
    data.setup()
    model = artefact(data, tmp_path)
    assert "8 steps in training, one every 0.25" in model.describe()
    assert np.allclose(model.predict_proba(x[:, None], times=np.tile(np.arange(8) / 4, (30, 1))),
                       model.predict_proba(x[:, None]), atol=1e-5)  # fmt: skip
    command = ["predict", "--ckpt_path=model", "--output=out.csv"]
    assert main([*command, "--input=half.csv"]) == 2
    expected = "sequence half has a sample every 0.5, the model was trained on one every 0.25; give --dt 2"
    assert expected in capsys.readouterr().err
    assert not Path("out.csv").exists()
    assert main([*command, "--input=half.csv", "--dt=2"]) == 0
    assert main([*command, "--input=same.csv"]) == 0


def test_sound_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    official.write_speech(tmp_path, ("yes", "no"), per_word=6)
    model = artefact(cases.ready("speech_mfcc", tmp_path, words=("yes", "no")), tmp_path)
    folder = tmp_path / official.SPEECH / "yes"
    assert main(["predict", "--ckpt_path=model", "--input", str(folder), "--output=out.csv"]) == 0
    clips = [soundfile.read(path, dtype="int16")[0] for path in sorted(folder.glob("*.wav"))]
    assert answers("out.csv") == [model.classes[int(model.predict(clip))] for clip in clips]
    tables = []
    for subtype in ("PCM_16", "FLOAT", "DOUBLE"):
        soundfile.write("same.wav", clips[0] / 2**15, 16_000, subtype=subtype)
        assert main(["predict", "--ckpt_path=model", "--input=same.wav", "--output=out.csv"]) == 0
        tables.append(Path("out.csv").read_text())
    assert len(set(tables)) == 1
    soundfile.write("short.wav", clips[0][:50], 16_000)
    assert main(["predict", "--ckpt_path=model", "--input=short.wav", "--output=out.csv"]) == 2
    assert "short: a recording must have at least 101 samples for its cepstra, got 50" in capsys.readouterr().err
    soundfile.write("slow.wav", clips[0], 8_000)
    assert main(["predict", "--ckpt_path=model", "--input=slow.wav", "--output=out.csv"]) == 2
    assert "slow.wav has 8000 samples per second, the model was trained on 16000" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--input=none.npz"], "--input none.npz does not exist"),
        (["--input=new.npz", "--output=answers.txt"], "--output must end in .csv"),
        (["--input=wide.npz"], "sequence 0 must have 1 channel \\(pixel, 0 ... 16\\), got 2"),
        (["--input=nan.npz"], "1: x must be finite, got NaN or infinity at \\[1, 0, 5\\].*without missing values"),
        (["--input=sound.wav"], "sound.wav is a recording, which only models of sound take"),
        (["--input=new.npz", "--ckpt_path=nothing"], "there is no checkpoint nothing"),
        (["--input=new.npz", "--batch=3"], "there is no option --batch; see ckcnn predict --help"),
        (["--input=mixed.csv"], "the rows of sequence 0 are not together"),
        (["--input=irregular.csv"], "sequence a was measured at irregular times"),
        (["--input=names.csv"], "names.csv must have a row for each step below the names of its columns, got no row"),
        (["--input=irregular.csv", "--output=irregular.csv"], "--output irregular.csv is the file with the sequences"),
        (["--input=new.npz", "--dt=0"], "error: dt must be a number from 1e-06"),
    ],
)
def test_mistakes(options: list[str], message: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nan = np.zeros((2, 1, 64))
    nan[1, 0, 5] = np.nan
    np.savez("nan.npz", x=nan)
    np.savez("wide.npz", x=np.zeros((2, 2, 64)))
    soundfile.write("sound.wav", np.zeros(64), 16_000)
    Path("mixed.csv").write_text("sequence,value\n0,1\n1,2\n0,3\n")
    Path("names.csv").write_text("sequence,time,value\n")
    Path("irregular.csv").write_text("sequence,time,value\na,0,1\na,1,2\na,3,3\n")
    assert main(["predict", "--ckpt_path=exported", *options]) == 2
    capture = capsys.readouterr().err
    assert re.search(message, capture), capture


@pytest.mark.parametrize("ending", [".npz", ".h5", ".csv", ".ts", ""], ids=lambda ending: ending or "folder")
def test_memory_does_not_grow_with_the_number_of_sequences(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequence_files, "_CHUNK_ROWS", 500)
    monkeypatch.setattr(sequence_files, "_CHUNK_BYTES", 1 << 14)
    monkeypatch.setattr("ckcnn.inference.answers._BATCHES", 1)
    net = CKCNN(2, 2, "classification", 1000, hidden_channels=4).net.eval()
    facts = {"channels": 2, "length": 1000, "out_channels": 2, "batch_size": 4}
    model = TrainedModel(net, "classification", Preprocessing("Arrays", "classification", **facts))
    sizes, peaks = (20, 100), []
    for count in (1, *sizes):  # what is imported and kept once is not counted
        x = np.random.default_rng(0).normal(size=(count, 2, 1000)).round(3)
        source = write_sequences(tmp_path / f"{count}{ending}", x)
        tracemalloc.start()
        assert write_answers(model, sequence_files.read(source), tmp_path / "out.csv") == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] - peaks[1] < x.nbytes / 2, peaks


def write_sequences(path: Path, x: NDArray[np.float64]) -> Path:
    """Sequences, and where the format has them lengths and time stamps, in a file or a folder of files."""
    lengths, times = np.full(len(x), 1000), np.tile(np.arange(1000.0), (len(x), 1))
    if path.suffix == ".npz":
        np.savez(path, x=x, lengths=lengths, times=times)
    elif path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            file["x"], file["lengths"], file["times"] = x, lengths, times
    elif path.suffix == ".csv":
        rows = (f"{number},{step},{a},{b}\n" for number, one in enumerate(x) for step, (a, b) in enumerate(one.T))
        path.write_text("sequence,time,a,b\n" + "".join(rows))
    elif path.suffix == ".ts":
        path.write_text(official.ts_text([(one, 1) for one in x]))
    else:
        path.mkdir()
        for number, one in enumerate(x):
            np.savez(path / f"{number}.npz", x=one[None])
    return path
