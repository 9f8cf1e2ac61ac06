"""The sentences of docs/reference/security.md, one test for each number."""

from __future__ import annotations

import os
import re
import shutil
import sys
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import ckcnn
from ckcnn import datamodules
from ckcnn.__main__ import main
from ckcnn.cli import stored_settings
from ckcnn.cli.stored_settings import names_own_class
from ckcnn.models import pretrained
from ckcnn.presets import Layers
from ckcnn.reference.weights_file import read_tensors
from ckcnn.runs import checkpoints

PAGE = Path(__file__).parents[1] / "docs/reference/security.md"
SMALL = [
    "--config=digits.yaml",
    "--model.hidden_channels=2",
    "--model.kernel_hidden=4",
    "--trainer.accelerator=cpu",
    "--trainer.enable_progress_bar=false",
    "--trainer.limit_train_batches=2",
    "--trainer.max_epochs=1",
]
RUN = Path("runs/digits/version_0")
STRANGER = """
from pathlib import Path
from pytorch_lightning import Callback
from ckcnn import CKCNN
from ckcnn.datamodules import Digits

Path("imported").touch()

class Data(Digits): ...
class Model(CKCNN): ...
class Spy(Callback): ...
"""
COMMANDS = [["test"], ["validate"], ["predict", "--output=p.csv"]]


def test_every_sentence_has_a_test() -> None:
    numbers = re.findall(r"^(\d+)\. ", PAGE.read_text(), re.MULTILINE)
    assert [int(number) for number in numbers] == list(range(1, len(numbers) + 1))
    tested = re.findall(r"^def test_(\d+)_", Path(__file__).read_text(), re.MULTILINE)
    assert sorted(set(tested), key=int) == numbers


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["fit", *SMALL]) == 0
    return folder


@pytest.fixture
def here(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a run, and beside it a module that a stranger would like to have imported."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    (tmp_path / "stranger.py").write_text(STRANGER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("stranger", None)


def change(**parts: Any) -> None:
    """Change the settings that are stored with the run; names with two underscores reach into a part."""
    content = yaml.safe_load((RUN / "config.yaml").read_text())
    for name, value in parts.items():
        *path, last = name.split("__")
        inner = content
        for key in path:
            inner = inner[key]
        inner[last] = value
    (RUN / "config.yaml").write_text(yaml.safe_dump(content))


def files() -> set[str]:
    return {str(path) for path in Path().rglob("*") if "__pycache__" not in path.parts}


class Trap:
    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("sprung"),)


def test_1_checkpoints_run_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": {}, "model_class": "CKCNN", "extra": Trap()}, "bad.ckpt")
    with pytest.raises(ValueError, match="is not a whole checkpoint"):
        checkpoints.load(Path("bad.ckpt"))
    assert not Path("sprung").exists()


def test_2_weights_run_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"weight": Trap()}, "bad.pt")
    with pytest.raises(ValueError, match="not executed"):
        read_tensors("bad.pt")
    assert not Path("sprung").exists()


def test_3_an_exported_folder_holds_no_code(here: Path) -> None:
    assert main(["export", str(RUN), "--output", "model"]) == 0
    assert {path.name for path in Path("model").iterdir()} == {"config.json", "model.safetensors"}
    torch.save({"weight": Trap()}, Path("model/model.safetensors"))
    with pytest.raises(ValueError, match="holds no whole exported model"):
        pretrained.read_folder(Path("model"))
    assert not Path("sprung").exists()


