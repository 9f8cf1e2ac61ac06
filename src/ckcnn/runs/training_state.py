"""Compare the training state in a checkpoint with the state that the run would create itself.

Optimizers, schedules, loops and callbacks take what they are given: a moment of another shape makes the fused optimizer
write beyond its memory, and a schedule replaces its own methods. So everything must have the keys, types and shapes
that a new run has, before anything uses it.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from pytorch_lightning import Callback
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

_MOMENTS = ("exp_avg", "exp_avg_sq")
_CYCLED = {"initial_lr", "max_lr", "min_lr", "base_momentum", "max_momentum"}  # schedules add them to the groups
_GROUP = ("lr", "betas", "eps", "weight_decay", "amsgrad", "params")  # every version of Adam writes them
_FIXED = {"amsgrad", "maximize", "capturable", "differentiable", "params"}
_STOPPING = ("wait_count", "stopped_epoch", "best_score", "patience")  # what `EarlyStopping` always reads
_PROGRESS = ("ready", "started", "processed", "completed")


class StateError(ValueError):
    """The checkpoint does not fit the run; the message names the part."""


def check_version(content: Mapping[str, Any]) -> None:
    """Check that the checkpoint names the version of Lightning that wrote it, which Lightning asks for.

    Raises:
        StateError: if it does not.
    """
    found = content.get("pytorch-lightning_version")
    if not isinstance(found, str) or not re.match(r"\d+\.\d+", found):
        raise StateError(f"pytorch-lightning_version must be a version such as 2.6.0, got {found!r}")


def check_weights(module: nn.Module, stored: Any) -> None:
    """Check that the weights have the names, shapes and types of the module's.

    Raises:
        StateError: if they have not.
    """
    check_like("state_dict", module.state_dict(), stored, exact_type=False)


def check_average(module: nn.Module, content: Mapping[str, Any]) -> None:
    """Check the training weights of a run that averages its weights.

    Raises:
        StateError: if they do not fit the module.
    """
    if "current_model_state" in content:
        check_like("current_model_state", module.state_dict(), content["current_model_state"], exact_type=False)
        check_like("averaging_state", {"n_averaged": torch.tensor(0)}, content.get("averaging_state"))


def check_optimizer(optimizer: Optimizer, stored: Any) -> None:
    """Check that the state of an optimizer fits its parameters.

    Raises:
        StateError: if it does not.
    """
    name, fresh = "optimizer_states", optimizer.state_dict()["param_groups"]
    groups, state = _entries(name, stored, ("param_groups", "state"))
    if not isinstance(groups, list) or len(groups) != len(fresh) or not isinstance(state, Mapping):
        raise StateError(f"{name} must have {len(fresh)} param_groups and a state, got {_shown(groups)}")
    for index, (expected, group) in enumerate(zip(fresh, groups, strict=True)):
        place = f"{name}.param_groups[{index}]"
        if not isinstance(group, Mapping):
            raise StateError(f"{place} must be a mapping, got {_shown(group)}")
        required = _GROUP if isinstance(optimizer, Adam) else tuple({"params", "lr"} & expected.keys())
        check_common(place, expected, group, required=required)
        for key in _CYCLED & group.keys():
            check_like(f"{place}.{key}", 0.0, group[key])
        for key in _FIXED & group.keys() & expected.keys():
            if group[key] != expected[key]:
                raise StateError(f"{place}.{key} must be {_shown(expected[key])}, got {_shown(group[key])}")
    if not isinstance(optimizer, Adam):
        _check_state_of_any(f"{name}.state", optimizer, state)
        return
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if state and list(state) != list(range(len(parameters))):
        raise StateError(f"{name}.state must be about {len(parameters)} parameters, got {_shown(list(state))}")
    for index, moments in state.items():
        values = {"step": torch.tensor(0.0)} | dict.fromkeys(_MOMENTS, parameters[index].detach())
        check_like(f"{name}.state[{index}]", values, moments, exact_type=False)


def _check_state_of_any(name: str, optimizer: Optimizer, stored: Mapping[Any, Any]) -> None:
    """Compare with the state of the optimizer after one step."""
    for index, kept in _after_a_step(optimizer).items():
        given = stored.get(index)
        if given is None:
            continue
        _entries(f"{name}[{index}]", given, ())
        for key, value in kept.items():
            if isinstance(value, Tensor) and key in given:
                check_like(f"{name}[{index}].{key}", value, given[key], exact_type=False)


def _after_a_step(optimizer: Optimizer) -> Mapping[Any, Any]:
    """Return the state of a copy after a step with zero gradients; empty if the class does not allow it."""
    try:
        trial = copy.deepcopy(optimizer)
        for group in trial.param_groups:
            for parameter in group["params"]:
                parameter.grad = torch.zeros_like(parameter)
        trial.step(lambda: 0.0)
        state: Mapping[Any, Any] = trial.state_dict()["state"]
    except Exception:  # a class of the user's: any
        return {}
    return state


def check_counts(content: Mapping[str, Any]) -> None:
    """Check that epochs, steps and loop counters are non-negative integers.

    Raises:
        StateError: if they are not.
    """
    for key in ("epoch", "global_step"):
        check_like(key, 0, content.get(key, 0))
    loops = content.get("loops")
    if loops is not None:
        (fit,) = _entries("loops", loops, ("fit_loop",))
        if not isinstance(fit, Mapping):
            raise StateError(f"loops.fit_loop must be a mapping, got {_shown(fit)}")
        for key, value in fit.items():
            _check_progress(f"loops.fit_loop.{key}", value)


def _check_progress(name: str, value: Any) -> None:
    """Check a tree of Lightning's counters; lists hold the states of loaders."""
    if isinstance(value, Mapping):
        counters = [key for key in _PROGRESS if key in value]
        if len(counters) == 1:
            raise StateError(f"{name} must count {', '.join(_PROGRESS)}, got {', '.join(map(str, value))}")
        for key, entry in value.items():
            if key in ("total", "current") and not isinstance(entry, Mapping):
                raise StateError(f"{name}.{key} must be a mapping, got {_shown(entry)}")
            _check_progress(f"{name}.{key}", entry)
        if ("total" in value and "current" not in value) or ("current" in value and "total" not in value):
            raise StateError(f"{name} must have total and current, got {', '.join(map(str, value))}")
    elif not isinstance(value, bool | list) and value is not None:
        check_like(name, 0, value)


