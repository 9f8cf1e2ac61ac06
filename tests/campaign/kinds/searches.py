"""Databases of searches that lack a table, hold other types, or are other files."""

from __future__ import annotations

import random
import shutil
import sqlite3
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tests.campaign.case import Expected, Kind, drawn
from tests.campaign.damage import spoil
from tests.campaign.material import tiny

_VALUES = ("NULL", "'x'", "-1", "1e300", "x'00ff'", "'{'", "'{}'", "'[]'", "999")
_strategy = st.fixed_dictionaries(
    {
        "how": st.sampled_from(["drop", "set", "set", "set", "delete", "spoiled", "journal", "folder", "option"]),
        "seed": st.integers(0, 10**6),
    }
)


def _draw(seed: int, count: int) -> list[tuple[Any, Expected]]:
    return [(recipe, "either") for recipe in drawn(_strategy, seed, count)]


def arrange(recipe: dict[str, Any], folder: Path, material: Path) -> list[str]:
    source, how = random.Random(recipe["seed"]), recipe["how"]
    place = folder / "study.db"
    shutil.copy(material / "search.db", place)
    words = ["search", *tiny(material), "--name=digits_search", "--trials=2", "--budget=0s"]
    if how == "journal":
        (folder / "journal.log").write_bytes(
            source.choice([b"\x00", b"{}\n", b"[]\n", b"x\n", b'{"op_code": 99}\n', b'{"op_code": 0}\n'])
        )
        return [*words, "--storage=journal.log"]
    if how == "option":
        return [*words, "--storage=sqlite:///study.db", source.choice(_OPTIONS)]
    if how == "folder":
        place.unlink()
        place.mkdir()
    elif how == "spoiled":
        place.write_bytes(spoil(place.read_bytes(), source))
    else:
        _change(place, how, source)
    return [*words, "--storage=sqlite:///study.db"]


_OPTIONS = (
    "--trials=0",
    "--trials=x",
    "--workers=1000000000",
    "--workers=0",
    "--low=nan",
    "--low=-1",
    "--high=inf",
    "--budget=x",
    "--budget=-1s",
    "--strategy=x",
    "--space=x",
    "--space=model.dropout=0:9",
    "--space=model.omega_0=1:nan",
    "--space=model.hidden_channels=1:1000000000",
    "--space=trainer.max_epochs=[]",
    "--storage=mysql://x",
    "--storage=sqlite:////nowhere/x.db",
    "--storage=x://",
    "--name=../x",
    "--ckpt_path=last",
)


def _change(place: Path, how: str, source: random.Random) -> None:
    with sqlite3.connect(place) as database:
        database.execute("PRAGMA foreign_keys=OFF")
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type='table' ORDER BY name")]
        table = source.choice(tables)
        if how == "drop":
            database.execute(f"DROP TABLE {table}")
        elif how == "delete":
            database.execute(f"DELETE FROM {table}")
        else:
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            try:
                database.execute(f"UPDATE {table} SET {source.choice(columns)} = {source.choice(_VALUES)}")
            except sqlite3.IntegrityError:
                database.execute(f"DELETE FROM {table}")


KIND = Kind("search databases", _draw, arrange)
