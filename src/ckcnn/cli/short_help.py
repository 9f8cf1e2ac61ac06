"""``ckcnn fit --help`` and the like: first what a user changes; the other options on request, group by group."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from ckcnn.checks.hints import nearest

COMMANDS = ("fit", "validate", "test", "predict")
GROUPS = ("model", "data", "trainer")
_WIDTH, _COLUMN = 118, 34

# What a line shows as a value is the default, where the flag has one and the line does not say otherwise.
_RUNS = {"--runs runs": "folder of all runs"}
_CHANGED = {
    "": {
        "--config pmnist.yaml": "a preset (ckcnn presets lists them) or a file of your own; later ones and flags win",
        "--ckpt_path last": "resume the newest run; or a run folder, or a checkpoint",
        "--name NAME": "write the run to RUNS/NAME/version_N (default: the name of the preset)",
        **_RUNS,
        "--seed_everything 0": "random seed",
    },
    "model": {
        "--model CKCNN": "or GRU, LSTM, TCN; --model.net package.YourNet trains a network of your own",
        "--model.omega_0 30.0": "how fast the kernels can oscillate; auto derives it from the length of the data",
        "--model.hidden_channels 30": "channels of each block",
        "--model.num_blocks 2": "number of residual blocks",
        "--model.dropout 0.0": "dropout probability",
        "--model.learning_rate 0.001": "learning rate; the peak of one_cycle and cosine",
        "--model.schedule plateau": "or one_cycle, cosine (for few epochs), constant",
        "--optimizer AdamW": "any of torch.optim, or package.YourOptimizer; --lr_scheduler likewise",
    },
    "data": {
        "--data Arrays --data.path FILE": "your own data, or package.YourDataModule; ckcnn data lists the benchmarks",
        "--data.batch_size 64": "sequences in a batch",
        "--data.drop_rate 0.0": "fraction of the samples to drop",
        "--data.train_dt 1": "keep every n-th sample; --data.test_dt does the same for the test",
        "--data.root DIR": "folder of the data (default: $CKCNN_DATA, else data)",
    },
    "trainer": {
        "--trainer.max_epochs 200": "number of epochs; --early_stopping.patience 100 stops earlier",
        "--trainer.devices auto": "number of GPUs or processes; --trainer.accelerator cpu or gpu",
        "--trainer.gradient_clip_val 1": "clip gradients (default: no clipping)",
    },
}
_USED = {
    "--config pmnist.yaml": "a preset: its newest run is used",
    "--ckpt_path RUN": "a run folder, a checkpoint, or best or last of the newest run (default: best)",
    "--name NAME": "use the newest run in RUNS/NAME (default: the name of the preset)",
    **_RUNS,
    "--data.test_dt 2": "keep every n-th sample of the test sequences",
    "--data.root DIR": "folder of the data (default: $CKCNN_DATA, else data)",
}
_PREDICTED = {
    "--input FILE": "new sequences instead of the test split; ckcnn predict --input --help has its options",
    "--output predictions.csv": "file to write, .csv or .npz",
}


def wanted(arguments: Sequence[str]) -> bool:
    """Return whether the arguments of a command ask for the help that is here."""
    asked = [word for word in arguments if word in ("-h", "--help") or word.startswith("--help=")]
    return bool(asked) and not any(word.split("=")[0] == "--input" for word in arguments)


def text(command: str, arguments: Sequence[str]) -> str:
    """Return the help of a command, or of the group named after ``--help``.

    Raises:
        ValueError: if there is no such group or class.
    """
    place = next(i for i, word in enumerate(arguments) if word in ("-h", "--help") or word.startswith("--help="))
    _, _, group = arguments[place].partition("=")
    words = [group] if group else []
    words += [word for word in arguments[place + 1 :] if not word.startswith("-")]
    return _group(words[0], words[1:], arguments) if words else _overview(command)


def _overview(command: str) -> str:
    parts = _CHANGED if command == "fit" else {"": _USED | (_PREDICTED if command == "predict" else {})}
    lines = [f"usage: ckcnn {command} --config PRESET [--config OVERLAY ...] [--FLAG VALUE ...]"]
    for name, flags in parts.items():
        lines += ["", *([f"{name}:"] if name else [])]
        lines += [f"  {flag:{_COLUMN}}{meaning}" for flag, meaning in flags.items()]
    lines += ["", f"All options: ckcnn {command} --help model (or data, trainer; --help model GRU for another class),"]
    return "\n".join([*lines, f"or ckcnn {command} --help-all. Any of them can also be set in a YAML file."])


def _group(group: str, names: Sequence[str], arguments: Sequence[str]) -> str:
    """All options of the model, the data or the trainer."""
    if group not in GROUPS:
        raise ValueError(f"--help explains {', '.join(GROUPS)}, got {group!r}; {nearest(group, GROUPS)}")
    kind = _kind(group, names[0] if names else _given(group, arguments))
    lines = [f"Options of {kind.__name__}:" if group != "trainer" else "Options of Lightning's Trainer:", ""]
    meanings = {name: meaning for one in reversed(kind.__mro__) for name, meaning in _meanings(one).items()}
    for name, default in _options(kind).items():
        value = "" if default is inspect.Parameter.empty or default is None else f" {_shown(default)}"
        flag = f"--{group}.{name}{value}"
        space = f"\n{'':{_COLUMN + 2}}" if len(flag) >= _COLUMN else " " * (_COLUMN - len(flag))
        folded = textwrap.wrap(meanings.get(name, ""), _WIDTH - _COLUMN - 2)
        lines.append(f"  {flag}{space}" + f"\n{'':{_COLUMN + 2}}".join(folded))
    return "\n".join(line.rstrip() for line in lines)


def _given(group: str, arguments: Sequence[str]) -> str:
    """The class that the command line names, or the usual one."""
    for word, after in zip(arguments, [*arguments[1:], ""], strict=True):
        if word == f"--{group}":
            return after
        if word.startswith(f"--{group}="):
            return word.partition("=")[2]
    return {"model": "CKCNN", "data": "Arrays"}.get(group, "Trainer")


def _kind(group: str, name: str) -> type:
    if group == "trainer":
        from pytorch_lightning import Trainer

        return Trainer
    import ckcnn
    from ckcnn import datamodules

    module, known = ckcnn if group == "model" else datamodules, list(ckcnn.MODELS)
    if group == "data":
        known = [one for one in datamodules.__all__ if one not in ("DataError", "RawSequences", "SequenceBatch")]
    if name not in known:
        raise ValueError(f"there is no {group} {name}; {nearest(name, known)}")
    return getattr(module, name)


def _options(kind: type) -> dict[str, Any]:
    """The arguments of a class and of those that it hands the rest to, with their defaults, without facts of data."""
    found: dict[str, Any] = {}
    for one in kind.__mro__:
        if "__init__" not in vars(one) or one.__module__.split(".")[0] not in ("ckcnn", kind.__module__.split(".")[0]):
            continue
        parameters = list(inspect.signature(one.__init__).parameters.values())[1:]  # type: ignore[misc]
        named = [part for part in parameters if part.kind in (part.POSITIONAL_OR_KEYWORD, part.KEYWORD_ONLY)]
        found |= {part.name: part.default for part in named if part.name not in found}
        if len(named) == len(parameters):
            break
    facts = ("in_channels", "out_channels", "task", "dt") if "in_channels" in found else ()
    return {name: default for name, default in found.items() if name not in facts}


def _meanings(kind: type) -> dict[str, str]:
    """What the docstring of a class says of each argument, unless it only names another class to look at."""
    said = inspect.cleandoc(kind.__doc__ or "").partition("Args:\n")[2]
    said += "\n" + inspect.cleandoc(getattr(vars(kind).get("__init__"), "__doc__", "") or "").partition("Args:\n")[2]
    return {name: meaning for name, meaning in _entries(said) if not meaning.startswith("see ")}


def _entries(said: str) -> Iterator[tuple[str, str]]:
    """Names and what comes after them, up to the first empty line."""
    for match in re.finditer(r"^ {4}(\w+): (.+(?:\n {5,}\S.*)*)", said, re.MULTILINE):
        yield match[1], " ".join(match[2].replace("``", "").replace("`", "").split())


def _shown(default: Any) -> str:
    if isinstance(default, tuple):
        return f"[{','.join(map(str, default))}]"
    return str(default).lower() if isinstance(default, bool) else str(default)