def check_callbacks(callbacks: Sequence[Callback], stored: Any) -> None:
    """Check that the states of callbacks have the types of new ones; unknown callbacks are ignored.

    Raises:
        StateError: if they have not.
    """
    if not isinstance(stored, Mapping):
        raise StateError(f"callbacks must be a mapping, got {_shown(stored)}")
    for callback in callbacks:
        fresh = callback.state_dict()
        if fresh and callback.state_key in stored:
            name, state = f"callbacks.{callback.state_key.split('{')[0]}", stored[callback.state_key]
            check_common(name, fresh, state, [key for key in _STOPPING if key in fresh], owner=callback)


def check_schedule(scheduler: Any, stored: Any) -> None:
    """Check that the state of a schedule has the types of a new one's.

    Raises:
        StateError: if it has not.
    """
    check_common("lr_schedulers", scheduler.state_dict(), stored, ("last_epoch",), owner=scheduler)


def check_metrics(fresh: Sequence[Mapping[str, Any]], stored: Any) -> None:
    """Check that the metrics of a partial epoch have the names and shapes of new ones.

    Raises:
        StateError: if it has not.
    """
    name = "epoch_so_far"
    if not isinstance(stored, list) or len(stored) not in (0, len(fresh)):
        raise StateError(f"{name} must have {len(fresh)} entries, got {_shown(stored)}")
    for expected, state in zip(fresh, stored, strict=False):
        if not isinstance(state, Mapping) or state.keys() != expected.keys():
            raise StateError(f"{name} must have {_shown(list(expected))}, got {_shown_keys(state, expected)}")
        for key, value in state.items():
            tensors = value if isinstance(value, list) and isinstance(expected[key], list) else [value]
            sizes = {t.numel() if isinstance(t, Tensor) else None for t in tensors}
            wrong = isinstance(expected[key], Tensor) and sizes != {expected[key].numel()}
            if wrong or None in sizes:
                raise StateError(f"{name}.{key} must be {_shown(expected[key])}, got {_shown(value)}")


