"""The study of a search: made once, and gone on with only for the same question."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import optuna
from optuna.distributions import CategoricalDistribution
from optuna.exceptions import DuplicatedStudyError
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage

from ckcnn.data_options import PLACES
from ckcnn.search.space import Space

_TRAINER = (
    "max_epochs",
    "max_steps",
    "limit_train_batches",
    "limit_val_batches",
    "overfit_batches",
    "precision",
    "gradient_clip_val",
    "accumulate_grad_batches",
)


def open_study(
    name: str,
    storage: BaseStorage,
    sampler: BaseSampler,
    pruner: BasePruner,
    monitor: str,
    mode: str,
    question: Mapping[str, Any],
) -> optuna.Study:
    """The study of this name: a new one, or one that was made for the same question.

    Raises:
        ValueError: if it was made for another one; the message says what differs.
    """
    common: dict[str, Any] = {"study_name": name, "storage": storage, "sampler": sampler, "pruner": pruner}
    try:
        study = optuna.create_study(direction="maximize" if mode == "max" else "minimize", **common)
    except DuplicatedStudyError:
        study = optuna.load_study(**common)
    else:
        study.set_user_attr("monitor", monitor)
        study.set_user_attr("question", dict(question))
    before = _question_of(study)
    if before is None:
        raise ValueError(f"the study {name} was not made by ckcnn search; give another --name")
    for key in dict.fromkeys([*question, *before]):
        if before.get(key) != question.get(key):
            raise ValueError(
                f"the study {name} was made for {key} {_said(before.get(key))}, now it is {_said(question.get(key))}; "
                "leave it as it was to go on, or give another --name"
            )
    return study


def _question_of(study: optuna.Study) -> dict[str, Any] | None:
    """What it was made for; another worker may be making it at this moment."""
    for _ in range(50):
        if found := study.user_attrs.get("question"):
            return dict(found)
        time.sleep(0.1)
    return None


def _said(value: Any) -> str:
    return "not set" if value is None else str(value)


def question(preset: str, config: Any, space: Space) -> dict[str, Any]:
    """Everything that the values of the trials depend on, besides what is searched."""
    settings: dict[str, Any] = {"preset": preset}
    settings["--space"] = {key: _kind(kind) for key, kind in space.items()}
    settings["seed_everything"] = config.seed_everything
    for part in ("data", "model"):
        settings[f"{part} class"] = config[part].class_path
        arguments = config[part].init_args.as_dict()
        settings |= {f"{part}.{key}": value for key, value in arguments.items() if key not in PLACES}
    settings |= {f"trainer.{key}": config.trainer[key] for key in _TRAINER}
    settings |= {f"early_stopping.{key}": config.early_stopping[key] for key in ("patience", "stopping_threshold")}
    return {key: value for key, value in settings.items() if key not in space and value is not None}


def _kind(distribution: Any) -> Any:
    """Intervals may change from one call to the next, choices may not."""
    return list(distribution.choices) if isinstance(distribution, CategoricalDistribution) else "an interval"
