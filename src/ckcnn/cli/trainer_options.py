"""What settings may be, where the parser takes more: said before Lightning or a class stumbles over them."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, TypeGuard

from pytorch_lightning import Callback
from pytorch_lightning.callbacks import BatchSizeFinder, LearningRateFinder, StochasticWeightAveraging, Timer
from pytorch_lightning.strategies import StrategyRegistry

from ckcnn.checks import check_choice
from ckcnn.checks.hints import closest, in_short
from ckcnn.cli.messages import parameters_of
from ckcnn.presets import value_of

_MOST = 2**31 - 1
_PROCESSES_A_CORE = 4  # a few take turns, as a rehearsal of a larger machine needs; hundreds only fill the memory
# Whole numbers, and the smallest value of each; -1 is Lightning's word for "all" or "without end".
_COUNTS = {
    "trainer.max_epochs": -1,
    "trainer.min_epochs": 0,
    "trainer.max_steps": -1,
    "trainer.min_steps": 0,
    "trainer.check_val_every_n_epoch": 1,
    "trainer.num_sanity_val_steps": -1,
    "trainer.log_every_n_steps": 0,
    "trainer.accumulate_grad_batches": 1,
    "trainer.reload_dataloaders_every_n_epochs": 0,
    "trainer.num_nodes": 1,
    "early_stopping.patience": 0,
}
# A fraction of the batches, or their number.
_BATCHES = (
    "trainer.limit_train_batches",
    "trainer.limit_val_batches",
    "trainer.limit_test_batches",
    "trainer.limit_predict_batches",
    "trainer.overfit_batches",
    "trainer.val_check_interval",
)
_FINITE = {
    "trainer.gradient_clip_val": 0.0,
    "early_stopping.min_delta": -math.inf,
    "early_stopping.stopping_threshold": -math.inf,
    "early_stopping.divergence_threshold": -math.inf,
}
_REQUIRED = (
    "seed_everything",
    "early_stopping.patience",
    "early_stopping.min_delta",
    "trainer.max_steps",
    "trainer.fast_dev_run",
    "trainer.accumulate_grad_batches",
)
_FLAGS = (
    "trainer.inference_mode",
    "trainer.use_distributed_sampler",
    "trainer.detect_anomaly",
    "trainer.barebones",
    "trainer.sync_batchnorm",
    "early_stopping.verbose",
    "early_stopping.strict",
    "early_stopping.check_finite",
    "early_stopping.log_rank_zero_only",
)
_WORDS = {
    "trainer.accelerator": ("auto", "cpu", "gpu", "cuda", "mps", "tpu"),
    "trainer.gradient_clip_algorithm": ("norm", "value"),
    "trainer.profiler": ("simple", "advanced", "pytorch", "xla"),
}
_REFUSED: dict[type[Callback], str] = {
    StochasticWeightAveraging: "has its average only after the last checkpoint is written, so no checkpoint would have "
    "it; use WeightAveraging, or EMAWeightAveraging",
    LearningRateFinder: "would train with another learning rate than the settings of the run say; use ckcnn search "
    "--space model.learning_rate=1e-4:1e-1:log",
    BatchSizeFinder: "would train with another batch size than the settings of the run say; set --data.batch_size",
    Timer: "is written --trainer.max_time 00:12:00:00 (days, hours, minutes, seconds)",
}
_LAUNCHERS = ("MASTER_ADDR", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID")


def keep_whole_numbers(settings: MutableMapping[str, Any], written: Mapping[str, Any]) -> None:
    """Give numbers of batches back the type that they were written with, in place.

    ``1`` is one batch, ``1.0`` all of them. The parser may take one for the other: it tries the types of a setting in
    their order, and Python keeps the first order of ``int | float`` that any library has asked for.

    Args:
        settings: by their names on the command line.
        written: what the user and the presets say.
    """
    for name in _BATCHES:
        value = value_of(written, name)
        if _is_whole(value) and settings.get(name) == value:
            settings[name] = value


def check_trainer(settings: Mapping[str, Any]) -> None:
    """Check all numbers of the trainer and of early stopping.

    Args:
        settings: by their names on the command line.

    Raises:
        ValueError: that names the flag, what was expected and what was given.
    """
    _check_null(settings)
    for name, least in _COUNTS.items():
        value = settings.get(name)
        if value is not None and not (_is_whole(value) and least <= value <= _MOST):
            raise ValueError(f"--{name} must be a whole number from {least} to {_MOST}, got {in_short(value)}")
    for name in _BATCHES:
        _check_batches(name, settings.get(name))
    for name, lowest in _FINITE.items():
        value = settings.get(name)
        if value is not None and not (math.isfinite(value) and value >= lowest):
            wanted = "0 or a positive number" if lowest == 0 else "a finite number"
            raise ValueError(f"--{name} must be {wanted}, got {in_short(value)}")
    _check_ways(settings)
    _check_words(settings)
    _check_strategy(settings.get("trainer.strategy"))
    _check_devices(settings.get("trainer.accelerator"), settings.get("trainer.devices"))
    _check_seed(settings.get("seed_everything"))


def _check_ways(settings: Mapping[str, Any]) -> None:
    """Ways to train that Lightning has, and a run folder cannot be filled with."""
    if settings.get("trainer.barebones"):
        raise ValueError("--trainer.barebones leaves out logs and checkpoints, which every run keeps; leave it out")
    if settings.get("trainer.enable_checkpointing") is False:
        raise ValueError(
            "--trainer.enable_checkpointing false keeps no checkpoint, and a run is resumed and tested from its own; "
            "leave it out, or try a few steps with --trainer.fast_dev_run 5"
        )
    steps = settings.get("trainer.fast_dev_run")
    if _is_whole(steps) and not 0 <= steps <= _MOST:
        raise ValueError(
            f"--trainer.fast_dev_run must be true, false or a number of batches up to {_MOST}, got {in_short(steps)}"
        )


def _check_words(settings: Mapping[str, Any]) -> None:
    for name, choices in _WORDS.items():
        value = settings.get(name)
        if isinstance(value, str):
            check_choice(f"--{name}", value, choices)
    for callback in _listed(settings.get("trainer.callbacks")):  # what is empty becomes the base class
        if getattr(callback, "class_path", "").endswith(".Callback"):
            raise ValueError("--trainer.callbacks must name a class for each entry, got one without; leave it out")


def _check_null(settings: Mapping[str, Any]) -> None:
    """The parser takes null for every setting, Lightning does not."""
    for name in (*_REQUIRED, *_FLAGS):
        if name in settings and settings[name] is None:
            wanted = "true or false" if name in _FLAGS else "a number"
            raise ValueError(f"--{name} must be {wanted}, got null; leave it out for the default")


def check_flags(config: Any) -> None:
    """The parser takes null for true or false of model and data, too.

    Args:
        config: what was parsed.

    Raises:
        ValueError: that names the flag.
    """
    for part in ("model", "data"):
        named = config[part]
        flags = [name for name, one in parameters_of(named.class_path).items() if one.annotation in (bool, "bool")]
        for name in flags:
            if name in (named.get("init_args") or {}) and named.init_args[name] is None:
                raise ValueError(f"--{part}.{name} must be true or false, got null; leave it out for the default")


def check_nodes(nodes: int) -> None:
    """A run on several machines waits for the others for ever if nobody starts them.

    Raises:
        ValueError: if there is no launcher.
    """
    if nodes > 1 and not any(name in os.environ for name in _LAUNCHERS):
        raise ValueError(
            f"--trainer.num_nodes {nodes} is for a run that SLURM or torchrun starts on every node, "
            "or with MASTER_ADDR set by hand; leave it out on a single machine"
        )


def check_callbacks(callbacks: Sequence[Callback]) -> None:
    """Callbacks that would be without effect, or would change what a run says about itself, are refused.

    Raises:
        ValueError: that names the callback and what to take instead.
    """
    for callback in callbacks:
        for kind, reason in _REFUSED.items():
            if isinstance(callback, kind):
                raise ValueError(f"{type(callback).__name__} {reason}")


def refusal(error: Exception) -> str:
    """Return one sentence for what Lightning refused when the trainer was made."""
    text = re.sub(r"https?://\S+", "", " ".join(str(error).split())).replace("`", "").rstrip(" .:")
    hint = "; --trainer.accelerator cpu runs without a GPU" if "gpu" in text.lower() or "CUDA" in text else ""
    return f"Lightning cannot use the settings of --trainer: {text[:400]}{hint}"


def _check_batches(name: str, value: Any) -> None:
    if value is None or (name.endswith("interval") and _is_time(value)):
        return
    least = "above 0" if name.endswith("interval") else "from 0"
    fraction = isinstance(value, float) and (0 < value <= 1 or (value == 0 and least == "from 0"))
    number = _is_whole(value) and (0 if least == "from 0" else 1) <= value <= _MOST
    if not (fraction or number):
        raise ValueError(
            f"--{name} must be a fraction {least} to 1.0, or a whole number of batches, got {in_short(value)}"
        )


def _is_time(value: Any) -> bool:
    """Lightning also validates after a given time, DD:HH:MM:SS or its parts by name."""
    if isinstance(value, Mapping):
        parts = ("days", "hours", "minutes", "seconds")
        return bool(value) and all(name in parts and _is_whole(n) and 0 < n <= _MOST for name, n in value.items())
    return isinstance(value, str) and bool(re.fullmatch(r"\d{1,3}(:\d\d){3}", value))


def _check_strategy(strategy: Any) -> None:
    if started := re.search("spawn|fork|notebook", str(strategy)):
        raise ValueError(f"--trainer.strategy ddp_{started[0]} cannot hand a model to its processes; use ddp")
    known = ["auto", *StrategyRegistry.available_strategies()]
    if isinstance(strategy, str) and strategy not in known:
        close = closest(strategy, known)
        raise ValueError(
            f"--trainer.strategy must be auto, ddp, fsdp or another strategy of Lightning, got {in_short(strategy)}"
            f"{f'; did you mean {close}?' if close else ''}"
        )


def _check_devices(accelerator: Any, devices: Any) -> None:
    wanted = "--trainer.devices must be auto, a whole number from 1, -1 for all, or a list of GPUs such as [0, 1]"
    cores = os.cpu_count() or 1
    most = _PROCESSES_A_CORE * cores
    text = str(devices).strip()
    if devices is None or text == "auto" or isinstance(devices, list):
        numbers = devices if isinstance(devices, list) else []
        if (isinstance(devices, list) and not devices) or any(not _is_whole(one) or one < 0 for one in numbers):
            raise ValueError(f"{wanted}, got {in_short(devices)}")
        return
    if re.fullmatch(r"\d+(\s*,\s*\d+)+,?|\d+,", text):  # a list, as Lightning reads it
        return
    if not re.fullmatch(r"-1|[1-9]\d{0,9}", text):
        raise ValueError(f"{wanted}, got {in_short(devices)}")
    if accelerator == "cpu" and int(text) > most:
        raise ValueError(
            f"--trainer.devices {text} starts as many processes on the CPU, this machine has {cores} cores; "
            f"give at most {most}"
        )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _check_seed(seed: Any) -> None:
    if seed is not None and not isinstance(seed, bool) and not (_is_whole(seed) and 0 <= seed < 2**32):
        raise ValueError(f"--seed_everything must be a whole number from 0 to {2**32 - 1}, got {in_short(seed)}")


def _is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
