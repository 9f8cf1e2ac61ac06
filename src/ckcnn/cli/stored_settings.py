"""What of the ``config.yaml`` of a run is used by commands that only use the run, such as ``ckcnn test``.

A run folder may come from somebody else. So its file chooses among our own classes and gives them plain values; it adds
no callbacks, loggers, profilers or plugins, and names no place that is written to. What the user names on the command
line is the user's own word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ckcnn.presets import Layer, Layers, merge, value_of
from ckcnn.runs.folder import RunFolder

_TRAINER = (
    "accelerator",
    "strategy",
    "devices",
    "precision",
    "deterministic",
    "benchmark",
    "limit_val_batches",
    "limit_test_batches",
    "limit_predict_batches",
    "num_sanity_val_steps",
    "enable_progress_bar",
    "enable_model_summary",
    "inference_mode",
)
_OF_CLASSES = ("loss", "metrics", "net")  # options of the model whose texts name classes
_PLACES = ("cache", "root")  # of the data: what is prepared goes to the first that is given


@dataclass(frozen=True)
class StoredSettings:
    """All settings of a command, with those of a run reduced to what is used of them.

    Attributes:
        layers: the settings.
        names_cache: whether it is the file of the run that says where prepared data would be written.
    """

    layers: Layers
    names_cache: bool

    @classmethod
    def of(cls, layers: Layers) -> StoredSettings:
        """Reduce what comes from run folders.

        Raises:
            ValueError: if the file of a run names a class that is not ours and that the command line does not name.
        """
        own = [layer.content for layer in layers.layers if not _is_stored(layer)]
        named: dict[str, Any] = {}
        for content in own:
            named = merge(named, content)
        reduced = tuple(_reduced(layer, named) if _is_stored(layer) else layer for layer in layers.layers)
        places = [_places(content) for content in (named, *(layer.content for layer in reduced if _is_stored(layer)))]
        stored = next((place for place in _PLACES if any(place in given for given in places)), None)
        return cls(replace(layers, layers=reduced), stored is not None and stored not in places[0])


_MAY_BE_OWN = ("model", "data", "model.net", "model.loss", "model.metrics")


def names_own_class(layers: Layers) -> bool:
    """Return whether the user, not the file of a run, names a class that is not ours, so that it may be imported."""
    own = [layer.content for layer in layers.layers if not _is_stored(layer)]
    named = [value_of(content, key) for content in own for key in _MAY_BE_OWN]
    paths = [name.get("class_path") if isinstance(name, Mapping) else name for name in named]
    return any("." in str(path) and not str(path).startswith("ckcnn.") for path in paths if path is not None)


def _is_stored(layer: Layer) -> bool:
    if layer.path is None:
        return False
    run = RunFolder.of(layer.path)
    return run is not None and run.config == layer.path


def _places(content: Mapping[str, Any]) -> set[str]:
    given = _arguments(content.get("data"))
    return {place for place in _PLACES if given.get(place) is not None}


def _reduced(layer: Layer, named: Mapping[str, Any]) -> Layer:
    path, content = layer.path or Path(), layer.content
    kept: dict[str, Any] = {}
    for part in ("model", "data"):
        if part in content:
            kept[part] = _of_class(path, part, content[part], named.get(part))
    trainer = content.get("trainer")
    if isinstance(trainer, Mapping):
        kept["trainer"] = {key: trainer[key] for key in _TRAINER if key in trainer and _is_word(trainer[key])}
    if isinstance(content.get("seed_everything"), int):
        kept["seed_everything"] = content["seed_everything"]
    if isinstance(content.get("name"), str):
        kept["name"] = content["name"]
    if isinstance(content.get("paper"), Mapping):
        kept["paper"] = _plain(path, content["paper"])
    return Layer(kept, ("--config", json.dumps(kept)), path)


def _of_class(path: Path, part: str, stored: Any, named: Any) -> dict[str, Any]:
    name = stored.get("class_path") if isinstance(stored, Mapping) else stored
    if not isinstance(name, str):
        raise ValueError(f"{path} must say the class of the {part}, such as class_path: CKCNN, got {name!r}")
    own = re.fullmatch(r"(ckcnn\.)?\w+(\.\w+)*", name) and (name.startswith("ckcnn.") or "." not in name)
    if not own and (not isinstance(named, Mapping) or named.get("class_path") != name):
        raise ValueError(
            f"{path} names the {part} {name}, which is not part of ckcnn, so it is not imported; "
            f"if you trust it, name it yourself with --{part} {name}"
        )
    arguments, own_arguments = _arguments(stored), _arguments(named)
    if part == "model":
        for option in _OF_CLASSES:
            _check_named(path, arguments.get(option), own_arguments.get(option), f"model.{option}")
    return {"class_path": name, "init_args": _plain(path, arguments, own_arguments, part)}


def _check_named(path: Path, value: Any, named: Any, place: str) -> None:
    """A text where a class is expected is the name of one, as is one with a dot among the arguments of a class."""
    own = named.get("class_path") if isinstance(named, Mapping) and "class_path" in named else named
    if isinstance(value, str) and re.search(r"\.|^[A-Z]", value) and own != value:
        raise ValueError(_not_named(path, value, place))
    if isinstance(value, Mapping):
        for key, entry in value.items():
            inner = named.get(key) if isinstance(named, Mapping) else named if key == "class_path" else None
            _check_named(path, entry, inner, place if key in ("class_path", "init_args") else f"{place}.{key}")
    if isinstance(value, list | tuple):
        for entry in value:
            _check_named(path, entry, named, place)


def _not_named(path: Path, kind: str, place: str) -> str:
    return (
        f"{path} names the class {kind} among its values; it is not imported; "
        f"if you trust it, name it yourself with --{place} {kind}"
    )


def _arguments(stored: Any) -> dict[str, Any]:
    given = stored.get("init_args") if isinstance(stored, Mapping) else None
    return dict(given) if isinstance(given, Mapping) else {}


def _plain(path: Path, value: Any, named: Any = None, place: str = "") -> Any:
    """Values as they are; a class among them would be instantiated, so the command line must name it, too."""
    if isinstance(value, Mapping):
        own = named.get("class_path") if isinstance(named, Mapping) else named
        if "class_path" in value and own != value["class_path"]:
            raise ValueError(_not_named(path, value["class_path"], place))
        inner = named if isinstance(named, Mapping) else {}
        return {
            str(key): _plain(path, entry, inner.get(key), place if key == "init_args" else f"{place}.{key}")
            for key, entry in value.items()
        }
    if isinstance(value, list | tuple):
        return [_plain(path, entry, place=place) for entry in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _is_word(value: Any) -> bool:
    """Return whether a value is a number or a single word: a dot could be the path of a class."""
    return value is None or isinstance(value, bool | int | float) or bool(re.fullmatch(r"[\w-]*", str(value)))
