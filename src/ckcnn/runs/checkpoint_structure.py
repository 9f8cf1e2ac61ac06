"""Checks of the structure of a checkpoint, made before anything uses it; a foreign file may hold anything."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

_MAPPINGS = (
    "hyper_parameters",
    "loops",
    "callbacks",
    "made_by",
    "network",
    "net",
    "training",
    "preprocessing",
    "loader_position",
)
_LISTS = ("optimizer_states", "lr_schedulers", "epoch_so_far")
_COUNTS = ("epoch", "global_step")


def check_structure(content: Mapping[str, Any], path: Path) -> None:
    """Check the kind of everything that is read by name.

    Raises:
        ValueError: that says what is missing, or of another kind.
    """
    name = content["model_class"]
    if not isinstance(name, str) or not name:
        raise ValueError(f"{path} is damaged: model_class must be the name of a class, got {_kind(name)}")
    _check_kinds(content, path)
    weights = content["state_dict"]
    if not isinstance(weights, Mapping) or not all(isinstance(one, Tensor) for one in weights.values()):
        raise ValueError(f"{path} is damaged: state_dict must hold tensors by name, got {_kind(weights)}")
    for key, state in (content.get("callbacks") or {}).items():
        if not isinstance(state, Mapping):
            raise ValueError(f"{path} is damaged: the state of the callback {key} must be values by name")


def settings_of(content: Mapping[str, Any], path: Path | None) -> dict[str, Any]:
    """Return the settings of the model in a checkpoint.

    Raises:
        ValueError: if it has none, or does not say what the data was.
    """
    settings = dict(content.get("hyper_parameters") or {})
    if missing := [name for name in ("in_channels", "out_channels", "task", "horizon") if name not in settings]:
        raise ValueError(
            f"{path} is damaged: hyper_parameters must hold the settings of the model, got no {missing[0]}"
        )
    return settings


def _check_kinds(content: Mapping[str, Any], path: Path) -> None:
    for key in _MAPPINGS:
        value = content.get(key)
        if (key in content and not isinstance(value, Mapping)) or any(not isinstance(one, str) for one in value or ()):
            raise ValueError(f"{path} is damaged: {key} must hold values by name, got {_kind(value)}")
    for key in _LISTS:
        if key in content and not isinstance(content[key], list):
            raise ValueError(f"{path} is damaged: {key} must be a list, got {_kind(content[key])}")
    for key in _COUNTS:
        value = content.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ValueError(f"{path} is damaged: {key} must be a whole number from 0, got {_kind(value)}")


def _kind(value: Any) -> str:
    """Return the type name of an unexpected value."""
    if isinstance(value, Mapping):
        return "other values by name"
    kinds = {bool: "a truth value", int: "a number", float: "a number", str: "a text", list: "a list"}
    return "nothing" if value is None else kinds.get(type(value), "something else")