def check_common(
    name: str, expected: Mapping[str, Any], stored: Any, required: Sequence[str] = (), owner: object = None
) -> None:
    """Like `check_like`, for common entries only, because library versions differ.

    Args:
        name: of the value, for the message.
        expected: what a new run has.
        stored: what the checkpoint has.
        required: entries that must be there.
        owner: who takes all entries for attributes; none of them may hide another part of it, such as a method.

    Raises:
        StateError: if they differ.
    """
    _entries(name, stored, tuple(required))
    for key, value in stored.items():
        if key in expected:
            check_like(f"{name}.{key}", expected[key], value, exact_type=False)
        elif owner is not None and (not isinstance(key, str) or hasattr(owner, key)):
            raise StateError(f"{name} must have {_shown(list(expected))}, got also {_shown(key)}")


def check_like(name: str, expected: Any, stored: Any, exact_type: bool = True) -> None:
    """Check that a stored value has the type, shape, length and keys of the expected one.

    Args:
        name: of the value, for the message.
        expected: what a new run has.
        stored: what the checkpoint has.
        exact_type: whether numbers in tensors must have the same type, not only the same kind (real, whole, complex).

    Raises:
        StateError: if it has not.
    """
    if isinstance(expected, Tensor):
        _check_tensor(name, expected, stored, exact_type)
    elif isinstance(expected, Mapping):
        if not isinstance(stored, Mapping) or stored.keys() != expected.keys():
            raise StateError(f"{name} must have {_shown(list(expected))}, got {_shown_keys(stored, expected)}")
        for key, value in expected.items():
            check_like(f"{name}.{key}", value, stored[key], exact_type)
    elif isinstance(expected, list | tuple):
        if not isinstance(stored, list | tuple) or len(stored) != len(expected):
            raise StateError(f"{name} must have {len(expected)} entries, got {_shown(stored)}")
        for index, pair in enumerate(zip(expected, stored, strict=True)):
            check_like(f"{name}[{index}]", *pair, exact_type)
    else:
        _check_plain(name, expected, stored)


def _check_plain(name: str, expected: Any, stored: Any) -> None:
    number = isinstance(stored, int | float) and not isinstance(stored, bool)
    if isinstance(expected, bool):
        _require(name, "true or false", stored, isinstance(stored, bool))
    elif isinstance(expected, int):
        _require(name, "a whole number", stored, (number and stored == expected) or _is_count(stored))
    elif isinstance(expected, float):
        _require(name, "a number", stored, number and (math.isfinite(stored) or not math.isfinite(expected)))
    elif isinstance(expected, str):
        _require(name, "a text", stored, isinstance(stored, str))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _check_tensor(name: str, expected: Tensor, stored: Any, exact_type: bool) -> None:
    if not isinstance(stored, Tensor) or stored.layout is not torch.strided or stored.is_quantized:
        raise StateError(f"{name} must be a tensor, got {_shown(stored)}")
    if stored.shape != expected.shape:
        raise StateError(f"{name} must have the shape {tuple(expected.shape)}, got {tuple(stored.shape)}")
    kinds = [(t.is_floating_point(), t.is_complex(), t.dtype if exact_type else None) for t in (expected, stored)]
    if kinds[0] != kinds[1]:
        raise StateError(f"{name} must hold {expected.dtype}, got {stored.dtype}")


def _entries(name: str, stored: Any, keys: tuple[str, ...]) -> list[Any]:
    if not isinstance(stored, Mapping) or not set(keys) <= stored.keys():
        raise StateError(f"{name} must have {' and '.join(keys)}, got {_shown(stored)}")
    return [stored[key] for key in keys]


def _require(name: str, wanted: str, stored: Any, fits: bool) -> None:
    if not fits:
        raise StateError(f"{name} must be {wanted}, got {_shown(stored)}")


def _shown_keys(stored: Any, expected: Mapping[Any, Any]) -> str:
    if not isinstance(stored, Mapping):
        return _shown(stored)
    missing, more = expected.keys() - stored.keys(), stored.keys() - expected.keys()
    words = [f"no {sorted(map(str, missing))[0]}"] if missing else []
    return " and ".join([*words, *([f"also {sorted(map(str, more))[0]}"] if more else [])])


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of the shape {tuple(value.shape)}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
