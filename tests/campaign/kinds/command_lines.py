"""Words after ``ckcnn`` that are no command, no option or no value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.campaign.case import Expected, Kind, drawn

_VALUES = (
    "",
    "x",
    "-1",
    "0",
    "1",
    "2.5",
    "nan",
    "inf",
    "1e300",
    "100000",
    "1000000000",
    "é",
    "/",
    ".",
    "[1]",
    "{}",
    "null",
    "\x00",
)
# The start of a command, and options of it that take a value; RUN, EXPORTED, TEXT and DATA are whole ones.
_COMMANDS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("data", "show", "Digits", "--root=DATA", "--output=x.png"): (
        "--samples",
        "--dt",
        "--drop-rate",
        "--set",
        "--output",
        "--cache",
    ),
    ("data", "prepare", "Digits", "--root=DATA"): ("--set", "--cache", "--x"),
    ("data", "prepare", "CopyMemory", "--root=DATA", "--cache=."): ("--set=length",),
    ("generate", "--ckpt_path=TEXT", "--prompt=ab", "--length=3"): (
        "--temperature",
        "--top_k",
        "--seed",
        "--prompt",
        "--ckpt_path",
    ),
    ("predict", "--ckpt_path=RUN", "--input=new.npz", "--quiet"): (
        "--dt",
        "--device",
        "--output",
        "--input",
        "--ckpt_path",
        "--config",
    ),
    ("export", "RUN", "--output=made"): ("--length", "--dt", "--output", "--x"),
    ("export", "EXPORTED", "--output=made"): ("--dt", "--output"),
    ("export", "TEXT", "--output=made.onnx"): ("--length", "--dt"),
    ("export", "RUN", "--output=made.pt2"): ("--length", "--dt"),
    ("report", "RUNS"): ("--output", "--title", "--x"),
    ("report",): ("",),
    ("test", "--ckpt_path=RUN", "--data.root=DATA"): (
        "--data.test_dt",
        "--data.train_dt",
        "--ckpt_path",
        "--data.drop_rate",
    ),
    ("predict", "--ckpt_path=RUN", "--data.root=DATA"): (
        "--output",
        "--data.batch_size",
        "--trainer.devices",
        "--model.loss",
        "--model.metrics",
        "--model.monitor",
        "--optimizer",
    ),
    ("validate", "--ckpt_path=RUN", "--data.root=DATA"): (
        "--model.metrics",
        "--model.loss",
        "--data.schedule_dt",
        "--data.augment",
        "--data.on_device",
        "--trainer.precision",
    ),
    ("fit", "--ckpt_path=RUN"): ("--model.loss", "--optimizer", "--lr_scheduler", "--data.schedule_dt", "--data.seed"),
    ("fit", "--config=digits.yaml", "--ckpt_path=EXPORTED"): ("--model.dropout",),
    ("predict", "--ckpt_path=EXPORTED", "--input=new.npz", "--quiet"): ("--dt", "--device", "--output", "--name"),
    ("predict", "--config=digits.yaml", "--input=new.npz"): ("--runs", "--name", "--ckpt_path"),
    ("search", "--config=digits.yaml", "--budget=0s"): (
        *("--trials", "--low", "--high", "--pruner", "--sampler", "--space", "--name", "--storage", "--workers"),
    ),
    ("fit-kernel", "--steps=1", "--points=8"): (
        *("--functions", "--nets", "--omega-0", "--points", "--seed", "--output", "--runs"),
    ),
    ("reproduce", "archive"): ("--problems", "--methods", "--x"),
    ("report", "RUNS", "--output=r.html"): ("--tables", "--title", "--compare"),
    ("presets",): ("--x", ""),
    ("reproduce", "--list"): ("--x", "--budget", "--seeds"),
    ("import", "no.pt", "--config=smnist.yaml"): ("--output", "--x"),
    ("fit-kernel",): ("--x",),
    ("fit",): ("--config", "--model", "--data", "--name", "--runs"),
    (): ("", "--x", "fitt", "--version"),
}
_strategy = st.fixed_dictionaries(
    {
        "command": st.sampled_from(list(_COMMANDS)),
        "option": st.integers(0, 20),
        "value": st.one_of(st.sampled_from(_VALUES), st.text(max_size=6)),
    }
)


def _draw(seed: int, count: int) -> list[tuple[Any, Expected]]:
    return [(recipe, "either") for recipe in drawn(_strategy, seed, count)]


def arrange(recipe: dict[str, Any], folder: Path, material: Path) -> list[str]:
    np.savez(folder / "new.npz", x=np.zeros((2, 1, 64), dtype=np.float32))
    places = {
        "EXPORTED": "exported",
        "RUNS": "runs",
        "RUN": "runs/digits/version_0",
        "TEXT": "text.ckpt",
        "DATA": "data",
    }
    words = []
    for word in recipe["command"]:
        for name, path in places.items():
            if word == name or word.endswith(f"={name}"):
                word = word.replace(name, str(material / path))
        words.append(word)
    options = _COMMANDS[recipe["command"]]
    option = options[recipe["option"] % len(options)]
    return [*words, f"{option}={recipe['value']}" if option else recipe["value"]]


KIND = Kind("command lines", _draw, arrange)
