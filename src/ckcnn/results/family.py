"""Which network of the family a run trains: the paper's, or what an overlay such as ``ccnn.yaml`` makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from ckcnn import presets

_PAPER = {"block": "paper", "conv": "dense", "kernel": "sine", "window": "none"}  # what distinguishes the networks


def network_name(model: str, options: Mapping[str, Any]) -> str:
    """Return the model with the overlay that its options follow; without one, with the options that differ.

    Args:
        model: its class.
        options: its settings.

    Example:
        >>> network_name("GRU", {}), network_name("CKCNN", {"kernel": "relu"})
        ('GRU', 'CKCNN, relu')
        >>> network_name("CKCNN", {"block": "paper", "kernel": "magnet", "window": "layer"})
        'CKCNN, flexconv'
    """
    design = _design(options)
    known = _overlays().get(design)
    differing = [value for value, default in zip(design, _PAPER.values(), strict=True) if value != default]
    return ", ".join([model, *([known] if known else differing)])


@cache
def _overlays() -> dict[tuple[str, ...], str]:
    """Overlays that choose the blocks of a network, by what they choose."""
    found = {}
    for name in presets.OVERLAYS:
        options = presets.load(presets.FOLDER / f"{name}.yaml").get("model", {}).get("init_args", {})
        if "block" in options:
            found[_design(options)] = name
    return found


def _design(options: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(options.get(key) or default) for key, default in _PAPER.items())
