"""Turns what the argument parser says into one sentence with the nearest valid choice."""

from __future__ import annotations

import importlib
import inspect
import re

import ckcnn
from ckcnn import datamodules
from ckcnn.compat import jsonargparse as errors
from ckcnn.datamodules.sequences import Facts
from ckcnn.hints import nearest

TOP = ("config", "model", "data", "trainer", "ckpt_path", "name", "runs", "output", "seed_everything")
_ALONE = (*TOP, "paper", "variants", "monitor", "early_stopping", "input")
_FACTS = set(Facts._fields) - {"horizon"}  # the data gives them, and this one by default
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "dict": "settings by name, such as {name: value}",
    "list": "a list",
    "Iterable": "a list",
}


def explain(error: Exception, command: str) -> str:
    """One sentence for an error of the parser, or of a class that it was to make."""
    text = str(error)
    for pattern, answer in _ANSWERS:
        if match := re.search(pattern, text, re.DOTALL):
            return answer(match, text)
    if reasons := re.findall(errors.REASON, text, re.MULTILINE):
        return reasons[0]  # what our own classes say
    lines = [line.strip(" -") for line in text.splitlines() if line.strip(" -")]
    return f"{' '.join(lines[:3])}; see ckcnn {command} --help"


def _unknown_option(match: re.Match[str], text: str) -> str:
    path, option = match.groups()
    part = _part(text)
    flag, name = f"--{part}.{option}", path.rpartition(".")[2]
    if option in _FACTS and part == "model":
        return f"{flag} is a fact of the data and cannot be set; change the settings of the data"
    return f"{name} has no option {flag}; {nearest(flag, _options(path, part))}"


def _unknown_flag(match: re.Match[str], text: str) -> str:
    word = match.group(1)
    if not word.startswith("-") and re.search(errors.UNKNOWN_ARGUMENT, text):
        return f"{word} stands alone; a preset is given with --config {word}"
    flag = "--" + word.split("=")[0].removeprefix("--")
    trainer = _options("pytorch_lightning.Trainer", "trainer")
    top = [f"--{name}" for name in TOP]
    if flag.startswith("--trainer."):
        return f"there is no option {flag}; {nearest(flag, trainer)}"
    return f"there is no option {flag}; {nearest(flag.split('.')[0], top)}"


def _bad_value(match: re.Match[str], text: str) -> str:
    """The innermost key is the one that was wrong; what stands behind it says what it should be."""
    key = re.findall(errors.KEY, text)[-1]
    rest = text.rpartition(f'"{key}":')[2]
    literals = re.findall(errors.LITERAL, rest)
    choices = [choice for literal in literals for choice in literal.split(", ")]
    classes = dict.fromkeys(re.findall(errors.TYPE, rest))
    kinds = [_WORDS[name] for name in classes if name in _WORDS]
    if named := re.search(errors.NO_SUBCLASS, rest):
        kinds.insert(0, f"the name of a {named.group(1)}, with its init_args if it has any")
    value = re.search(errors.VALUE, rest, re.DOTALL)
    flag = f"--{key}" if "." in key or key in _ALONE else f"--{_part(text)}.{key}"
    wanted = " or ".join(dict.fromkeys([*choices, *kinds])) or "of another kind"
    return f"{flag} must be {wanted}, got {_said(value.group(1)) if value else 'something else'}"


def _said(value: str) -> str:
    """What was given, as one would write it; the parser shows some values as objects of its own."""
    value = re.sub(r"NestedArg\(key='\w+', val=(.*?)\)$", r"\1", value.splitlines()[0].strip()) if value.strip() else ""
    if not value or value.startswith("Namespace("):
        return "something else" if value else "an empty text"
    return value if len(value) <= 60 else f"{value[:57]}..."


def _no_class(match: re.Match[str], text: str) -> str:
    part, name = _part(text), match.group(1)
    if part == "trainer":
        flag = re.findall(errors.KEY, text)[-1]
        return f"--{flag} must name a class of Lightning or of your own, such as package.Class, got {_said(name)}"
    known = list(ckcnn.MODELS) if part == "model" else [n for n in datamodules.__all__ if n[0].isupper()]
    return f"there is no {part} {_said(name)}; {nearest(name, known)}"


def _missing(match: re.Match[str], text: str) -> str:
    return f"no {match.group(1)} was given; name a preset such as --config digits.yaml (ckcnn presets lists them)"


def _part(text: str) -> str:
    parts = [key.split(".")[0] for key in re.findall(errors.KEY, text)] + re.findall(r"--(\w+)", text)
    return next((part for part in parts if part in ("model", "data", "trainer")), "model")


def _options(path: str, part: str) -> list[str]:
    module, _, name = path.rpartition(".")
    kind = getattr(importlib.import_module(module), name)
    parameters = [inspect.signature(cls.__init__).parameters for cls in kind.__mro__ if "__init__" in vars(cls)]
    entries = {name: entry for signature in parameters for name, entry in signature.items()}
    names = {name for name, entry in entries.items() if entry.kind in (entry.POSITIONAL_OR_KEYWORD, entry.KEYWORD_ONLY)}
    return sorted(f"--{part}.{name}" for name in names - {"self"} - _FACTS)


_ANSWERS = (
    (errors.UNKNOWN_INIT_ARG, _unknown_option),
    (errors.UNKNOWN_ARGUMENT, _unknown_flag),
    (errors.UNKNOWN_KEY, _unknown_flag),
    (errors.NO_CLASS, _no_class),
    (errors.BAD_VALUE, _bad_value),
    (errors.MISSING, _missing),
)
