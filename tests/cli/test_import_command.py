"""`ckcnn import`: a preset tells what a file does not, and must fit what it does."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import pytest
import torch

from ckcnn.__main__ import main
from ckcnn.reference import published
from ckcnn.runs import checkpoints
from tests.datamodules.official import write_trajectories
from tests.reference.published import FILES, weights

pytestmark = pytest.mark.filterwarnings("ignore")  # what Lightning's command line uses of jsonargparse is deprecated

KERNEL = "kernnohid_32_kernact_Sine_kernomega0"
TRAJECTORIES, SPEECH = (
    "CharTrajectories_srtr_{}_drop_{}_model_CKCNN",
    "SpeechCommands_mfcc_False_srtr_{}_drop_{}_model_CKCNN",
)
# What tests/published.py calls the file: its real name up to omega_0, and the exact omega_0 of the authors' commands.
NAMES = {
    "smnist": ("MNIST_perm_False_model_CKCNN_blcks_2_nohid_30", 31.09195739463897),
    "smnist_wide": ("MNIST_perm_False_model_CKCNN_blcks_2_nohid_100", 30.5),
    "pmnist": ("MNIST_perm_True_model_CKCNN_blcks_2_nohid_30", 43.45667389601194),
    "pmnist_wide": ("MNIST_perm_True_model_CKCNN_blcks_2_nohid_100", 42.161651744476515),
    "scifar10": ("CIFAR10_model_CKCNN_blcks_2_nohid_30", 25.696),
    "scifar10_wide": ("CIFAR10_model_CKCNN_blcks_2_nohid_100", 25.696),
    "ct": (TRAJECTORIES.format(1, 0), 21.44961185481323),
    "ct_half": (TRAJECTORIES.format(2, 0), 21.44961185481323),
    "ct_quarter": (TRAJECTORIES.format(4, 0), 21.44961185481323),
    "ct_eighth": (TRAJECTORIES.format(8, 0), 12.589391905289371),
    "ct_drop30_stale": (TRAJECTORIES.format(1, 30), 11.46),
    "ct_drop30": (TRAJECTORIES.format(1, 30), 17.243982444546685),
    "ct_drop50": (TRAJECTORIES.format(1, 50), 11.997102427300288),
    "ct_drop70": (TRAJECTORIES.format(1, 70), 4.237433943113986),
    "speech_mfcc": ("SpeechCommands_mfcc_True_model_CKCNN", 30.90257553169801),
    "speech_raw": (SPEECH.format(1, 0), 39.450608806633795),
    "speech_raw_half": (SPEECH.format(2, 0), 39.450608806633795),
    "speech_raw_quarter": (SPEECH.format(4, 0), 39.450608806633795),
    "speech_raw_eighth": (SPEECH.format(8, 0), 39.450608806633795),
    "speech_raw_drop30": (SPEECH.format(1, 30), 35.655229877794035),
    "speech_raw_drop50": (SPEECH.format(1, 50), 31.700745675276966),
    "speech_raw_drop70": (SPEECH.format(1, 70), 23.29255834358289),
    "physionet": ("PhysioNet_model_CKCNN", 9.779406396796968),
}


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str) -> str:
    torch.save(weights(FILES[name]), "file.pt")
    return "file.pt"


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["import", *words]) == 2
    captured = capsys.readouterr()
    assert not captured.out
    assert not list(Path().glob("**/*.ckpt*"))
    assert not list(Path().glob(".*"))
    return captured.err.removeprefix("ckcnn: error: ").removesuffix("\n")


@pytest.mark.parametrize("name", NAMES)
def test_every_published_file_has_its_preset(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    start, omega_0 = NAMES[name]
    real_name = f"{start}_{KERNEL}_{round(omega_0, 2)}_bs_64.pt"
    known = published.FILES | published.STALE
    (command,) = [command for pattern, command in known.items() if fnmatch(real_name, pattern)]
    assert published.command_of(real_name) == command
    assert main(["import", write(name), "--config", *command.split(), "--output", "new/file.ckpt"]) == 0
    answer = capsys.readouterr().out
    assert answer == (
        f"new/file.ckpt: {FILES[name].parameters:,} parameters of file.pt. What to do next:\n"
        f"  ckcnn test --config {command} --ckpt_path new/file.ckpt\n"
    )
    content = checkpoints.load(Path("new/file.ckpt"))
    assert content["model_class"] == "ReferenceCKCNN"
    assert content["hyper_parameters"]["omega_0"] == omega_0
    assert content["hyper_parameters"]["horizon"] == FILES[name].length


def test_flags_win_over_the_preset(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--config", "smnist.yaml", "--model.omega_0", "12.5", "--output=x.ckpt"]
    assert main(["import", write("smnist"), *words]) == 0
    assert checkpoints.load(Path("x.ckpt"))["hyper_parameters"]["omega_0"] == 12.5
    assert "test --config smnist.yaml --model.omega_0 12.5 --ckpt_path x.ckpt\n" in capsys.readouterr().out


def test_a_name_that_goes_with_another_preset(capsys: pytest.CaptureFixture[str]) -> None:
    """The pixels of both are alike, only their order is not: the file does not tell."""
    name = f"{NAMES['pmnist'][0]}_{KERNEL}_43.46_bs_64.pt"
    Path(write("pmnist")).rename(name)
    hint = "By its name the file goes with --config pmnist.yaml, not with smnist.yaml.\n"
    assert main(["import", name, "--config", "smnist.yaml", "--output", "x.ckpt"]) == 0
    assert capsys.readouterr().out.endswith(hint)
    assert main(["import", name, "--config", "pmnist.yaml", "--output", "x.ckpt"]) == 0
    assert "By its name" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "words", "difference"),
    [
        ("ct", "character_trajectories.yaml --data.drop_rate 0.3", "channels 3, not 4"),
        ("ct_half", "character_trajectories.yaml", "training length 91, not 182"),
        ("ct", "smnist.yaml", "channels 3, not 1, classes 20, not 10, training length 182, not 784"),
        ("smnist_wide", "smnist.yaml", "hidden channels 100, not 30"),
        ("physionet", "smnist.yaml", "channels 75, not 1, classes 1, not 10, task binary, not classification"),
    ],
)
def test_a_preset_that_does_not_fit(name: str, words: str, difference: str, capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, write(name), "--config", *words.split(), "--output", "x.ckpt")
    assert message.startswith(f"file.pt is a different model: it has {difference}")
    assert message.endswith("; ckcnn import --list shows its preset")


def test_mistakes_in_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    usage = "write ckcnn import FILE.pt --config smnist.yaml --output smnist.ckpt"
    preset = ("--config", "smnist.yaml")
    assert refused(capsys, *preset) == f"the file comes first, got --config; {usage}"
    assert refused(capsys, "file.pt", *preset) == f"the file to write is missing; {usage}"
    assert "name a preset" in refused(capsys, "file.pt", "--output", "x.ckpt")
    assert "did you mean smnist?" in refused(capsys, "file.pt", "--config", "smnits.yaml", "--output", "x.ckpt")
    assert refused(capsys, "file.pt", *preset, "--output", "x.ckpt") == "there is no file file.pt"
    write("smnist")
    assert refused(capsys, "file.pt", *preset, "--output", "./file.pt") == (
        "--output is the file to import, file.pt; choose another file"
    )
    assert refused(capsys, "file.pt", *preset, "--model", "GRU", "--output", "x.ckpt") == (
        "the authors' weights are for a CKCNN, got --model GRU"
    )
    assert "no option --model.omega" in refused(capsys, "file.pt", *preset, "--model.omega", "3", "--output", "x.ckpt")


def test_nothing_is_left_where_nothing_can_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    Path("folder").mkdir()
    words = (write("smnist"), "--config", "smnist.yaml", "--output")
    assert refused(capsys, *words, "folder") == "cannot write --output folder: Is a directory; choose another file"
    assert refused(capsys, *words, "file.pt/x").startswith("cannot write --output file.pt/x: ")


def test_training_goes_on_from_imported_weights() -> None:
    write_trajectories(Path("data"))
    preset = ["--config", "character_trajectories.yaml"]
    assert main(["import", write("ct"), *preset, "--output", "x.ckpt"]) == 0
    short = ["--trainer.max_epochs", "1", "--trainer.limit_train_batches", "2", "--trainer.accelerator", "cpu"]
    assert main(["fit", *preset, "--model", "ckcnn.ReferenceCKCNN", "--ckpt_path", "x.ckpt", *short]) == 0
    before, after = (checkpoints.load(path) for path in (Path("x.ckpt"), next(Path("runs").glob("**/last.ckpt"))))
    assert after["global_step"] == 2
    change = {name: (after["state_dict"][name] - value).abs().max() for name, value in before["state_dict"].items()}
    assert 0 < max(change.values()) < 0.01  # two steps of Adam


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 23 + 1 + 2
    row = next(line for line in lines if "drop_70" in line and "Char" in line)
    expected = ["character_trajectories.yaml", "--data.drop_rate", "0.7", "101,746", "accuracy", "98.14", "%"]
    assert row.split(None, 1)[1].split() == expected


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "--help"]) == 0
    assert main(["import"]) == 0
    assert "usage: ckcnn import FILE.pt" in capsys.readouterr().out
