"""Presets and other sources of settings: where they are found, and how later ones win over earlier ones.

A preset also has ``variants``: the values of the paper for each row of its tables. Which row is meant follows from all
settings together, flags included; its values count as if they were written at the end of the preset.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

from ckcnn import configs
from ckcnn.checks.hints import in_short, nearest
from ckcnn.data_options import DEFAULTS
from ckcnn.files import safe_yaml

FOLDER = Path(next(iter(configs.__path__)))
# They change a preset and are none themselves.
OVERLAYS = ("ccnn", "ccnn_large", "cluster", "debug", "fast", "flexconv", "large", "separable", "smpconv")
BASE = FOLDER / "base.yaml"


def names() -> list[str]:
    """The presets that ship with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml") if path.stem not in ("base", *OVERLAYS))


def find(name: str) -> Path:
    """The file of a `--config` name: in the working folder, else among the presets of the package.

    Raises:
        ValueError: if there is none; the message names the nearest preset.
    """
    bare = Path(name).name == name
    for folder in (Path(), FOLDER) if bare else (Path(),):
        for candidate in (name, f"{name}.yaml"):
            if (folder / candidate).is_file():
                return folder / candidate
    known = [*names(), *OVERLAYS]
    hint = nearest(Path(name).stem, known, "presets")
    raise ValueError(f"there is no file {name}{', nor a preset of this name' if bare else ''}; {hint}")


def load(path: Path) -> dict[str, Any]:
    """The content of a configuration, as plain values.

    Raises:
        ValueError: if the file is not a YAML mapping.
    """
    return _with_present_names(_read(path))


def _read(path: Path) -> dict[str, Any]:
    """The content of a file as it is."""
    content = safe_yaml.read(path)
    if not isinstance(content, Mapping):
        raise ValueError(f"{path} must hold settings such as 'model: CKCNN', got {in_short(content)}")
    check_structure(content, str(path))
    return dict(content)


_PARTS = ("model", "data", "trainer", "early_stopping", "optimizer", "lr_scheduler")
_OF_CLASSES = ("model", "data", "optimizer", "lr_scheduler")


def check_structure(content: Mapping[str, Any], where: str) -> None:
    """Every part must hold settings by name, whatever their values are: those are checked by who uses them.

    Args:
        content: the settings, as a tree.
        where: they are from, for the message.

    Raises:
        ValueError: if one of the parts is something else.
    """
    _check_names(content, where)
    for part in _PARTS:
        value = content.get(part)
        if part in _OF_CLASSES and isinstance(value, str):
            continue
        _check_settings(value, part, where)
        if part in _OF_CLASSES and value:
            kind = value.get("class_path")
            if kind is not None and not (isinstance(kind, str) and kind.strip()):
                raise ValueError(f"{where}: {part}.class_path must be the name of a class, got {in_short(kind)}")
            _check_settings(value.get("init_args"), f"{part}.init_args", where)
    _check_paper(content.get("paper"), where)
    _check_rows(content.get("variants"), where)


def _check_paper(paper: Any, where: str) -> None:
    """What the paper reports is compared with numbers."""
    _check_settings(paper, "paper", where)
    for name, value in (paper or {}).items():
        if isinstance(value, bool) or not isinstance(value, int | float | None):
            raise ValueError(f"{where}: paper: {name} must be a number, got {in_short(value)}")


def _check_settings(value: Any, key: str, where: str) -> None:
    if value is not None and not isinstance(value, Mapping):
        raise ValueError(f"{where}: {key} must hold settings, such as '{key}: {{name: value}}', got {in_short(value)}")
    if value is not None:
        _check_names(value, f"{where}: {key}")


def _check_names(settings: Mapping[Any, Any], where: str) -> None:
    for name in settings:
        if not isinstance(name, str):
            raise ValueError(f"{where}: the name of a setting must be a text, got {name!r}; put it in quotes")


def _check_rows(rows: Any, where: str) -> None:
    """The rows of the paper's tables: when each counts, and what it sets."""
    if rows is None:
        return
    wanted = "variants must be a list of rows such as {when: {data.length: 100}, set: {model.omega_0: 30.0}}"
    if not isinstance(rows, list):
        raise ValueError(f"{where}: {wanted}, got {in_short(rows)}")
    for row in rows:
        if not isinstance(row, Mapping) or not isinstance(row.get("when"), Mapping) or not row["when"]:
            raise ValueError(f"{where}: {wanted}, got {in_short(row)} as one of them")
        for part in ("when", "set"):
            _check_settings(row.get(part), f"variants: {part}", where)
        _check_paper(row.get("paper"), f"{where}: variants")


