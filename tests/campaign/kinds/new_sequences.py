"""Sequences for ``ckcnn predict --input``: tables, series and sounds that are not what they should be."""

from __future__ import annotations

import io
import os
import random
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.campaign.case import Expected, Kind, drawn
from tests.campaign.damage import spoil

_STEPS = 64  # of the sequences that the model was trained on
_ODD = ("inf", "-inf", "nan", "1e39", "9" * 400, "x", "", "1j", "0x10", "é", "'", "2020-01-01")


def _rows(value: str = "0.5", at: int = 5) -> str:
    return "".join(f"a,{value if step == at else '1.0'}\n" for step in range(_STEPS))


def _sound(length: int = _STEPS, channels: int = 1, width: int = 2) -> bytes:
    made = io.BytesIO()
    with wave.open(made, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(16_000)
        file.writeframes(bytes(length * channels * width))
    return made.getvalue()


def _series(body: str, stamped: bool = False) -> bytes:
    return f"@problemName a\n@timeStamps {str(stamped).lower()}\n@univariate true\n@data\n{body}\n".encode()


def _arrays(**changed: Any) -> bytes:
    made = io.BytesIO()
    np.savez(made, **{"x": np.zeros((3, 1, _STEPS), dtype=np.float32), **changed})
    return made.getvalue()


def _stamps(source: random.Random) -> Any:
    grid = np.arange(3.0 * _STEPS).reshape(3, _STEPS)
    return source.choice(
        [
            np.where(grid == 70, source.choice([np.nan, np.inf, 1e300, -5.0]), grid),
            grid[:, ::-1],
            grid[:2],
            grid.astype(str),
            grid * 0,
            grid**2,
        ]
    )


# For each ending what is written, by its name; "fine" is answered, everything else is refused.
_MAKE: dict[str, dict[str, Callable[[random.Random], bytes]]] = {
    "csv": {
        "fine": lambda s: f"sequence,v\n{_rows()}".encode(s.choice(["utf-8", "utf-8-sig"])),
        "value": lambda s: f"sequence,v\n{_rows(s.choice(_ODD), s.randrange(_STEPS))}".encode(),
        "time": lambda s: f"sequence,time,v\na,0,1\na,{s.choice(['', 'inf', '-1', 'x', 'nan'])},1\n".encode(),
        "ragged": lambda s: f"sequence,v\na,1{',2' * s.randint(1, 5)}\n".encode(),
        "torn": lambda s: b"sequence,v\na,1\nb,1\na,2\n",
        "separator": lambda s: s.choice([b"sequence;v\na;1\n", b"sequence\tv\na\t1\n"]),
        "empty": lambda s: s.choice([b"", b"\n\n", b"sequence,v\n", b"\xef\xbb\xbf"]),
        "encoding": lambda s: "sequence,ä\na,1\n".encode(s.choice(["utf-16", "utf-32", "latin-1"])),
        "channels": lambda s: b"sequence,u,v\na,1,2\n",
        "quote": lambda s: b'sequence,v\n"a,1\n',
    },
    "ts": {
        "fine": lambda s: _series(",".join(["1.0"] * _STEPS)),
        "value": lambda s: _series(",".join(["1.0", s.choice([word for word in _ODD if word != "nan"]), "2.0"])),
        "pairs": lambda s: _series(s.choice(["(0,1),(1)", "(0,1", "()", "(1,1),(0,2)", "(x,1)", "(inf,1)"]), True),
        "channels": lambda s: _series(s.choice(["1,2:3,4", ":", "1,2:3"])),
        "header": lambda s: s.choice([b"", b"1,2,3\n", b"@data\n", b"@data\n\n\n", "@data\n1".encode("utf-16")]),
    },
    "wav": {
        "of another kind": lambda s: _sound(s.choice([_STEPS, 1, 1000])),  # the model is none of sound
        "cut": lambda s: _sound(1000)[: s.randrange(45, 2000)],
        "header": lambda s: s.choice([b"", b"RIFF", _sound()[: s.randrange(40)], s.randbytes(300)]),
        "channels": lambda s: _sound(channels=s.choice([2, 5])),
        "empty": lambda s: _sound(0),
    },
    "npz": {
        "fine": lambda s: _arrays(x=np.zeros((3, 1, _STEPS)).astype(s.choice(["f2", "f8", ">f4", "u1", "i8", "g"]))),
        "stamps": lambda s: _arrays(times=_stamps(s)),
        "lengths": lambda s: _arrays(
            lengths=np.array(s.choice([[0, 1, 2], [1, 2], [1, 2, 65], [1.5, 2, 3], ["a"] * 3]))
        ),
        "x": lambda s: _arrays(x=np.full(s.choice([(3, 1, 0), (3, _STEPS), (3, 2, 5), (0, 1, 5), (1, 1, 1, 5)]), 1.0)),
        "value": lambda s: _arrays(x=np.full((3, 1, _STEPS), s.choice([np.nan, np.inf, 1e39, -np.inf]))),
    },
}


def _timed(times: list[Any]) -> bytes:
    return "\n".join(["sequence,time,v", *(f"a,{time},{n % 3}" for n, time in enumerate(times))]).encode()


_GRID = [0.5 * step for step in range(16)]  # as in training
_DATES = [f"2026-01-01 00:00:{time:04.1f}" for time in _GRID]
# The same for the model that knows its sampling step.
_TIMED: dict[str, Callable[[random.Random], bytes]] = {
    "fine": lambda s: _timed(s.choice([_GRID, [time + 1e9 for time in _GRID], _DATES])),
    "rate": lambda s: _timed([s.choice([0.1, 2, 1e-9, 1e9, 3600]) * time for time in _GRID]),
    "step": lambda s: _timed([*_GRID[:7], *_GRID[8:]]),
    "order": lambda s: _timed(s.choice([_GRID[::-1], [0.0] * 16, [*_GRID[:8], *_GRID[:8]]])),
    "mixed": lambda s: _timed([*_GRID[:8], *_DATES[8:]]),
    "value": lambda s: _timed(
        [*_GRID[:8], s.choice(["nan", "inf", "", "x", "1e300", "2026-13-01", "12:00"]), *_GRID[9:]]
    ),
    "one": lambda s: _timed([s.choice(["x", "inf", "nan", "1e300"])]),
}
_KINDS = [(ending, how) for ending, kinds in _MAKE.items() for how in kinds]
_KINDS += [("timed csv", how) for how in _TIMED]
# Options that no sequence is answered with, and places that are no file.
_OPTIONS = (
    *(f"--dt={value}" for value in ("0", "-1", "nan", "inf", "1e300", "1e-300", "x")),
    *(f"--device={value}" for value in ("x", "cuda:77", "meta", "xla", "")),
    *(f"--output={value}" for value in ("a.txt", "no/a.csv", ".", "new.csv/a.csv")),
    *(f"--{part}_column={value}" for part in ("sequence", "time", "label") for value in ("nope", "")),
    "--ckpt_path=nowhere",
    "--config=nowhere.yaml",
    "--input=nowhere.csv",
    "--x=1",
)
_strategy = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(
            [*_KINDS, *_KINDS, ("csv", "option"), ("csv", "spoiled"), ("ts", "spoiled"), ("", "place")]
        ),
        "option": st.sampled_from(_OPTIONS),
        "seed": st.integers(0, 10**6),
    }
)


