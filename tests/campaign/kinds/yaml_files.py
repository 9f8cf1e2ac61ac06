"""Configuration files: bombs, loops, depth, size, other kinds of values, other encodings, payloads."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from tests.campaign.case import Expected, Kind, drawn
from tests.campaign.damage import change, spoil
from tests.campaign.judge import PAYLOAD
from tests.campaign.material import tiny

_GOOD = {
    "seed_everything": 1,
    "model": {"class_path": "CKCNN", "init_args": {"omega_0": 20.0, "dropout": 0.1}},
    "data": {"class_path": "Digits", "init_args": {"batch_size": 32}},
    "trainer": {"max_epochs": 1, "gradient_clip_val": 1.0, "limit_train_batches": 2},
    "early_stopping": {"patience": 3},
    "paper": {"size": 1, "test/accuracy": 0.9},
    "variants": [{"when": {"data.batch_size": 32}, "set": {"model.dropout": 0.2}, "paper": {"size": 2}}],
}


def _bomb(width: int, levels: int) -> str:
    lines = ["a0: &a0 [" + ", ".join(["x"] * width) + "]"]
    lines += [f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * width) + "]" for n in range(1, levels)]
    return "\n".join(lines)


_TEXTS = {
    "bomb": lambda n: _bomb(3 + n % 7, 12),
    "bomb in the model": lambda n: f"{_bomb(9, 9)}\nmodel: {{init_args: *a8}}",
    "merge bomb": lambda n: (
        "a: &a {b: 1}\n" + "\n".join(f"c{k}: &c{k} {{<<: [{', '.join(['*a'] * 9)}]}}" for k in range(9000))
    ),
    "loop": lambda n: ["a: &a [*a]", "model: &m {init_args: *m}", "&a [*a]", "a: &a {b: {c: *a}}"][n % 4],
    "deep": lambda n: ["x: " + "[" * 3000, "x: " + "[" * 900 + "]" * 900, "x: " + "{a: " * 800, "- " * 2000][n % 4],
    "long": lambda n: "x: [" + "1, " * (400_000 + n % 1000) + "1]",
    "many keys": lambda n: "\n".join(f"k{k}: 1" for k in range(60_000)),
    "long key": lambda n: "k" * 5000 + ": 1",
    "tag": lambda n: [
        f"model: !!python/object/apply:os.system ['touch {PAYLOAD}']",
        f"!!python/object/new:subprocess.run [['touch', '{PAYLOAD}']]",
        "model: !!binary x",
        "a: !!python/name:os.system",
        "a: !!timestamp 2020-99-99",
        "trainer: !!set {a, b}",
        "trainer: !!omap [a: 1]",
    ][n % 7],
    "kind": lambda n: [
        "",
        "~",
        "5",
        "x",
        "[]",
        "- 1",
        "[model]",
        "'model: 1'",
        "1: 2",
        "? [a]\n: b",
        "null: 1",
        "true: 1",
    ][n % 12],
    "two": lambda n: ["model: CKCNN\nmodel: GRU", "a: 1\n---\nb: 2", "data: {init_args: {seed: 1, seed: 2}}"][n % 3],
    "bytes": lambda n: ["\x00", "a: \x07", "\t- a", "a: 'b", "a: [1", "{", "@a: 1", "a: *b", "%YAML 9.9\n---\na: 1"][
        n % 9
    ],
}
_REFUSED = set(_TEXTS)

_strategy = st.fixed_dictionaries(
    {
        "how": st.sampled_from([*_TEXTS, "changed", "changed", "changed", "changed", "spoiled", "encoded", "text"]),
        "seed": st.integers(0, 10**6),
        "nested": st.sampled_from([False, False, False, True]),
        "text": st.text(max_size=30),
    }
)


def _draw(seed: int, count: int) -> list[tuple[Any, Expected]]:
    return [(recipe, "refused" if recipe["how"] in _REFUSED else "either") for recipe in drawn(_strategy, seed, count)]


def arrange(recipe: dict[str, Any], folder: Path, material: Path) -> list[str]:
    source, how = random.Random(recipe["seed"]), recipe["how"]
    good = yaml.safe_dump(_GOOD)
    if how in _TEXTS:
        content = _TEXTS[how](recipe["seed"]).encode()
    elif how == "changed":
        content = yaml.safe_dump(change(_GOOD, source)).encode()
    elif how == "spoiled":
        content = spoil(good.encode(), source)
    elif how == "text":
        content = recipe["text"].encode("utf-8", errors="replace")
    else:
        content = good.encode(source.choice(["utf-16", "utf-32", "utf-8-sig", "cp037"]))
    (folder / "mine.yaml").write_bytes(content)
    if recipe["nested"] and how in _REFUSED:  # a file that a flag names
        return ["fit", *tiny(material), "--trainer=mine.yaml"]
    return ["fit", *tiny(material), "--config=mine.yaml", *tiny(material)[1:]]


KIND = Kind("configuration files", _draw, arrange)