def test_4_a_changed_bit_is_noticed(here: Path) -> None:
    """`tests/test_archives.py` tries many."""
    last = RUN / "checkpoints/last.ckpt"
    content = bytearray(last.read_bytes())
    content[len(content) // 2] ^= 1
    last.unlink()
    last.write_bytes(content)
    with pytest.raises(ValueError, match="is not a whole checkpoint"):
        ckcnn.load(last)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize(("part", "name"), [("data", "stranger.Data"), ("model", "stranger.Model")])
@pytest.mark.parametrize("way", ["--ckpt_path", "--config"])
def test_5_classes_of_others_are_refused(
    here: Path, command: list[str], part: str, name: str, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    change(**{f"{part}__class_path": name})
    before = files()
    place = RUN if way == "--ckpt_path" else RUN / "config.yaml"
    assert main([*command, f"{way}={place}"]) == 2
    message = capsys.readouterr().err
    assert f"names the {part} {name}, which is not part of ckcnn, so it is not imported" in message
    assert files() == before


def test_5_a_class_among_the_values_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(data__init_args__pad={"class_path": "stranger.Spy"})
    assert main(["test", f"--ckpt_path={RUN}"]) == 2
    assert "names the class stranger.Spy among its values; it is not imported" in capsys.readouterr().err
    assert not Path("imported").exists()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("loss", "stranger.Loss"),
        ("loss", {"class_path": "stranger.Loss"}),
        ("loss", "MSELoss"),
        ("net", "stranger.Net"),
        ("net", {"class_path": "stranger.Net"}),
        ("metrics", "stranger.Metric"),
        ("metrics", ["stranger.Metric"]),
        ("metrics", {"mine": "stranger.Metric"}),
    ],
)
def test_5_a_text_that_names_a_class_is_refused(
    here: Path, option: str, value: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The parser takes the path of a class as well as a mapping with its class_path."""
    change(**{f"model__init_args__{option}": value})
    assert main(["test", f"--ckpt_path={RUN}"]) == 2
    assert "among its values; it is not imported" in capsys.readouterr().err
    assert not Path("imported").exists()


def test_5_all_options_that_take_classes_are_known() -> None:
    kinds = [getattr(ckcnn, name) for name in ckcnn.MODELS]
    public = [getattr(datamodules, name) for name in datamodules.__all__]
    kinds += [one for one in public if isinstance(one, type) and issubclass(one, datamodules.SequenceDataModule)]
    found = set()
    for kind in kinds:
        for name, hint in typing.get_type_hints(kind.__init__).items():
            found |= {name} if _takes_classes(hint) else set()
    assert found == set(stored_settings._OF_CLASSES)


def _takes_classes(hint: Any) -> bool:
    plain = (int, float, str, bool, type(None), list, dict, tuple, Sequence, Mapping, os.PathLike)
    if typing.get_origin(hint) is typing.Literal or hint is Any:
        return False
    if inner := typing.get_args(hint):
        return any(map(_takes_classes, inner))
    return hint not in plain


def test_6_a_loss_that_you_name_is_built(here: Path) -> None:
    loss = {"class_path": "torch.nn.CrossEntropyLoss", "init_args": {"label_smoothing": 0.1}}
    for stored in (loss, "torch.nn.CrossEntropyLoss"):
        change(model__init_args__loss=stored)
        assert main(["test", f"--ckpt_path={RUN}", "--model.loss=torch.nn.CrossEntropyLoss"]) == 0


def test_6_a_class_that_you_name_is_built(here: Path) -> None:
    change(data__class_path="stranger.Data")
    assert main(["test", f"--ckpt_path={RUN}", "--data=stranger.Data"]) == 0
    assert Path("imported").exists()


def test_6_the_working_folder_is_searched_for_nothing_else(here: Path) -> None:
    change(data__class_path="stranger.Data", model__init_args__loss="stranger.Loss")
    stored = f"--config={RUN}/config.yaml"
    assert not names_own_class(Layers.of_arguments([stored, "--data=Digits", "--data.root=some.folder"]))
    assert names_own_class(Layers.of_arguments([stored, "--data=stranger.Data"]))
    assert names_own_class(Layers.of_arguments([stored, "--model.net=stranger.Net"]))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_7_callbacks_and_the_like_are_ignored(here: Path, command: list[str]) -> None:
    spy = {"class_path": "stranger.Spy"}
    profiler = {"class_path": "pytorch_lightning.profilers.SimpleProfiler", "init_args": {"filename": "written"}}
    logger = {"class_path": "pytorch_lightning.loggers.CSVLogger", "init_args": {"save_dir": "logged"}}
    change(trainer__callbacks=[spy], trainer__profiler=profiler, trainer__logger=logger, trainer__plugins=[spy])
    change(trainer__strategy=spy, trainer__accelerator="stranger.Spy")
    before = files()
    assert main([*command, f"--ckpt_path={RUN}", "--trainer.accelerator=cpu"]) == 0
    assert files() - before <= {str(RUN / "results.json"), "p.csv"}


def test_8_paths_of_the_file_are_ignored(here: Path) -> None:
    change(runs="elsewhere", output="elsewhere.csv", trainer__default_root_dir="root")
    before = files()
    assert main(["test", f"--ckpt_path={RUN}"]) == 0
    assert main(["predict", f"--config={RUN}/config.yaml"]) == 0
    assert files() - before == {str(RUN / "results.json"), "predictions.csv"}


@pytest.mark.parametrize("place", ["root", "cache"])
def test_9_prepared_data_is_read_and_never_written(here: Path, place: str, capsys: pytest.CaptureFixture[str]) -> None:
    change(**{f"data__init_args__{place}": "theirs"})
    before = files()
    for command in COMMANDS:
        assert main([*command, f"--ckpt_path={RUN}"]) == 2
        assert "is not written to a place that only the settings of the run name" in capsys.readouterr().err
        assert files() == before
    assert main(["test", f"--ckpt_path={RUN}", f"--data.{place}=theirs"]) == 0
    (recorded,) = Path("theirs").rglob("*.checked")
    recorded.unlink()
    before = files()
    assert main(["test", f"--ckpt_path={RUN}"]) == 0
    assert files() == before


def test_10_a_report_imports_nothing(here: Path) -> None:
    change(data__class_path="stranger.Data", model__class_path="stranger.Model")
    assert main(["report", "runs", "--output=report.html"]) == 0
    assert Path("report.html").is_file()
    assert not Path("imported").exists()


def test_11_fit_trusts_its_configuration(here: Path) -> None:
    change(data__class_path="stranger.Data")
    assert main(["fit", f"--config={RUN}/config.yaml", "--name=mine"]) == 0
    settings = yaml.safe_load(Path("runs/mine/version_0/config.yaml").read_text())
    assert settings["data"]["class_path"] == "stranger.Data"


def test_12_your_own_files_are_your_own_word(here: Path) -> None:
    Path("mine.yaml").write_text("data: {class_path: stranger.Data}")
    assert main(["test", "--config=mine.yaml", f"--ckpt_path={RUN}"]) == 0
    assert Path("imported").exists()


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "a/../../out", ".", ".."])
def test_13_names_stay_inside(here: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["fit", *SMALL], ["test", *SMALL], ["predict", "--input=stranger.py", "--config=digits.yaml"]):
        before = files()
        assert main([*command, f"--name={name}"]) == 2
        assert "--name must be a name for a folder in --runs" in capsys.readouterr().err
        assert files() == before