def _with_present_names(content: Mapping[str, Any]) -> dict[str, Any]:
    """Without parts that are empty; and runs of earlier versions name data modules by the package that they were in."""
    content = {key: _without_nothing(value) for key, value in content.items() if key not in _PARTS or value is not None}
    data = content.get("data")
    if isinstance(data, Mapping) and str(data.get("class_path")).startswith("datamodules."):
        data = {**data, "class_path": f"ckcnn.{data['class_path']}"}
        return {**content, "data": data}
    return dict(content)


def _without_nothing(part: Any) -> Any:
    if isinstance(part, Mapping) and "init_args" in part and part["init_args"] is None:
        return {key: value for key, value in part.items() if key != "init_args"}
    return part


@dataclass(frozen=True)
class Layer:
    """One source of settings.

    Attributes:
        content: the settings, as a tree.
        words: how they are given to the argument parser.
        path: of the file that they come from, if any.
    """

    content: Mapping[str, Any]
    words: tuple[str, ...] = ()
    path: Path | None = None

    @classmethod
    def of_file(cls, name: str) -> Layer:
        """The settings of a preset, an overlay or any other YAML file."""
        path = find(name)
        written = _read(path)
        content = _with_present_names(written)
        return cls(content, ("--config", str(path) if content == written else json.dumps(content)), path)

    @classmethod
    def of_values(cls, values: Mapping[str, Any]) -> Layer:
        """Single settings by their names, such as ``{"model.omega_0": 30.0}``."""
        return cls(nested(values), tuple(f"--{key}={json.dumps(value)}" for key, value in values.items()))

    @classmethod
    def of_words(cls, words: Sequence[str]) -> Layer:
        """Flags of the command line, ``--key value`` or ``--key=value``."""
        values: dict[str, Any] = {}
        key = ""
        for word in words:
            if "\0" in word:
                raise ValueError(f"an argument must be a text, got {word!r} with a null character; leave it out")
            name, equals, text = word.partition("=")
            if name.startswith("--"):
                key = name.removeprefix("--").replace(".init_args", "")
                values[key] = plain_value(text) if equals else True
            elif key:
                values[key] = plain_value(word)
        content = nested(values)
        check_structure(content, "the command line")
        for part in _PARTS:
            if part in content and content[part] is None:
                raise ValueError(f"--{part} must hold settings, got null; leave it out")
        return cls(content, tuple(words))


@dataclass(frozen=True)
class Layers:
    """All sources of settings of one command; later ones win."""

    layers: tuple[Layer, ...]

    @classmethod
    def of_arguments(cls, arguments: Sequence[str]) -> Layers:
        """The files and flags of a command line, in their order."""
        layers: list[Layer] = []
        flags: list[str] = []
        waiting = list(arguments)
        while waiting:
            word = waiting.pop(0)
            flag, equals, name = word.partition("=")
            if flag not in ("--config", "-c"):
                flags.append(word)
                continue
            if not equals and not waiting:
                raise ValueError("--config needs the name of a preset or a file, such as --config digits.yaml")
            layers += [Layer.of_words(flags), Layer.of_file(name if equals else waiting.pop(0))]
            flags = []
        return cls((*layers, Layer.of_words(flags)))

    @classmethod
    def of(cls, names: Sequence[str], values: Mapping[str, Any]) -> Layers:
        """Presets and overlays by name, and single settings after them."""
        return cls((*map(Layer.of_file, names), Layer.of_values(values)))

    @property
    def files(self) -> list[Path]:
        """Where they come from, as far as they are files."""
        return [layer.path for layer in self.layers if layer.path is not None]

    def merged(self) -> dict[str, Any]:
        """What they say together, over what every run shares, without the defaults of classes."""
        return reduce(merge, (layer.content for layer in self.layers), load(BASE))

    def last(self, *keys: str) -> str | None:
        """Return the one of these settings that is given last, or in the same place first; None if none is."""
        for layer in reversed(self.with_row().layers):
            for key in keys:
                if value_of(layer.content, key) is not None:
                    return key
        return None

    def row(self) -> Mapping[str, Any] | None:
        """The row of the paper's tables that the settings fit: all values under its ``when`` are theirs."""
        config = self.merged()
        rows = config.get("variants") or []
        return next((row for row in rows if all(_fits(config, *pair) for pair in row["when"].items())), None)

    def with_own_net(self) -> Layers:
        """The same with the class that takes a network of the user's own, from where one is named instead of a CKCNN.

        What presets said about a CKCNN before is left out by the parser; what is said after that is refused.
        """
        config = self.merged()
        kind = value_of(config, "model.class_path")
        if value_of(config, "model.net") is None or kind not in ("CKCNN", "ckcnn.CKCNN"):
            return self
        place = next(i for i, layer in enumerate(self.layers) if value_of(layer.content, "model.net") is not None)
        named = Layer.of_words(["--model=ckcnn.OwnNet"])
        return replace(self, layers=(*self.layers[:place], named, *self.layers[place:]))

    def with_row(self) -> Layers:
        """The same with the values of the row just after the preset, so that what comes after the preset still wins."""
        row = self.row()
        if row is None:
            return self
        values = Layer.of_values({**(row.get("set") or {}), "paper": row.get("paper")})
        last = max(index for index, layer in enumerate(self.layers) if "variants" in layer.content)
        return replace(self, layers=(*self.layers[: last + 1], values, *self.layers[last + 1 :]))

    def missing_row(self) -> str:
        """The settings that a row of the paper's tables is chosen by, if there are rows but none fits; else nothing."""
        config = self.merged()
        rows = config.get("variants") or []
        if not rows or self.row() is not None:
            return ""
        keys = dict.fromkeys(key for row in rows for key in row["when"])
        return ", ".join(f"{key} {_value_or_default(config, key)}" for key in keys)

    def arguments(self) -> list[str]:
        """What the argument parser gets."""
        return [word for layer in self.layers for word in layer.words]


