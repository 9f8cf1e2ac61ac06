"""Presets: where the name of one is looked up, and the values that it has for each row of the paper's tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from lightning_utilities.core.rank_zero import rank_zero_info

from ckcnn import configs as lightning_configs
from ckcnn.hints import nearest
from ckcnn.runs.folder import RunFolder

FOLDER = Path(next(iter(lightning_configs.__path__)))
OVERLAYS = ("cluster", "debug", "fast", "large")  # they change a preset and are none themselves
BASE = FOLDER / "base.yaml"
PLACES = ("root", "cache", "num_workers")  # settings of the data that do not change it
DEFAULTS = {"data.train_dt": 1, "data.drop_rate": 0.0}  # that presets do not write down


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
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, Mapping):
        raise ValueError(f"{path} must hold settings such as 'model: ...', got {type(content).__name__}")
    return dict(content)


def row_of(config: Any) -> Mapping[str, Any] | None:
    """The row of a preset that fits the settings: all values under its ``when`` are the ones in `config`."""
    rows = config.get("variants") or []
    if row := fitting_row(config):
        return row
    if rows:
        keys = dict.fromkeys(key for row in rows for key in row["when"])
        now = ", ".join(f"{key} {value_of(config, key)}" for key in keys)
        rank_zero_info(f"the paper has no values for {now}; those of the preset are used as they are")
    return None


def fitting_row(config: Any) -> Mapping[str, Any] | None:
    """The same without a word, if no row fits."""

    def fits(key: str, wanted: Any) -> bool:
        value = value_of(config, key)
        return bool((DEFAULTS.get(key) if value is None else value) == wanted)

    return next((row for row in config.get("variants") or [] if all(fits(*pair) for pair in row["when"].items())), None)


def value_of(config: Any, key: str) -> Any:
    """The value of a setting such as ``data.length``, wherever the class keeps it."""
    for part in key.split("."):
        if config is None:
            return None
        inner = config.get("init_args")
        config = config.get(part) if config.get(part) is not None or inner is None else inner.get(part)
    return config


def expand(args: Sequence[str], row: Mapping[str, Any] | None = None) -> list[str]:
    """Puts the file of each preset in the place of its name, and behind the one with the rows the values of its row.

    So what stands behind, another file or a flag, still wins. Without any file, that of the run to go on with is taken.
    """
    if not any(word in ("--config", "-c") or word.startswith(("--config=", "-c=")) for word in args):
        args = [*_config_of_run(args), *args]
    expanded, after = [], 0
    for index, word in enumerate(args):
        if word.startswith(("--config=", "-c=")):
            path = find(word.partition("=")[2])
            word = f"--config={path}"
        elif index and args[index - 1] in ("--config", "-c"):
            path = find(word)
            word = str(path)
        else:
            path = None
        if path and "variants" in load(path):
            after = index + 1
        expanded.append(word)
    values = {} if row is None else {**row.get("set", {}), "paper": row.get("paper")}
    return [*expanded[:after], *(f"--{key}={json.dumps(value)}" for key, value in values.items()), *expanded[after:]]


def _config_of_run(args: Sequence[str]) -> list[str]:
    """The configuration in the run folder that ``--ckpt_path`` names."""
    words = [part for word in args for part in (word.split("=", 1) if word.startswith("--ckpt_path=") else [word])]
    for flag, value in pairwise(words):
        if flag == "--ckpt_path" and (run := RunFolder.of(Path(value))):
            return ["--config", str(run.config)]
    return []


def settings(names: Sequence[str], values: Mapping[str, Any]) -> dict[str, Any]:
    """What presets and overlays say together, with these values in the place of flags, without defaults of classes.

    Example:
        >>> content = settings(["copy_memory.yaml"], {"data.length": 1000})
        >>> value_of(content, "model.omega_0"), value_of(content, "trainer.max_epochs")
        (68.69, 100)
    """
    files = [load(BASE), *(load(find(name)) for name in names)]
    flags = nested(values)
    found = _merged([*files, flags])
    row = fitting_row(found)
    return _merged([*files[:2], nested(row.get("set", {})), *files[2:], flags]) if row else found


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as a configuration: ``model.omega_0`` is an argument of the model's class, ``model`` is the class."""
    tree: dict[str, Any] = {}
    for key, value in values.items():
        part, *names = key.split(".")
        inner = ["init_args", *names] if part in ("model", "data") and names else names
        path = [part, *(inner or (["class_path"] if part in ("model", "data") else []))]
        place = tree
        for name in path[:-1]:
            place = place.setdefault(name, {})
        place[path[-1]] = value
    return tree


def _merged(contents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Later ones win, key by key."""
    merged: dict[str, Any] = {}
    for content in contents:
        for key, value in content.items():
            both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
            merged[key] = _merged([merged[key], value]) if both else value
    return merged
