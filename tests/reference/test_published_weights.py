"""The authors' own files score here what they score in the authors' own code, and what the paper says."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pytorch_lightning import Trainer

from benchmarks.dropped import FILE, OMEGA_0, SEEDS, dropped_anew
from benchmarks.reference import published_network, recognised
from ckcnn.__main__ import main
from ckcnn.datamodules import CharacterTrajectories, PhysioNet, SequenceDataModule, SequentialMNIST, SpeechCommands
from ckcnn.datamodules.threads import one_thread
from ckcnn.reference.convolution import ReferenceConv
from ckcnn.reference.importing import import_weights
from ckcnn.reference.model import ReferenceCKCNN
from ckcnn.reference.weights_file import read_tensors
from ckcnn.runs import checkpoints

CT_CONFIG = "character_trajectories.yaml"
CT, CT_DROP30, MFCC, RAW = 21.44961185481323, 17.243982444546685, 30.90257553169801, 39.450608806633795
SMNIST, PMNIST, SEPSIS = 31.09195739463897, 43.45667389601194, 9.779406396796968

pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning's advice on workers, and its use of what torch deprecated


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Threads that wait for each other on a busy machine take ten times as long."""
    with one_thread():
        yield


@pytest.fixture(scope="session")
def places(real_data: Path, real_cache: Path) -> dict[str, Path]:
    if not (real_data.parent / "reference_weights").is_dir():
        pytest.skip(f"the authors' weights are not in {real_data.parent / 'reference_weights'}")
    return {"root": real_data, "cache": real_cache}


def all_in(data: SequenceDataModule, *splits: str) -> SequenceDataModule:
    """Puts all recordings into some splits; what is standardised with was taken from the training split before."""
    data.prepare_data()
    data.setup()
    everything = np.sort(np.concatenate(list(data.splits.values())))
    data.splits |= dict.fromkeys(splits, everything)
    return data


def all_clips(**options: Any) -> SequenceDataModule:
    """The published figures for speech are of all clips, standardised with all clips."""
    data = all_in(SpeechCommands(partial=True, standardise="step", **options), "train", "test")
    assert data._store is not None
    data.statistics = data._statistics(data._store)
    return data


def score(data: SequenceDataModule, name: str, omega_0: float, folder: Path, **settings: Any) -> float:
    """Imports a file, and tests the checkpoint under a trainer."""
    facts = {fact: getattr(data, fact) for fact in ("in_channels", "out_channels", "task", "horizon", "dt")}
    path = folder / "imported.ckpt"
    checkpoints.save(import_weights(data.root.parent / "reference_weights" / name, omega_0, **facts), path)
    model = ReferenceCKCNN(**facts, omega_0=omega_0, **settings)
    options: dict[str, Any] = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
    trainer = Trainer(accelerator="cpu", enable_checkpointing=False, default_root_dir=folder, **options)
    (found,) = trainer.test(model, data, ckpt_path=path, weights_only=True, verbose=False)
    return found["test/auroc"] if data.task == "binary" else 100 * found["test/accuracy"]


def first_images(count: int, **options: Any) -> SequenceDataModule:
    data = SequentialMNIST(**options)
    data.prepare_data()
    data.setup()
    data.splits["test"] = data.splits["test"][:count]
    return data


@pytest.mark.parametrize(
    ("name", "rate", "expected"),
    [
        ("ct.pt", 1, 99.86),
        ("ct.pt", 2, 99.79),
        ("ct.pt", 4, 99.62),
        ("ct.pt", 8, 94.86),
        ("ct.pt", 16, 76.59),
        ("ct_half_rate.pt", 1, 99.69),
        ("ct_half_rate.pt", 2, 99.79),
        ("ct_half_rate.pt", 4, 99.37),
        ("ct_half_rate.pt", 8, 97.34),
        ("ct_half_rate.pt", 16, 79.95),
    ],
)
def test_character_trajectories_at_other_rates(
    name: str, rate: int, expected: float, places: dict[str, Path], tmp_path: Path
) -> None:
    trained = 2 if "half" in name else 1
    data = CharacterTrajectories(standardise="step", train_dt=trained, test_dt=rate, batch_size=256, **places)
    assert score(all_in(data, "test"), name, CT, tmp_path) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize(("rate", "expected"), [(8, 99.13), (16, 93.32)])
def test_the_authors_kernels_interpolated_at_lower_rates(
    rate: int, expected: float, places: dict[str, Path], tmp_path: Path
) -> None:
    data = CharacterTrajectories(standardise="step", test_dt=rate, batch_size=256, **places)
    found = score(all_in(data, "test"), "ct.pt", CT, tmp_path, coarse="interpolated")
    assert found == pytest.approx(expected, abs=0.02)


def test_character_trajectories_with_dropped_points(places: dict[str, Path], tmp_path: Path) -> None:
    data = CharacterTrajectories(standardise="step", drop_rate=0.3, batch_size=256, **places)
    assert score(all_in(data, "test"), "ct_drop30.pt", CT_DROP30, tmp_path) == pytest.approx(98.95, abs=0.02)


def test_character_trajectories_with_other_points_dropped(places: dict[str, Path]) -> None:
    """On the recordings as `benchmarks.dropped` compares our networks with this one."""
    data = dropped_anew(SEEDS[0], **places)
    net = published_network(ReferenceCKCNN, places["root"].parent / "reference_weights" / FILE, OMEGA_0, data)
    found = recognised(net, data)
    assert len(found) == 2858
    assert 100 * found.double().mean().item() == pytest.approx(99.44, abs=0.02)


