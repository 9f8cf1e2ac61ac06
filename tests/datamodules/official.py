"""Tiny data sets in their official formats, written by the tests."""

from __future__ import annotations

import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from ckcnn.datamodules.penn_treebank import VOCABULARY
from ckcnn.datamodules.physionet import _COLUMNS
from ckcnn.datamodules.speech_commands import TEN_WORDS

MNIST = "MNIST/raw"
CIFAR = "cifar-10-batches-py"
UEA = "uea/CharacterTrajectories"
SPEECH = "SpeechCommands/speech_commands_v0.02"
SEPSIS = "sepsis2019"
PTB = "ptb"


def write_idx(path: Path, array: NDArray[np.uint8]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    header = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(header + array.tobytes())


def write_mnist(root: Path, train: int = 200, test: int = 40) -> None:
    random = np.random.default_rng(0)
    for name, count in (("train", train), ("t10k", test)):
        images = random.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        write_idx(root / MNIST / f"{name}-images-idx3-ubyte", images)
        write_idx(root / MNIST / f"{name}-labels-idx1-ubyte", (np.arange(count) % 10).astype(np.uint8))


def write_cifar(root: Path, count: int = 40) -> None:
    random = np.random.default_rng(0)
    (root / CIFAR).mkdir(parents=True)
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        pixels = random.integers(0, 256, (count, 3072), dtype=np.uint8)
        content = {
            "batch_label": name,
            "labels": [i % 10 for i in range(count)],
            "data": pixels,
            "filenames": ["a.png"],
        }
        (root / CIFAR / name).write_bytes(pickle.dumps(content, protocol=2))


def ts_text(recordings: list[tuple[NDArray[np.float64], int]]) -> str:
    lines = [
        "@problemName CharacterTrajectories",
        "@timeStamps false",
        "@missing false",
        "@univariate false",
        "@dimensions 3",
        "@equalLength false",
        "@classLabel true " + " ".join(str(label) for label in range(1, 21)),
        "@data",
    ]
    for signal, label in recordings:
        channels = [",".join(f"{value:.6f}" for value in channel) for channel in signal]
        lines.append(":".join([*channels, str(label)]))
    return "\n".join(lines) + "\n"


def write_trajectories(root: Path, per_class: int = 5) -> None:
    random = np.random.default_rng(0)
    (root / UEA).mkdir(parents=True)
    for name in ("TRAIN", "TEST"):
        recordings = [
            (random.normal(size=(3, int(random.integers(60, 183)))), label)
            for _ in range(per_class)
            for label in range(1, 21)
        ]
        (root / UEA / f"CharacterTrajectories_{name}.ts").write_text(ts_text(recordings))


def write_speech(root: Path, words: tuple[str, ...] = TEN_WORDS, per_word: int = 10) -> None:
    random = np.random.default_rng(0)
    for word in words:
        (root / SPEECH / word).mkdir(parents=True)
        for clip in range(per_word + 1):
            samples = 16_000 if clip < per_word else 12_000  # the last one is too short and must be left out
            noise = random.integers(-9999, 9999, samples, dtype=np.int16)
            soundfile.write(root / SPEECH / word / f"{clip:08x}_nohash_0.wav", noise, 16_000, subtype="PCM_16")


def psv_text(hours: list[int], random: np.random.Generator, sepsis: bool, columns: tuple[str, ...] = _COLUMNS) -> str:
    lines = ["|".join(columns)]
    for hour in hours:
        values = [f"{value:.2f}" if random.random() < 0.3 else "NaN" for value in random.normal(80, 10, 34)]
        facts = ["63.0", "1", "NaN", "NaN", "-0.5"] if hours[0] % 2 else ["41.0", "0", "0", "1", "-12.0"]
        row = dict(zip(_COLUMNS, [*values, *facts, str(hour), str(int(sepsis and hour == hours[-1]))], strict=True))
        lines.append("|".join(row[column] for column in columns))
    return "\n".join(lines) + "\n"


def write_sepsis(root: Path, patients: int = 20) -> None:
    random = np.random.default_rng(0)
    (root / SEPSIS).mkdir(parents=True)
    for part, first in (("A", 1), ("B", 100_001)):
        with zipfile.ZipFile(root / SEPSIS / f"training_set{part}.zip", "w") as zipped:
            for patient in range(patients):
                start, stay = 1 + patient % 3, int(random.integers(3, 90))
                text = psv_text(list(range(start, start + stay)), random, sepsis=patient % 2 == 0)
                zipped.writestr(f"training/p{first + patient:06d}.psv", text)


def write_ptb(root: Path) -> None:
    random = np.random.default_rng(0)
    (root / PTB).mkdir(parents=True)
    for name, lines in (("train", 60), ("valid", 30), ("test", 40)):
        text = "".join(
            " " + "".join(random.choice(list(VOCABULARY[:30]), size=int(random.integers(20, 60)))) + " \n"
            for _ in range(lines)
        )
        (root / PTB / f"ptb.{name}.txt").write_text(text)


def user_arrays(count: int = 60, length: int = 32) -> dict[str, NDArray[np.generic]]:
    random = np.random.default_rng(0)
    return {
        "x": random.normal(3, 2, (count, 2, length)).astype(np.float32),
        "y": np.arange(count) % 3,
        "lengths": random.integers(length // 2, length + 1, count),
    }
