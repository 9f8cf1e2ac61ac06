"""Series, labels and options for the estimators of sktime, which are used from Python instead of the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from tests.campaign.case import Expected, Kind, drawn

_SERIES, _CHANNELS, _STEPS = 12, 2, 10
_TINY = {"n_steps": 2, "hidden_channels": 4, "num_blocks": 1, "kernel_hidden": 4, "accelerator": "cpu"}
_FINE_X = ("fine", "some missing", "a channel missing", "lists", "whole numbers", "constant")
_BAD_X = ("infinite", "huge", "one step", "channels", "empty series")
_BAD_Y = ("a label missing", "NaN", "too few")
_BAD_OPTIONS = [
    *({name: value} for name in ("n_steps", "batch_size", "n_networks", "patience") for value in (0, -1, 1.5, "x")),
    *({"n_epochs": value} for value in (0, -1, 2.5)),
    *({"memory": value} for value in (0, 1, -5, "x")),
    *({"validation_fraction": value} for value in (1, -0.1, float("nan"), "x", 0.99)),
    *({"learning_rate": value} for value in (0, -1, float("nan"), "x", None)),
    *({name: "x"} for name in ("schedule", "block", "conv", "kernel", "window", "norm", "readout", "standardise")),
    *({name: "x"} for name in ("missing", "accelerator", "omega_0", "dropout", "causal", "differences")),
    *({"omega_0": value} for value in (0, -1, float("inf"))),
    *({"dropout": value} for value in (1, -0.1, float("nan"))),
    *({name: value} for name in ("hidden_channels", "num_blocks", "kernel_hidden") for value in (0, -1, 10**9, None)),
    *({"random_state": value} for value in (-1, "x", 0.5)),
]
_strategy = st.fixed_dictionaries(
    {
        "estimator": st.sampled_from(["CKCNNClassifier", "CKCNNRegressor"]),
        "what": st.sampled_from(["x", "x", "y", "options", "options", "new x"]),
        "x": st.sampled_from([*_FINE_X, *_BAD_X]),
        "y": st.sampled_from(["fine", *_BAD_Y]),
        "option": st.integers(0, len(_BAD_OPTIONS) - 1),
        "seed": st.integers(0, 10**6),
    }
)


def _draw(seed: int, count: int) -> list[tuple[Any, Expected]]:
    def expected(recipe: dict[str, Any]) -> Expected:
        if recipe["what"] in ("x", "new x"):
            return "fine" if recipe["x"] in _FINE_X else "refused"
        return "refused" if recipe["what"] == "options" or recipe["y"] != "fine" else "fine"

    return [(recipe, expected(recipe)) for recipe in drawn(_strategy, seed, count)]


def arrange(recipe: dict[str, Any], folder: Path, material: Path) -> list[str]:
    return [json.dumps(recipe)]


def _x(how: str, source: np.random.Generator) -> Any:
    x = source.normal(size=(_SERIES, _CHANNELS, _STEPS))
    at = tuple(source.integers(x.shape))
    if how in ("infinite", "huge"):
        x[at] = {"infinite": np.inf, "huge": 1e300}[how]
    elif how == "some missing":
        x[source.random(x.shape) < 0.3] = np.nan
    elif how == "a channel missing":
        x[at[0], at[1]] = np.nan
    elif how == "whole numbers":
        return (10 * x).astype(int)
    elif how == "constant":
        x[:, 0] = 5.0
    elif how == "one step":
        return x[:, :, :1]
    elif how == "channels":
        return x[:, :0]
    if how in ("lists", "empty series"):
        frames = [pd.DataFrame(row[:, : source.integers(2, _STEPS + 1)].T) for row in x]
        if how == "empty series":
            frames[at[0]] = frames[at[0]].iloc[:0]
        return frames
    return x


def _y(how: str, estimator: str) -> Any:
    y: Any = np.arange(_SERIES) % 2 if estimator == "CKCNNRegressor" else np.array(["a", "b"] * (_SERIES // 2))
    if how == "too few":
        return y[:-1]
    if how == "a label missing":
        y = y.astype(object)
        y[3] = None
    if how == "NaN":
        y = y.astype(object)
        y[3] = float("nan")
    return y


def run(argv: list[str]) -> int:
    """Train an estimator and let it predict; a mistake is reported as the command line does it."""
    from ckcnn import sktime

    recipe = json.loads(argv[0])
    what, source = recipe["what"], np.random.default_rng(recipe["seed"])
    options = _BAD_OPTIONS[recipe["option"]] if what == "options" else {}
    try:
        x = _x(recipe["x"] if what == "x" else "fine", source)
        y = _y(recipe["y"] if what == "y" else "fine", recipe["estimator"])
        made = getattr(sktime, recipe["estimator"])(**{**_TINY, "random_state": 0, **options})
        made.fit(x, y).predict(_x(recipe["x"] if what == "new x" else "fine", source))
    except (ValueError, TypeError) as error:
        print("ckcnn: error:", " ".join(str(error).split()), file=sys.stderr)
        return 2
    return 0


KIND = Kind("estimators", _draw, arrange, run)