def _draw(seed: int, count: int) -> list[tuple[Any, Expected]]:
    expected: dict[str, Expected] = {"fine": "fine", "spoiled": "either"}
    return [(recipe, expected.get(recipe["kind"][1], "refused")) for recipe in drawn(_strategy, seed, count)]


def arrange(recipe: dict[str, Any], folder: Path, material: Path) -> list[str]:
    source, (ending, how) = random.Random(recipe["seed"]), recipe["kind"]
    words = ["predict", f"--ckpt_path={material / 'runs/digits/version_0'}", "--quiet"]
    if ending == "timed csv":
        (folder / "new.csv").write_bytes(_TIMED[how](source))
        return ["predict", f"--ckpt_path={material / 'runs/timed/version_0'}", "--quiet", "--input=new.csv"]
    if how == "place":
        return [*words, f"--input={_place(folder, source)}"]
    path = folder / f"new.{ending}"
    if how in ("option", "spoiled"):
        content = _MAKE[ending]["fine"](source)
        path.write_bytes(spoil(content, source) if how == "spoiled" else content)
        return [*words, f"--input={path.name}", *([recipe["option"]] if how == "option" else [])]
    path.write_bytes(_MAKE[ending][how](source))
    return [*words, f"--input={path.name}"]


def _place(folder: Path, source: random.Random) -> str:
    """What is there, but no file with sequences."""
    (folder / "some").mkdir()
    (folder / "some/again").symlink_to("..")
    (folder / "a.txt").touch()
    os.mkfifo(folder / "pipe.csv")
    (folder / "zero.csv").symlink_to("/dev/zero")
    (folder / "gone.csv").symlink_to("nowhere.csv")
    return source.choice(["some", "a.txt", "pipe.csv", "zero.csv", "gone.csv", "a" * 300 + ".csv", "\x00", ""])


KIND = Kind("new sequences", _draw, arrange)
