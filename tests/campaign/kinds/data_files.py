"""Official data files that are damaged, encrypted, empty, or hold what the official ones never do."""

from __future__ import annotations

import io
import pickle
import random
import struct
import wave
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.campaign.case import Expected, Kind, drawn
from tests.campaign.damage import spoil
from tests.campaign.judge import PAYLOAD

_BENCHMARKS = (
    "SequentialMNIST",
    "SequentialCIFAR10",
    "PhysioNet",
    "CharacterTrajectories",
    "SpeechCommands",
    "PennTreebank",
    "UEA",
)
_OPTIONS = {"SpeechCommands": ["--set", "words=['yes', 'no']"], "UEA": ["--set", "name=Mine"]}
_strategy = st.fixed_dictionaries(
    {
        "benchmark": st.sampled_from([*_BENCHMARKS, "PhysioNet"]),
        "how": st.sampled_from(["spoiled", "spoiled", "special", "special", "special", "whole"]),
        "seed": st.integers(0, 10**6),
    }
)


def _draw(seed: int, count: int) -> list[tuple[Any, Expected]]:
    return [(recipe, "fine" if recipe["how"] == "whole" else "either") for recipe in drawn(_strategy, seed, count)]


def arrange(recipe: dict[str, Any], folder: Path, material: Path) -> list[str]:
    source = random.Random(recipe["seed"])
    files = _MAKE[recipe["benchmark"]](source, recipe["how"] == "special")
    for name, content in files.items():
        path = folder / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    if recipe["how"] == "spoiled":
        path = folder / "data" / source.choice(list(files))
        path.write_bytes(spoil(path.read_bytes(), source))
    return ["data", "prepare", recipe["benchmark"], "--root=data", *_OPTIONS.get(recipe["benchmark"], [])]


def _idx(array: np.ndarray[Any, Any]) -> bytes:
    return (
        bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.astype(np.uint8).tobytes()
    )


def _mnist(source: random.Random, special: bool) -> dict[str, bytes]:
    images, labels = np.zeros((100, 28, 28)), np.arange(100) % 10
    if special:
        images = np.zeros(source.choice([(0, 28, 28), (100, 27, 28), (99, 28, 28), (100, 1, 1)]))
        labels = labels + source.choice([0, 90])
    files = {}
    for part in ("train", "t10k"):
        files[f"MNIST/raw/{part}-images-idx3-ubyte"] = _idx(images)
        files[f"MNIST/raw/{part}-labels-idx1-ubyte"] = _idx(labels)
    return files


class _Payload:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path(PAYLOAD),))


def _cifar(source: random.Random, special: bool) -> dict[str, bytes]:
    batch: Any = {"data": np.zeros((20, 3072), dtype=np.uint8), "labels": [n % 10 for n in range(20)]}
    if special:
        batch = source.choice(
            [
                _Payload(),
                5,
                [],
                {"data": _Payload(), "labels": []},
                {**batch, "labels": [300] * 20},
                {**batch, "labels": ["a"] * 20},
                {**batch, "labels": [None] * 20},
                {**batch, "labels": 5},
                {**batch, "data": [[1, 2], [3]]},
                {**batch, "data": None},
            ]
        )
    names = [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]
    return {f"cifar-10-batches-py/{name}": pickle.dumps(batch) for name in names}


def _psv(source: random.Random, number: int, special: bool) -> str:
    from ckcnn.datamodules import physionet

    columns = physionet._COLUMNS
    rows = [["1.0"] * len(columns) for _ in range(6)]
    for hour, row in enumerate(rows, 1):
        row[columns.index("ICULOS")] = str(hour)
        row[-1] = str(number % 2)
    if special:
        row = source.choice(rows)
        where = source.choice([columns.index("ICULOS"), len(columns) - 1, source.randrange(len(columns))])
        row[where] = source.choice(["NaN", "1e30", "inf", "-5", "0", "x", "", "1e300", "2.5"])
    return "\n".join(["|".join(columns), *("|".join(row) for row in rows)]) + "\n"


def _sepsis(source: random.Random, special: bool) -> dict[str, bytes]:
    how = source.randrange(5) if special else 9
    files = {}
    for part in "AB":
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            for n in range(20):
                archive.writestr(f"training/p{n:06d}.psv", _psv(source, n, how == 4 and n == 3))
        content = packed.getvalue()
        if how == 0:  # the checksum of a member
            content = content.replace(b"1.0|1.0", b"1.0|2.0", 1)
        elif how == 1:  # said to be encrypted
            content = content.replace(b"PK\x03\x04\x14\x00\x00\x00", b"PK\x03\x04\x14\x00\x01\x00")
            content = content.replace(b"PK\x01\x02\x14\x03\x14\x00\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01\x00")
        elif how == 2:  # a way of packing that nobody knows
            content = content.replace(
                b"PK\x01\x02\x14\x03\x14\x00\x00\x00\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x00\x00\x63\x00"
            )
        elif how == 3:
            empty = io.BytesIO()
            zipfile.ZipFile(empty, "w").close()
            content = empty.getvalue()
        files[f"sepsis2019/training_set{part}.zip"] = content
    return files


