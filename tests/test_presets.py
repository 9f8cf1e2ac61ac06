"""Every preset fits the code, has the paper's size for each row, and trains on tiny data."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from ckcnn import presets
from ckcnn.__main__ import main
from ckcnn.cli.commands import run
from ckcnn.cli.lightning_cli import CKCNNCLI
from ckcnn.cli.listing import rows
from ckcnn.models.baselines import count_parameters
from ckcnn.runs.metrics_table import read
from ckcnn.search import arguments
from tests.datamodules import official

ROWS = dict(rows())
OWN = {"uea.yaml": 18_468}  # presets of data with other channels and classes than the paper's
FILES: dict[str, Any] = {
    "smnist": official.write_mnist,
    "pmnist": official.write_mnist,
    "scifar10": official.write_cifar,
    "character_trajectories": official.write_trajectories,
    "speech_mfcc": official.write_speech,
    "speech_raw": official.write_speech,
    "physionet": official.write_sepsis,
    "ptb": official.write_ptb,
}
SMALL = {
    "copy_memory": ["--data.length=30"],
    "adding": ["--data.length=30"],
    "ptb": ["--data.window=40", "--data.history=8"],
    "physionet": ["--data.num_workers=0"],
}


def parsed(command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CKCNNCLI:
    monkeypatch.chdir(tmp_path)
    return CKCNNCLI("fit", ["--config", *command.split(), "--trainer.accelerator", "cpu"])


@pytest.mark.parametrize("command", ROWS)
def test_every_row_has_the_size_of_the_paper(command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cli = parsed(command, monkeypatch, tmp_path)
    assert count_parameters(cli.model) == ROWS[command].get("size", OWN.get(command, 98_286))
    assert cli.config.paper == (ROWS[command] or None)
    assert cli.config.variants is None  # a saved configuration does not apply them again


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("copy_memory.yaml", {"model.omega_0": 19.20, "trainer.max_epochs": 50, "model.learning_rate": 5e-4}),
        ("copy_memory.yaml --data.length 6000", {"model.omega_0": 69.97, "trainer.max_epochs": 300}),
        ("adding.yaml --data.length 1000", {"model.omega_0": 2.03, "trainer.max_epochs": 30}),
        ("adding.yaml --data.length 1000 --model.omega_0 5", {"model.omega_0": 5.0, "trainer.max_epochs": 30}),
        ("adding.yaml --data.length 500", {"model.omega_0": 14.55, "trainer.max_epochs": 20}),
        ("pmnist.yaml --config large.yaml", {"model.omega_0": 42.161651744476515, "model.input_dropout": 0.2}),
        (
            "pmnist.yaml --config fast.yaml",
            {"model.omega_0": "auto", "trainer.max_epochs": 20},
        ),
        ("character_trajectories.yaml --data.drop_rate 0.5", {"model.kernel_penalty": 1e-4, "model.dropout": 0.0}),
        ("character_trajectories.yaml --data.train_dt 8", {"model.omega_0": 12.589391905289371, "model.dropout": 0.1}),
        ("speech_raw.yaml --data.drop_rate 0.7", {"model.weight_dropout": 0.1, "model.kernel_penalty": 0.0}),
        ("copy_memory.yaml --data.length 200 --model GRU", {"model.hidden_channels": 10, "trainer.max_epochs": 50}),
    ],
)
def test_values(command: str, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cli = parsed(command, monkeypatch, tmp_path)
    assert {key: presets.value_of(cli.config, key) for key in expected} == expected


@pytest.mark.parametrize("name", presets.names())
def test_trains_and_tests(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    FILES.get(name, Path.mkdir)(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CKCNN_DATA", str(tmp_path / "data"))
    options = ["--trainer.accelerator=cpu", "--trainer.enable_progress_bar=false", *SMALL.get(name, [])]
    arguments = ["--config", f"{name}.yaml", "--config", "debug.yaml", *options]
    assert main(["fit", *arguments]) == 0
    assert main(["test", *arguments]) == 0
    run = tmp_path / "runs" / name / "version_0"
    (row,) = read(run / "metrics.csv")
    assert row["step"] == "2"
    result = json.loads((run / "results.json").read_text())
    # The paper has no copy memory and no adding problem of length 30, so nothing of it may be beside the result.
    assert result["paper"] == (None if name in ("copy_memory", "adding") else ROWS.get(f"{name}.yaml") or None)


@pytest.mark.parametrize("path", sorted(presets.FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_presets_are_short_and_say_how_they_are_used(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 25
    assert path.stem == "base" or re.search(rf"#   .*{path.stem}\.yaml", text)


def test_a_file_in_the_working_folder_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert presets.find("digits.yaml") == presets.find("digits") == presets.FOLDER / "digits.yaml"
    Path("digits.yaml").write_text("name: mine")
    assert presets.find("digits.yaml") == Path("digits.yaml")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pminst.yaml", r"there is no file pminst.yaml, nor a preset of this name; did you mean pmnist\?"),
        ("folder/x.yaml", "there is no file folder/x.yaml; the presets are adding, "),
    ],
)
def test_unknown_presets(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        presets.find(name)


def test_the_list_shows_size_and_figure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["presets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split() == ["pmnist.yaml", "98,286", "accuracy", "98.00", "%"] for line in lines)
    assert any("copy_memory.yaml --data.length 6000" in line and "15,526" in line for line in lines)
    assert main(["presets", "all"]) == 2


def words_of(script: str, folder: Path, *options: str) -> list[str]:
    """What a script for SLURM hands to srun."""
    srun = folder / "srun"
    srun.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    srun.chmod(0o755)
    job = {"SLURM_JOB_ID": "77", "SLURM_NNODES": "2", "SLURM_NTASKS_PER_NODE": "4", "SLURM_ARRAY_JOB_ID": "78"}
    command = ["bash", str(presets.FOLDER / script), "pmnist.yaml", *options]
    environment = {**os.environ, **job, "PATH": f"{folder}:{os.environ['PATH']}"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()


def test_the_script_for_a_search_says_what_it_should(tmp_path: Path) -> None:
    words = words_of("search.sbatch", tmp_path, "--trials", "9", "--model.dropout", "0.2")
    assert words[:2] == ["ckcnn", "search"]
    options, others = arguments.parse(words[2:])
    assert (options.trials, options.name, options.storage) == (9, "pmnist-78", "runs/pmnist-78/search.log")
    assert others == ["--config", "pmnist.yaml", "--model.dropout", "0.2"]


def test_the_script_for_slurm_says_what_it_should(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = words_of("cluster.sbatch", tmp_path, "--model.omega_0", "30")
    assert words[:6] == ["ckcnn", "fit", "--config", "pmnist.yaml", "--config", "cluster.yaml"]
    monkeypatch.chdir(tmp_path)
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="cpu runs without a GPU"):  # all options are understood, up to the GPUs
            run("fit", words[2:])


@pytest.mark.parametrize("length", [100, 200, 1000, 3000, 6000])
def test_copy_memory_is_solved_with_the_same_margin_at_every_length(length: int) -> None:
    found = presets.settings(["copy_memory.yaml"], {"data.length": length})
    each_digit = presets.value_of(found, "early_stopping.stopping_threshold") * (length + 20) / 10
    assert each_digit == pytest.approx(0.05, rel=0.03)


def test_flags_before_and_after_a_file_keep_their_order() -> None:
    words = ["--model.omega_0=3", "--config", "pmnist.yaml", "--model.dropout", "0.5", "--config=fast.yaml"]
    layers = presets.Layers.of_arguments(words)
    assert [path.name for path in layers.files] == ["pmnist.yaml", "fast.yaml"]
    assert presets.value_of(layers.merged(), "model.omega_0") == "auto", "the last one wins"
    assert presets.value_of(layers.merged(), "model.dropout") == 0.5


def test_the_row_of_the_paper_comes_after_its_preset_and_before_everything_else() -> None:
    words = ["--config", "pmnist.yaml", "--config", "large.yaml", "--model.input_dropout", "0.3"]
    layers = presets.Layers.of_arguments(words).with_row()
    assert presets.value_of(layers.merged(), "model.omega_0") == 42.161651744476515
    assert presets.value_of(layers.merged(), "model.input_dropout") == 0.3
    assert layers.merged()["paper"]["test/accuracy"] == 0.9854


def test_settings_that_no_row_fits_are_named() -> None:
    layers = presets.Layers.of_arguments(["--config", "adding.yaml", "--data.length", "500"])
    assert layers.row() is None
    assert layers.missing_row() == "data.length 500"
    assert layers.with_row() == layers


def test_a_config_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="--config needs the name of a preset"):
        presets.Layers.of_arguments(["--config"])


def test_a_run_of_an_earlier_version_is_found(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("data: {class_path: datamodules.Digits, init_args: {batch_size: 4}}")
    assert presets.load(path)["data"]["class_path"] == "ckcnn.datamodules.Digits"
    layer = presets.Layer.of_file(str(path))
    assert layer.path == path
    assert "ckcnn.datamodules.Digits" in layer.words[1], "the parser gets the present name"
