"""Long series for forecasting: tables and arrays with faults, and windows that do not fit them."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from hypothesis import strategies as st

from tests.campaign.case import Expected, Kind, drawn
from tests.campaign.damage import spoil
from tests.campaign.material import TINY_MODEL, TINY_TRAINER

_STEPS = 120
_ODD = ("inf", "-inf", "nan", "", "x", "1e300", "1e39", "9" * 400, "1j", "é", "?", "None")


def _table(change: Callable[[list[list[str]]], object] = lambda rows: None) -> bytes:
    rows = [["time", "u", "v"], *([str(step), str(step % 12), "0.5"] for step in range(_STEPS))]
    change(rows)
    return "\n".join(map(",".join, rows)).encode()


def _put(row: int, column: int, value: str) -> Callable[[list[list[str]]], object]:
    return lambda rows: rows[row].__setitem__(column, value)


def _stamps(source: random.Random) -> Callable[[list[list[str]]], object]:
    """Times that go backwards, stand still, leave steps out or are none."""
    at = source.randrange(2, _STEPS)
    value = source.choice([str(at - 3), str(at - 2), "1e30", "-5", "nan", "", "x", "2020-13-01", "2020-01-01"])
    return source.choice([_put(at, 0, value), lambda rows: rows.pop(at), lambda rows: rows.reverse()])


def _arrays(x: Any) -> bytes:
    made = io.BytesIO()
    np.savez(made, x=x)
    return made.getvalue()


def _hdf5(x: Any) -> bytes:
    made = io.BytesIO()
    x = np.asarray(x)
    with h5py.File(made, "w") as file:
        file.create_dataset("x", data=x.astype("S4") if x.dtype.kind == "U" else x)
    return made.getvalue()


def _odd_arrays(source: random.Random) -> Any:
    x = np.zeros((2, 2, _STEPS))
    x[1, 0, source.randrange(_STEPS)] = source.choice([np.nan, np.inf, -np.inf, 1e300])
    return source.choice([x, x[:, :, :0], x[:0], x[0], x + 1j, x.astype(str), x.astype(bool)[:, :, :3], np.float64(1)])


_MAKE: dict[tuple[str, str], Callable[[random.Random], bytes]] = {
    ("csv", "fine"): lambda s: _table(),
    ("csv", "value"): lambda s: _table(_put(s.randrange(1, _STEPS), 1 + s.randrange(2), s.choice(_ODD))),
    ("csv", "time"): lambda s: _table(_stamps(s)),
    ("csv", "short"): lambda s: _table(lambda rows: rows.__delitem__(slice(s.randrange(1, 9), None))),
    ("csv", "names"): lambda s: _table(_put(0, s.randrange(3), s.choice(["u", "", "sequence", "label"]))),
    ("csv", "empty"): lambda s: s.choice([b"", b"u,v\n", b"\n", b"\x00"]),
    ("csv", "option"): lambda s: _table(),
    ("csv", "good option"): lambda s: _table(),
    ("csv", "spoiled"): lambda s: spoil(_table(), s),
    ("npz", "fine"): lambda s: _arrays(np.random.default_rng(s.randrange(99)).normal(size=(2, 2, _STEPS))),
    ("npz", "value"): lambda s: _arrays(_odd_arrays(s)),
    ("npz", "spoiled"): lambda s: spoil(_arrays(np.zeros((1, 2, _STEPS))), s),
    ("h5", "fine"): lambda s: _hdf5(np.random.default_rng(s.randrange(99)).normal(size=(2, 2, _STEPS))),
    ("h5", "value"): lambda s: _hdf5(_odd_arrays(s) if s.random() < 0.9 else 5.0),
    ("h5", "spoiled"): lambda s: spoil(_hdf5(np.zeros((1, 2, _STEPS))), s),
}
_GOOD = ("period=4", "parts=[0.5,0.25,0.25]", "standardise=none", "on_device=true", "batch_size=3", "ahead=4")
_BAD = (
    *(f"window={value}" for value in ("0", "1", "-3", "2.5", "119", "1000000000", "x", "[]", "null")),
    *(f"ahead={value}" for value in ("0", "-1", "1.5", "113", "1000000000", "nan")),
    *(f"period={value}" for value in ("9", "-1", "0.5", "inf")),
    *(
        f"parts={value}"
        for value in (
            "[1,0,0]",
            "[0.5,0.5]",
            "[]",
            "0.5",
            "[0.5,0.5,nan]",
            "[2,-0.5,-0.5]",
            "[a,b,c]",
            "[0.998,0.001,0.001]",
        )
    ),
    *("drop_rate=0.3", "train_dt=2", "test_dt=2", "schedule_dt=2:1,1:1", "standardise=step", "missing=times"),
    *("pad=valid", "augment=crop", "task=regression", "path=nowhere.csv", "path=.", "path=", "series=lynx"),
)
_strategy = st.fixed_dictionaries(
    {"kind": st.sampled_from([*_MAKE, ("csv", "option"), ("csv", "value")]), "seed": st.integers(0, 10**6)}
)


def _draw(seed: int, count: int) -> list[tuple[Any, Expected]]:
    expected: dict[str, Expected] = {"fine": "fine", "good option": "fine", "option": "refused", "empty": "refused"}

    def of(recipe: dict[str, Any]) -> Expected:
        ending, how = recipe["kind"]
        return "refused" if (ending, how) == ("csv", "value") else expected.get(how, "either")

    return [(recipe, of(recipe)) for recipe in drawn(_strategy, seed, count)]


def arrange(recipe: dict[str, Any], folder: Path, material: Path) -> list[str]:
    source, (ending, how) = random.Random(recipe["seed"]), recipe["kind"]
    (folder / f"mine.{ending}").write_bytes(_MAKE[ending, how](source))
    words = ["--model=CKCNN", *TINY_MODEL, "--data=Series", f"--data.path=mine.{ending}", "--data.window=8"]
    words += ["--data.ahead=2", *TINY_TRAINER]
    if how in ("option", "good option"):
        words.append(f"--data.{source.choice(_BAD if how == 'option' else _GOOD)}")
    return ["fit", *words]


KIND = Kind("forecasts", _draw, arrange)