def settings(names: Sequence[str], values: Mapping[str, Any]) -> dict[str, Any]:
    """What presets and overlays say together, with these values in the place of flags.

    Example:
        >>> content = settings(["copy_memory.yaml"], {"data.length": 1000})
        >>> value_of(content, "model.omega_0"), value_of(content, "trainer.max_epochs")
        (68.69, 100)
    """
    return Layers.of(names, values).with_row().merged()


def merge(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """The second wins, key by key."""
    merged = dict(first)
    for key, value in second.items():
        before = merged.get(key)
        if isinstance(before, str) and isinstance(value, Mapping) and "class_path" not in value:
            value = value if "init_args" in value else {"init_args": value}
            before = {"class_path": before}  # a class, and then its arguments
        both = isinstance(value, Mapping) and isinstance(before, Mapping)
        merged[key] = merge(before, value) if both else value  # type: ignore[arg-type]
    return merged


def value_of(config: Any, key: str) -> Any:
    """The value of a setting such as ``data.length``, wherever the class keeps it."""
    for part in key.split("."):
        if not hasattr(config, "get"):  # a mapping, or the parser's own
            return None
        inner = config.get("init_args")
        config = config.get(part) if config.get(part) is not None or not hasattr(inner, "get") else inner.get(part)
    return config


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as a configuration: ``model.omega_0`` is an argument of the model's class, ``model`` is the class."""
    tree: dict[str, Any] = {}
    for key, value in values.items():
        part, *names = key.split(".")
        of_class = part in _OF_CLASSES
        if of_class and not names and not isinstance(value, Mapping):
            names = ["class_path"]
        elif of_class and names and names != ["class_path"]:
            names = ["init_args", *names]
        branch = value
        for name in reversed([part, *names]):
            branch = {name: branch}
        tree = merge(tree, branch)
    return tree


def plain_value(text: str) -> Any:
    """A value as YAML reads it, but for numbers such as 1e-3, which it takes for a text.

    Example:
        >>> plain_value("1e-3"), plain_value("256"), plain_value("auto")
        (0.001, 256, 'auto')
    """
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)e[+-]?\d+", text, re.IGNORECASE):
        return float(text)
    try:
        return safe_yaml.parse(text, "a value of the command line")
    except safe_yaml.NotYAMLError:
        return text


def _fits(config: Mapping[str, Any], key: str, wanted: Any) -> bool:
    return bool(_value_or_default(config, key) == wanted)


def _value_or_default(config: Mapping[str, Any], key: str) -> Any:
    value = value_of(config, key)
    return DEFAULTS.get(key.removeprefix("data.")) if value is None else value
