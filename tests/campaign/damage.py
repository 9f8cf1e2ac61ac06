"""How whole files and trees of values are damaged, from a seed."""

from __future__ import annotations

import copy
import math
import random
from typing import Any

import torch

ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    5,
    10**9,
    1e300,
    math.nan,
    math.inf,
    "",
    "x",
    "../..",
    [],
    {},
    [1, 2],
    [[]],
    {"a": 1},
    [None],
    {"a": {"b": []}},
)


def change(tree: Any, source: random.Random, top: bool = False) -> Any:
    """Return a copy of a tree in which one value is gone or replaced."""
    tree = copy.deepcopy(tree)
    places = [(parent, key) for parent, key in _places(tree) if not top or parent is tree]
    parent, key = source.choice(places)
    if source.random() < 0.3 and isinstance(parent, dict):
        del parent[key]
    else:
        parent[key] = copy.deepcopy(_other(parent[key], source))
    return tree


def _other(value: Any, source: random.Random) -> Any:
    if isinstance(value, torch.Tensor) and source.random() < 0.5:
        return source.choice(
            [torch.zeros(3, 2), torch.tensor(1.0), value.double(), torch.zeros(0), value.to(torch.int8)]
        )
    return source.choice(ODD)


def _places(tree: Any) -> list[tuple[Any, Any]]:
    keys = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else []
    return [(tree, key) for key in keys] + [place for key in keys for place in _places(tree[key])]


def spoil(content: bytes, source: random.Random) -> bytes:
    """Return bytes that are cut short, changed, repeated or other ones."""
    how = source.randrange(6)
    at = source.randrange(max(1, len(content)))
    if how == 0:
        return content[:at]
    if how == 1:
        return b""
    if how == 2:
        return content[:at] + bytes([source.randrange(256)]) + content[at + 1 :]
    if how == 3:
        return content[:at] + source.randbytes(20) + content[at:]
    if how == 4:
        return source.randbytes(200)
    return content + content[: at + 1]
