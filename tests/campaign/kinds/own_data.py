"""A user's own arrays and tables: other shapes, types, values and containers than promised."""

from __future__ import annotations

import random
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from hypothesis import strategies as st

from tests.campaign.case import Expected, Kind, drawn
from tests.campaign.damage import spoil
from tests.campaign.judge import PAYLOAD
from tests.campaign.material import TINY_MODEL, TINY_TRAINER

_N, _T = 24, 16
_NAMES = ("x", "y", "lengths", "times", "split", "classes", "channel_names")
_HOW = ("scalar", "empty", "complex", "text", "object", "nan", "infinite", "huge", "negative", "shape", "bool", "dates")
_strategy = st.fixed_dictionaries(
    {
        "ending": st.sampled_from([".npz", ".npz", ".h5", ".h5", ".csv", ".ts"]),
        "name": st.sampled_from(_NAMES),
        "how": st.sampled_from([*_HOW, *_HOW, "gone", "spoiled", "link", "special"]),
        "predict": st.booleans(),
        "seed": st.integers(0, 10**6),
    }
)
_ALWAYS = {("x", how) for how in ("scalar", "empty", "complex", "text", "object", "infinite", "huge", "gone", "dates")}
_ALWAYS |= {(name, how) for name in ("lengths", "times") for how in ("scalar", "complex", "text", "object", "dates")}
_ALWAYS |= {("split", how) for how in ("scalar", "complex", "object", "nan", "shape")}


def _draw(seed: int, count: int) -> list[tuple[Any, Expected]]:
    def expected(recipe: dict[str, Any]) -> Expected:
        arrays = recipe["ending"] in (".npz", ".h5")
        used = not recipe["predict"] or recipe["name"] in ("x", "lengths", "times")
        return "refused" if arrays and used and (recipe["name"], recipe["how"]) in _ALWAYS else "either"

    return [(recipe, expected(recipe)) for recipe in drawn(_strategy, seed, count)]


def arrange(recipe: dict[str, Any], folder: Path, material: Path) -> list[str]:
    source = random.Random(recipe["seed"])
    path = folder / f"mine{recipe['ending']}"
    channels, time = (1, 64) if recipe["predict"] else (2, _T)
    numbers = np.random.default_rng(recipe["seed"])
    arrays: dict[str, Any] = {
        "x": numbers.normal(size=(_N, channels, time)).astype(np.float32),
        "y": np.arange(_N) % 2,
    }
    optional = {
        "lengths": numbers.integers(1, time, _N),
        "times": np.cumsum(numbers.random((_N, time)), axis=1),
        "split": np.array(["train"] * 16 + ["val"] * 4 + ["test"] * 4),
        "classes": np.array(["a", "b"]),
        "channel_names": np.array(["u", "v"][:channels]),
    }
    if recipe["name"] in optional:
        arrays[recipe["name"]] = optional[recipe["name"]]
    if recipe["ending"] in (".csv", ".ts"):
        path.write_bytes(_table(recipe, arrays, source))
    else:
        _write(path, recipe, arrays, source)
    if recipe["predict"]:
        run = material / "runs/digits/version_0"
        return ["predict", f"--ckpt_path={run}", f"--input={path.name}", "--quiet"]
    words = ["--model=CKCNN", *TINY_MODEL, "--data=Arrays", f"--data.path={path.name}", "--data.root=."]
    return ["fit", *words, *TINY_TRAINER]


