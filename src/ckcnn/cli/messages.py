"""Turns what the argument parser says into one sentence with the nearest valid choice."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable

import torch

import ckcnn
from ckcnn import datamodules
from ckcnn.checks.hints import closest, nearest
from ckcnn.compat import jsonargparse as errors
from ckcnn.datamodules.sequences import Facts

TOP = (
    "config",
    "model",
    "data",
    "trainer",
    "optimizer",
    "lr_scheduler",
    "ckpt_path",
    "name",
    "runs",
    "output",
    "seed_everything",
)
_ALONE = (*TOP, "paper", "variants", "monitor", "early_stopping", "input")
_FACTS = set(Facts._fields) - {"horizon"}  # the data gives them, and this one by default
_NO_DATA = ("DataError", "RawSequences", "SequenceBatch", "SequenceDataModule")
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
    if keys := re.findall(errors.KEY, text):
        return f"--{keys[-1]} has an invalid value; see ckcnn {command} --help"
    lines = [line.strip(" -") for line in text.splitlines() if line.strip(" -")]
    return f"{' '.join(lines[:3])}; see ckcnn {command} --help"


def _unknown_option(match: re.Match[str], text: str) -> str:
    path, option = match.groups()
    part = _flag(text[: match.start()])
    flag, name = f"{part}.{option}", path.rpartition(".")[2]
    if flag.startswith("--model.") and flag.removeprefix("--model.") in _FACTS:
        return f"{flag} is a fact of the data and cannot be set; change the settings of the data"
    if name == "OwnNet" and flag in _options("ckcnn.CKCNN", "model"):
        return f"{flag} is of the network of a CKCNN, and --model.net names another; leave out one of them"
    if name in ("Optimizer", "LRScheduler"):
        return f"{flag} is of a class that is not named; give it, such as {part} {_EXAMPLES[part]}"
    return f"{name} has no option {flag}; {nearest(flag, _options(path, part.removeprefix('--')))}"


def _unknown_flag(match: re.Match[str], text: str) -> str:
    word = match.group(1)
    if not word.startswith("-") and re.search(errors.UNKNOWN_ARGUMENT, text):
        return f"{word} is not an option; to use it as a preset, write --config {word}"
    flag = "--" + word.split("=")[0].removeprefix("--")
    trainer = _options("pytorch_lightning.Trainer", "trainer")
    top = [f"--{name}" for name in TOP]
    parts = [f"--trainer.{flag[2:]}", f"--model.{flag[2:]}"]
    if found := [one for one in parts if one in (*trainer, *_options("ckcnn.CKCNN", "model"))]:
        return f"there is no option {flag}; did you mean {found[0]}?"
    if flag.startswith("--trainer."):
        return f"there is no option {flag}; {nearest(flag, trainer)}"
    return f"there is no option {flag}; {nearest(flag.split('.')[0], top)}"


def _bad_value(match: re.Match[str], text: str) -> str:
    """The innermost key is the one that was wrong; what follows it says what it should be."""
    key = re.findall(errors.KEY, text)[-1]
    rest = text.rpartition(f'"{key}":')[2]
    literals = re.findall(errors.LITERAL, rest)
    choices = [choice for literal in literals for choice in literal.split(", ")]
    classes = dict.fromkeys(re.findall(errors.TYPE, rest))
    kinds = [_WORDS[name] for name in classes if name in _WORDS]
    if named := re.search(errors.NO_SUBCLASS, rest):
        article = "an" if named.group(1)[0] in "AEIOU" else "a"
        kinds.insert(0, f"the name of {article} {named.group(1)}, with its init_args if it has any")
    value = re.search(errors.VALUE, rest, re.DOTALL)
    flag = f"--{key}" if "." in key or key in _ALONE else _flag(text)
    if "a number" in kinds and "a whole number" in kinds:  # which is one
        kinds.remove("a whole number")
    texts = {choice.strip("'") for choice in choices if choice.startswith("'")}
    choices = [choice for choice in dict.fromkeys(choices) if choice not in texts]  # 16 and '16' are written alike
    wanted = " or ".join(dict.fromkeys([*choices, *kinds])) or "of another kind"
    said = _said(value.group(1)) if value else "something else"
    hint = "; put yes, no, on and off into quotes" if "a text" in kinds and said in ("True", "False") else ""
    if named and flag == "--model":
        hint = f"; a torch.nn.Module is given with --model.net {said}"
    return f"{flag} must be {wanted}, got {said}{hint}"


def _said(value: str) -> str:
    """What was given, as one would write it; the parser shows some values as objects of its own."""
    value = re.sub(r"NestedArg\(key='\w+', val=(.*?)\)$", r"\1", value.split("\n")[0].strip(" "))
    if not value or "Namespace(" in value:
        return "something else" if value else "an empty text"
    return value if len(value) <= 60 else f"{value[:57]}..."


def _class_problem(match: re.Match[str], text: str) -> str:
    """Why the innermost class cannot be made."""
    *_, match = re.finditer(errors.CLASS_PROBLEM, text)
    path, flag, name = match.group(1), _flag(text[: match.start()]), match.group(1).rpartition(".")[2]
    reason = " ".join(match.group(2).split())
    if reason.startswith("Parser key"):
        return _bad_value(match, text)
    if missing := re.search(errors.MISSING_INIT_ARG, reason):
        return f"{name} needs {', '.join(f'{flag}.{one}' for one in missing.group(1).split(', '))}"
    if package := re.search(r"Requirement '([\w-]+)[^']*' not met", reason):
        return f"{name} needs a package that is not installed: pip install {package.group(1)}"
    if reason.startswith("No module named"):
        return f"{flag} {path}: {reason[0].lower()}{reason[1:]}; a class of your own lies in the working folder"
    if "object has no attribute" in reason:  # a base class
        return f"{path} is abstract; name a subclass of it"
    if reason.startswith("module ") and "has no attribute" in reason:
        return f"{flag} {path}: {reason}; a class of your own lies in the working folder"
    return f"{flag} {path}: {reason}"


def _factory_problem(match: re.Match[str], text: str) -> str:
    """Why a class that makes something later, such as a network, is refused."""
    reason, given = match.groups()
    flag = _flag(text)
    path = str(re.sub(r"^Namespace\(class_path='([\w.]+)'.*", r"\1", given))
    name = path.rpartition(".")[2]
    if unknown := re.search(errors.UNKNOWN_KEY, reason):
        option = unknown.group(1)
        if option in (*_FACTS, "horizon"):
            return f"{flag}.{option} is a fact of the data, which {name} gets if it has an argument of this name"
        return f"{name} has no option {flag}.{option}; {nearest(f'{flag}.{option}', _options(path, flag[2:]))}"
    if missing := re.search(errors.MISSING_INIT_ARG, reason):
        return f"{name} needs {', '.join(f'{flag}.{one}' for one in missing.group(1).split(', '))}"
    if reason.startswith(("No module named", "module ")):
        return f"{flag} {path}: {reason[0].lower()}{reason[1:]}; a class of your own lies in the working folder"
    return f"{flag} must name a network (a torch.nn.Module), such as package.YourNet, got {path}"


def _flag(text: str) -> str:
    """The setting that a text is about, from its keys, outermost first."""
    keys = [key.removeprefix("init_args.") for key in re.findall(errors.KEY, text)]
    if keys and keys[0].split(".")[0] in TOP:
        return f"--{'.'.join(keys)}"
    return ".".join([f"--{_part(text)}", *keys])


def _no_class(match: re.Match[str], text: str) -> str:
    part, name, flag = _part(text), match.group(1), _flag(text)
    inner = re.split(errors.KEY, text)[-1]
    if part != "trainer" and any(kind in _WORDS for kind in re.findall(errors.TYPE, inner)):
        return _bad_value(match, text)
    if flag in _EXAMPLES:
        known = sorted(vars(_HOMES[flag]))
        hint = nearest(name, known) if closest(name, known) else f"such as {_EXAMPLES[flag]}, or package.Class"
        return f"there is no {part} {_said(name)}; {hint}"
    if part == "trainer" or "." in flag:
        return f"{flag} must name a class of Lightning or of your own, such as package.Class, got {_said(name)}"
    known = list(ckcnn.MODELS) if part == "model" else [n for n in datamodules.__all__ if n not in _NO_DATA]
    return f"there is no {part} {_said(name)}; {nearest(name, known)}"


def _missing(match: re.Match[str], text: str) -> str:
    return f"no {match.group(1)} was given; name a preset such as --config digits.yaml (ckcnn presets lists them)"


def _part(text: str) -> str:
    parts = [key.split(".")[0] for key in re.findall(errors.KEY, text)] + re.findall(r"--(\w+)", text)
    return next((part for part in parts if part in ("model", "data", "trainer", "optimizer", "lr_scheduler")), "model")


def parameters_of(path: str) -> dict[str, inspect.Parameter]:
    """Return the arguments of a class and of the classes that it is made from, by name."""
    module, _, name = path.rpartition(".")
    kind = getattr(importlib.import_module(module), name)
    parameters = [inspect.signature(cls.__init__).parameters for cls in kind.__mro__ if "__init__" in vars(cls)]
    return {name: entry for signature in parameters for name, entry in signature.items()}


def _options(path: str, part: str) -> list[str]:
    entries = parameters_of(path)
    names = {name for name, entry in entries.items() if entry.kind in (entry.POSITIONAL_OR_KEYWORD, entry.KEYWORD_ONLY)}
    return sorted(f"--{part}.{name}" for name in names - {"self"} - _FACTS)


_HOMES = {"--optimizer": torch.optim, "--lr_scheduler": torch.optim.lr_scheduler}
_EXAMPLES = {"--optimizer": "AdamW", "--lr_scheduler": "CosineAnnealingLR"}
_ANSWERS: tuple[tuple[str, Callable[[re.Match[str], str], str]], ...] = (
    (errors.LINK_PROBLEM, lambda match, text: match.group(1)),
    (errors.FACTORY_PROBLEM, _factory_problem),
    (errors.UNKNOWN_INIT_ARG, _unknown_option),
    (errors.UNKNOWN_ARGUMENT, _unknown_flag),
    (errors.UNKNOWN_KEY, _unknown_flag),
    (errors.NO_CLASS, _no_class),
    (errors.CLASS_PROBLEM, _class_problem),
    (errors.BAD_VALUE, _bad_value),
    (errors.MISSING, _missing),
)