def _letters(source: random.Random, special: bool) -> dict[str, bytes]:
    head = "@problemName c\n@timeStamps false\n@missing false\n@univariate false\n@dimensions 3\n"
    head += "@equalLength false\n@classLabel true {}\n@data\n"
    head = head.format(" ".join(map(str, range(1, 21))))
    lines = [":".join([",".join(["0.5"] * 60)] * 3 + [str(n % 20 + 1)]) for n in range(400)]
    if special:
        odd = source.choice(["inf", "-inf", "nan", "1e300", "?", "x", "", "1e39"])
        at = source.randrange(len(lines))
        lines[at] = source.choice(
            [lines[at].replace("0.5", odd, 1), lines[at] + "99", "0.5:0.5:1", lines[at].replace("0.5,", "0.5," * 9)]
        )
    text = (head + "\n".join(lines)).encode()
    return {f"uea/CharacterTrajectories/CharacterTrajectories_{part}.ts": text for part in ("TRAIN", "TEST")}


def _speech(source: random.Random, special: bool) -> dict[str, bytes]:
    files = {}
    for word in ("yes", "no"):
        for n in range(12):
            clip = io.BytesIO()
            with wave.open(clip, "wb") as sound:
                sound.setnchannels(source.choice([1, 2]) if special else 1)
                sound.setsampwidth(source.choice([1, 2]) if special else 2)
                sound.setframerate(source.choice([16000, 8000]) if special else 16000)
                sound.writeframes(bytes(2 * (source.choice([16000, 0, 15999]) if special else 16000)))
            files[f"SpeechCommands/speech_commands_v0.02/{word}/{n}.wav"] = clip.getvalue()
    return files


def _text(source: random.Random, special: bool) -> dict[str, bytes]:
    text = "the company said it would <unk> a million \n" * 2000
    files = {f"ptb/ptb.{part}.txt": text.encode() for part in ("train", "valid", "test")}
    if special:
        odd = source.choice(["", " ", "ABC", "é", "\x00", "\n", "a" * 100, "\r\n"])
        files[f"ptb/ptb.{source.choice(['train', 'valid', 'test'])}.txt"] = odd.encode()
    return files


def _problem(source: random.Random, special: bool) -> dict[str, bytes]:
    """A problem of the UEA archive: series of different lengths in two classes, or with a value."""
    values = special and source.random() < 0.3
    kind = "@targetLabel true" if values else "@classLabel true a b"
    head = f"@problemName Mine\n@timeStamps false\n@missing false\n@univariate false\n@dimensions 2\n{kind}\n@data\n"
    lines = [
        ":".join([*[",".join(["0.5"] * (9 + n % 3))] * 2, str(0.5 * n) if values else "ab"[n % 2]]) for n in range(30)
    ]
    if special:
        at = source.randrange(len(lines))
        first, second, label = lines[at].split(":")
        odd = source.choice(["inf", "nan", "1e300", "", "x", "?", "-", "c", "a b", "1,2"])
        lines[at] = source.choice(
            [
                f"{first}:{second}:{odd}",
                f"{odd}:{second}:{label}",
                f"{first}:{label}",
                f"{first}:{second}:{first}:{label}",
                f"{first},{odd}:{second},1:{label}",
                f"::{label}",
                label,
            ]
        )
        head = source.choice([head, head, head, head.replace("true a b", "true a"), head.replace("@data\n", "")])
        lines = source.choice([lines, lines, lines, lines[:1], []])
    parts = {part: (head + "\n".join(lines)).encode() for part in ("TRAIN", "TEST")}
    if special and source.random() < 0.2:
        del parts["TEST"]
    return {f"uea/Mine/Mine_{part}.ts": content for part, content in parts.items()}


_MAKE = {
    "SequentialMNIST": _mnist,
    "SequentialCIFAR10": _cifar,
    "PhysioNet": _sepsis,
    "CharacterTrajectories": _letters,
    "SpeechCommands": _speech,
    "PennTreebank": _text,
    "UEA": _problem,
}
KIND = Kind("data files", _draw, arrange)
