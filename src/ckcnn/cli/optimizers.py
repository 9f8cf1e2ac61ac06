"""``--optimizer`` and ``--lr_scheduler``, as Lightning's command line has them, beside the options of the model."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

from torch.optim.lr_scheduler import ReduceLROnPlateau

from ckcnn.models.optimization import OptimizerFactory
from ckcnn.models.sequence_module import SequenceModule
from ckcnn.presets import Layers

_OF_THE_MODEL = {"lr": "learning_rate", "weight_decay": "weight_decay"}  # what presets say about them


def settle(config: Any, layers: Layers) -> None:
    """Let an optimizer or a schedule and the options of the model agree, in place: what is said last counts.

    Args:
        config: what was parsed.
        layers: all sources of settings.
    """
    if config.lr_scheduler is not None and layers.last("lr_scheduler", "model.schedule") == "model.schedule":
        config.lr_scheduler = None
    if config.optimizer is None:
        return
    ours, theirs = config.model.init_args, config.optimizer.get("init_args") or {}
    for name, of_model in _OF_THE_MODEL.items():
        if name not in theirs or of_model not in ours:
            continue
        if layers.last(f"optimizer.{name}", f"model.{of_model}") == f"model.{of_model}":
            theirs[name] = ours[of_model]
        else:
            ours[of_model] = theirs[name]


def use(config: Any, model: SequenceModule) -> None:
    """Train a model with the optimizer and the schedule of a configuration, if it names any.

    Raises:
        ValueError: if they do not fit the model.
    """
    if config.optimizer is None and config.lr_scheduler is None:
        return
    name = type(model).__name__
    if type(model).configure_optimizers is not SequenceModule.configure_optimizers:
        raise ValueError(f"{name} has its own configure_optimizers; leave out --optimizer and --lr_scheduler")
    optimizer: OptimizerFactory | None = _factory(config.optimizer)
    model.optimize_with(optimizer, _factory(config.lr_scheduler))
    try:
        schedule = model.make_schedule(model.make_optimizer())
    except (TypeError, KeyError) as error:
        raise ValueError(f"--lr_scheduler {config.lr_scheduler.class_path} refuses the optimizer: {error}") from None
    _check_direction(schedule, model)


def _check_direction(schedule: Any, model: SequenceModule) -> None:
    same = isinstance(schedule, ReduceLROnPlateau) and getattr(schedule, "monitor", None) == model.monitor
    if same and schedule.mode != model.mode:
        raise ValueError(
            f"--lr_scheduler.mode must be {model.mode}, a good {model.monitor} is "
            f"{'large' if model.mode == 'max' else 'small'}, got {schedule.mode}"
        )


def _factory(named: Any) -> Callable[..., Any] | None:
    if named is None:
        return None
    module, _, name = named.class_path.rpartition(".")
    return partial(getattr(importlib.import_module(module), name), **dict(named.get("init_args") or {}))