def test_speech_commands_as_cepstra(places: dict[str, Path], tmp_path: Path) -> None:
    data = all_clips(mfcc=True, batch_size=256, **places)
    assert len(data.splits["test"]) == 2129
    assert score(data, "speech_mfcc.pt", MFCC, tmp_path) == pytest.approx(97.32, abs=0.02)


@pytest.mark.slow
def test_raw_speech_commands(places: dict[str, Path], tmp_path: Path) -> None:
    assert score(all_clips(batch_size=16, **places), "speech_raw.pt", RAW, tmp_path) == pytest.approx(71.21, abs=0.02)


@pytest.mark.parametrize(
    ("permuted", "name", "omega_0"), [(0, "smnist_100k.pt", SMNIST), (1, "pmnist_100k.pt", PMNIST)]
)
def test_the_first_images(permuted: int, name: str, omega_0: float, places: dict[str, Path], tmp_path: Path) -> None:
    data = first_images(400, permuted=bool(permuted), **places)
    assert score(data, name, omega_0, tmp_path) >= 97


def test_another_permutation_is_chance(places: dict[str, Path], tmp_path: Path) -> None:
    data = first_images(400, permuted=True, permutation_seed=1, **places)
    assert score(data, "pmnist_100k.pt", PMNIST, tmp_path) < 20


def imported(name: str, words: str, places: dict[str, Path], folder: Path) -> list[str]:
    """The options with which `ckcnn` works on what `ckcnn import` has made of a file."""
    data = ["--config", *words.split(), "--data.root", str(places["root"]), "--data.cache", str(places["cache"])]
    weights, checkpoint = places["root"].parent / "reference_weights" / name, folder / "x.ckpt"
    assert main(["import", str(weights), *data, "--output", str(checkpoint)]) == 0
    return [*data, "--ckpt_path", str(checkpoint), "--trainer.accelerator", "cpu"]


@pytest.mark.parametrize(
    ("name", "words", "answer"),
    [
        ("ct.pt", CT_CONFIG, ["99.77", "%", "99.53", "%"]),
        ("ct.pt", f"{CT_CONFIG} --data.test_dt 8", ["93.71", "%", "-"]),
        ("ct_half_rate.pt", f"{CT_CONFIG} --data.train_dt 2", ["99.53", "%", "99.07", "%"]),
        ("ct_drop30.pt", f"{CT_CONFIG} --data.drop_rate 0.3", ["98.83", "%", "99.30", "%"]),
        ("ct_drop30.pt", f"{CT_CONFIG} --data.drop_rate 0.3 --data.seed 1", ["98.83", "%", "99.30", "%"]),
        ("ct_drop30.pt", f"{CT_CONFIG} --data.drop_rate 0.3 --data.seed 2", ["99.30", "%", "99.30", "%"]),
        pytest.param("smnist_100k.pt", "smnist.yaml", ["99.31", "%", "99.31", "%"], marks=pytest.mark.slow),
        pytest.param("pmnist_100k.pt", "pmnist.yaml", ["98.00", "%", "98.00", "%"], marks=pytest.mark.slow),
    ],
)
def test_the_command_line_prints_the_figure(
    name: str,
    words: str,
    answer: list[str],
    places: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Beside that of the paper, whose split of CharacterTrajectories was another one."""
    options = imported(name, words, places, tmp_path)
    assert main(["test", *options, "--runs", str(tmp_path)]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("test/a")]
    assert line.split()[1:] == answer


def test_where_the_authors_network_is_wrong(places: dict[str, Path], tmp_path: Path) -> None:
    """Five recordings of our test split; docs/reference/results.md tells that our own networks fail on four of them."""
    options = imported("ct_drop30.pt", f"{CT_CONFIG} --data.drop_rate 0.3", places, tmp_path)
    answers = tmp_path / "answers.csv"
    assert main(["predict", *options, "--output", str(answers)]) == 0
    with answers.open(newline="") as file:
        wrong = [int(row["sequence"]) for row in csv.DictReader(file) if row["target"] != row["prediction"]]
    assert wrong == [145, 316, 343, 363, 382]


@pytest.mark.slow
def test_sepsis(places: dict[str, Path], tmp_path: Path) -> None:
    data = all_in(PhysioNet(batch_size=1024, **places), "test")
    assert score(data, "physionet.pt", SEPSIS, tmp_path) == pytest.approx(0.918, abs=0.0005)


def test_kernels_of_the_best_epoch(real_data: Path, places: dict[str, Path]) -> None:
    """The file holds the kernels that its own kernel nets gave; index 0 is the oldest lag there, and now here."""
    path = real_data.parent / "reference_weights" / "speech_mfcc.pt"
    checkpoint, stored = import_weights(path, MFCC), read_tensors(path)
    model = ReferenceCKCNN(**checkpoint["hyper_parameters"])
    model.load_state_dict(checkpoint["state_dict"])
    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, ReferenceConv)}
    assert len(layers) == 4
    with torch.no_grad():
        for name, layer in layers.items():
            theirs = stored[name.replace("net.backbone.blocks", "backbone").replace("conv", "cconv") + ".conv_kernel"]
            assert theirs.abs().max() > 1
            assert torch.allclose(layer.kernel(161), theirs.flip(-1), rtol=0, atol=5e-4)
