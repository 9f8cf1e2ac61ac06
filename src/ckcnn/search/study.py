"""The study of a search: created once, and resumed only with the same settings."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import DuplicatedStudyError
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage
from optuna.trial import TrialState

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
    """Return the study with this name: a new one, or one created with the same settings.

    Raises:
        ValueError: if it was created for another question; the message says what differs.
    """
    try:
        study = _open(name, storage, sampler, pruner, monitor, mode, question)
        before = _question_of(study)
        _look_through(study)
    except Exception as error:  # a damaged database leads to errors of all kinds, deep in Optuna
        reason = str(getattr(error, "orig", "") or "").strip().splitlines()
        said = f" ({reason[0]})" if reason else ""
        raise ValueError(
            f"the study {name} cannot be read{said}: its storage is damaged, or another version wrote it; "
            "delete it, or give another --storage or --name"
        ) from None
    if before is None:
        raise ValueError(f"the study {name} was not made by ckcnn search; give another --name")
    for key in dict.fromkeys([*question, *before]):
        if before.get(key) != question.get(key):
            raise ValueError(
                f"the study {name} was created with {key} {_said(before.get(key))}, got {_said(question.get(key))}; "
                "keep it as it was to resume, or start a new study with --name"
            )
    return study


def _open(
    name: str,
    storage: BaseStorage,
    sampler: BaseSampler,
    pruner: BasePruner,
    monitor: str,
    mode: str,
    question: Mapping[str, Any],
) -> optuna.Study:
    common: dict[str, Any] = {"study_name": name, "storage": storage, "sampler": sampler, "pruner": pruner}
    try:
        study = optuna.create_study(direction="maximize" if mode == "max" else "minimize", **common)
    except DuplicatedStudyError:
        study = optuna.load_study(**common)
    else:
        study.set_user_attr("monitor", monitor)
        study.set_user_attr("question", dict(question))
    return study


def _look_through(study: optuna.Study) -> None:
    """Read everything that a search shows, so that damage is found before any training."""
    if not isinstance(study.user_attrs.get("monitor", ""), str) or len(study.directions) != 1:
        raise TypeError("monitor")
    for trial in study.get_trials():
        numbers = [trial.value if trial.state == TrialState.COMPLETE else 0.0, *trial.intermediate_values.values()]
        numbers += [trial.user_attrs.get(name, 0.0) for name in ("val_loss", "seconds", "epochs")]
        kinds = (FloatDistribution, IntDistribution)
        numbers += [trial.params[key] for key, kind in trial.distributions.items() if isinstance(kind, kinds)]
        if not all(isinstance(number, int | float) for number in numbers):
            raise TypeError("a value of a trial")
        if not isinstance(trial.user_attrs.get("folder", ""), str) or not isinstance(trial.number, int):
            raise TypeError("a note of a trial")


def _question_of(study: optuna.Study) -> dict[str, Any] | None:
    """Return the settings of the study; another worker may be writing them at this moment."""
    for _ in range(50):
        if found := study.user_attrs.get("question"):
            return dict(found)
        time.sleep(0.1)
    return None


def _said(value: Any) -> str:
    return "not set" if value is None else str(value)


def question(preset: str, config: Any, space: Space) -> dict[str, Any]:
    """Return everything outside the search space that the values of trials depend on."""
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
    """Check that the choices are unchanged; intervals may change between calls."""
    return list(distribution.choices) if isinstance(distribution, CategoricalDistribution) else "an interval"