def _changed(array: Any, how: str, source: random.Random) -> Any:
    array = np.array(array)
    place = tuple(source.randrange(size) for size in array.shape)
    if how in ("nan", "infinite", "huge", "negative"):
        value = {"nan": np.nan, "infinite": np.inf, "huge": 1e300, "negative": -7}[how]
        if array.dtype.kind in "US":
            return np.full(array.shape, value)
        array = array.astype(np.float64) if how != "negative" or array.dtype.kind == "f" else array.astype(np.int64)
        array[place] = value
        return array
    return {
        "scalar": lambda: array.ravel()[0],
        "empty": lambda: array[:0],
        "complex": lambda: np.ones(array.shape) + 1j,
        "text": lambda: np.full(array.shape, "é1"),
        "object": lambda: np.array([None, {"a": 1}] * (array.size // 2 + 1), dtype=object)[: array.size].reshape(
            array.shape
        ),
        "shape": lambda: source.choice([array[..., None], array[:-3], array.ravel()[:5], array[None]]),
        "bool": lambda: np.ones(array.shape, dtype=bool),
        "dates": lambda: np.full(array.shape, np.datetime64("2020-01-01")),
    }[how]()


def _write(path: Path, recipe: dict[str, Any], arrays: dict[str, Any], source: random.Random) -> None:
    name, how = recipe["name"], recipe["how"]
    if how in _HOW:
        arrays[name] = _changed(arrays[name], how, source)
    elif how == "gone":
        del arrays[name]
    if path.suffix == ".npz":
        np.savez(path, **arrays)
        if how == "special":
            _special_npz(path, source)
    else:
        _write_h5(path, arrays, name if how in ("link", "special") else "", source)
    if how == "spoiled":
        path.write_bytes(spoil(path.read_bytes(), source))


def _special_npz(path: Path, source: random.Random) -> None:
    how = source.randrange(4)
    if how == 0:  # a header that promises more than there is
        content = path.read_bytes().replace(b"(24, ", b"(2400000000, ")
        path.write_bytes(content)
        return
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr({1: "x", 2: "x.npy", 3: "../evil.npy"}[how], b"\x93NUMPY\x09\x00")


def _write_h5(path: Path, arrays: dict[str, Any], odd: str, source: random.Random) -> None:
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            array = np.asarray(array)
            if name == odd:
                _odd_entry(file, name, source)
            elif array.dtype.kind == "U":
                file.create_dataset(name, array.shape, h5py.string_dtype(), data=array.astype(object))
            elif array.dtype.kind == "M":
                file.create_dataset(name, data=array.astype("i8").astype("V8"))
            elif array.dtype.kind == "O":
                file.create_dataset(name, data=np.full(array.shape, b"x", dtype="S4"))
            else:
                file.create_dataset(name, data=array)


def _odd_entry(file: h5py.File, name: str, source: random.Random) -> None:
    how = source.randrange(7)
    if how == 0:
        file[name] = h5py.ExternalLink("/etc/hostname", "/x")
    elif how == 1:
        file[name] = h5py.SoftLink("/nowhere")
    elif how == 2:
        file.create_dataset(name, data=h5py.Empty("f4"))
    elif how == 3:
        file.create_group(name)
    elif how == 4:
        file.create_dataset(name, (_N, 2, _T), "f4", external=[("/etc/passwd", 0, h5py.h5f.UNLIMITED)])
    elif how == 5:
        file.create_dataset(
            name, (10**7, 10**3, 10**3), "f4", chunks=(1, 10, 10)
        )  # no bytes on disk, 40 TB as an array
    else:
        file.create_dataset(name, data=np.zeros(3, dtype=[("a", "f4"), ("b", "i4")]))


def _table(recipe: dict[str, Any], arrays: dict[str, Any], source: random.Random) -> bytes:
    x, y = arrays["x"], arrays["y"]
    odd = source.choice(
        ["inf", "-inf", "nan", "1e300", "1e999", "", "x", "é", "?", "'", '"', "1,2", ":", "=cmd()", f"|touch {PAYLOAD}"]
    )
    if recipe["ending"] == ".csv":
        rows = [["sequence", "label", "u", "v"][: 2 + x.shape[1]]]
        rows += [[n, y[n], *x[n, :, t]] for n in range(len(x)) for t in range(4)]
        texts = [[str(value) for value in row] for row in rows]
        row = texts[source.choice([0, *range(1, len(texts))])]
        row[source.randrange(len(row))] = odd
        content = "\n".join(map(",".join, texts)).encode()
    else:
        lines = [":".join([*(",".join(map(str, channel)) for channel in x[n]), str(y[n])]) for n in range(len(x))]
        at = source.randrange(len(lines))
        words = lines[at].split(",")
        words[source.randrange(len(words))] = odd
        lines[at] = ",".join(words)
        head = "@problemName a\n@timeStamps false\n@univariate false\n@classLabel true 0 1\n@data\n"
        content = (head + "\n".join(lines)).encode()
    return spoil(content, source) if recipe["how"] in ("spoiled", "special") else content


KIND = Kind("own data", _draw, arrange)
