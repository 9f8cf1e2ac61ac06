"""Values of every setting in every group, given as a flag or in a file: wrong types, bounds, NaN, huge, nested."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tests.campaign.case import Expected, Kind, drawn
from tests.campaign.material import TINY_MODEL, TINY_TRAINER

_HUGE = (10**5, 10**6, 10**8, 10**12, 2**31, 2**63, 10**30)
_NUMBERS = (0, -1, 1, 2, 3, 7, 0.5, -0.5, 1.5, 1e-30, 1e300, math.nan, math.inf, -math.inf, *_HUGE, -(10**9))
_TEXTS = (
    "",
    " ",
    "x",
    "auto",
    "nan",
    "1e999",
    "null",
    "none",
    "True",
    "é",
    "a b",
    "../x",
    "/",
    "~",
    "%s",
    "{}",
    "\n",
    "0x10",
)
_NESTED = ([], {}, [1, 2], [[]], {"a": 1}, {"class_path": "x"}, [None], {"a": {"b": []}}, [{}], {"1": 2})


_CLASSES_NEVER = ("NoSuch", "True", "torch.nn.GELU", "Optimizer", "LRScheduler")  # or of another kind


def _whole(low: float, high: float = 10**4) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, int) and not isinstance(v, bool) and low <= v <= high


def _real(low: float, high: float, open_low: bool = False, open_high: bool = False) -> Callable[[Any], bool]:
    def fits(v: Any) -> bool:
        if isinstance(v, bool) or not isinstance(v, int | float) or not math.isfinite(v):
            return False
        return (v > low if open_low else v >= low) and (v < high if open_high else v <= high)

    return fits


def _one_of(*known: Any) -> Callable[[Any], bool]:
    return lambda v: any(v == entry and type(v) is type(entry) for entry in known)


def _or(*rules: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda v: any(rule(v) for rule in rules)


def _class_name(v: Any) -> bool:
    return isinstance(v, str) and bool(re.search(r"[A-Z]\w+$", v)) and v not in _CLASSES_NEVER


def _anything(v: Any) -> bool:
    return True


_fraction, _flag = _real(0, 1, open_high=True), _one_of(True, False)
_batches = _or(_real(0, 1), _whole(0, 10**12))
_nothing = _one_of(None)
_rate = _one_of(1, 2, 4, 8, 16)

# What Lightning and torch know besides: some of it needs a machine or a package that is not here.
_CHOICES: dict[str, tuple[Any, ...]] = {
    "trainer.strategy": ("fsdp", "deepspeed", "ddp_fork", "ddp_notebook", "single_device", "xla", "dpp", "DDPStrategy"),
    "trainer.accelerator": ("gpu", "cuda", "mps", "tpu", "hpu", "CPUAccelerator"),
    "trainer.precision": ("64-true", "bf16-true", "16-true", "16-mixed", "transformer-engine", "64", 16, "8", 8),
    "trainer.profiler": ("pytorch", "xla", "passthrough", "SimpleProfiler", "Profiler"),
    "trainer.plugins": ("DoublePrecision", "SLURMEnvironment", "AsyncCheckpointIO", "os.system", "MixedPrecision"),
    "trainer.callbacks": (
        *("StochasticWeightAveraging", "LearningRateFinder", "BatchSizeFinder", "EarlyStopping", "ModelCheckpoint"),
        *("Callback", "GradientAccumulationScheduler", "ModelPruning", "BackboneFinetuning", "torch.nn.GELU", "Timer"),
    ),
    "trainer.logger": ("CSVLogger", "WandbLogger", "MLFlowLogger", "Logger", "print"),
    "trainer.max_time": ("00:00:00:00", "00:00:00:01", "1 hour", "-1:0:0:0", {"hours": "x"}, {"minutes": -1}),
    "trainer.val_check_interval": (1000, "00:00:00:01", "-00:00:00:01", 2, 1.0),
    "trainer.limit_train_batches": (0, 0.0, 1e-9),
    "trainer.limit_val_batches": (0, 0.0, 1e-9),
    "trainer.overfit_batches": (1, 0.001),
    "trainer.reload_dataloaders_every_n_epochs": (1,),
    "model.kernel": ("fourier", "magnet", "points", "relu"),
    "model.conv": ("depthwise", "separable"),
    "model.block": ("pre_norm", "pre_norm_gated"),
    "model.stem": ("conv",),
    "model.norm": ("batch", "step"),
    "model.window": ("layer", "channel"),
    "model.loss": ("torch.nn.MSELoss", "torch.nn.CrossEntropyLoss", "torch.nn.GELU", "os.system", "torch.nn.NLLLoss"),
    "model.metrics": (
        *("torchmetrics.MeanMetric", "torchmetrics.Metric", "torchmetrics.F1Score", "torch.nn.GELU", "os.system"),
        {"f1": {"class_path": "torchmetrics.F1Score"}},
        {"f1": {"class_path": "torchmetrics.MeanMetric", "init_args": {"x": 1}}},
        {"": {"class_path": "torchmetrics.MeanMetric"}},
        {"accuracy": {"class_path": "torchmetrics.MeanMetric"}},
        {"a/b": {"class_path": "torchmetrics.MeanMetric"}},
    ),
    "model.monitor": ("accuracy", "loss", "val/accuracy", "train/loss", "nothing", "val/"),
    "model.mode": ("min", "max", "MIN", "most"),
    "model.horizon": (1, 2, 64, 10**7, 10**10),
    "data.augment": ("crop", "crop_flip", "shift", "flip"),
    "data.schedule_dt": ("8:1,1:1", "1:1", "2:1", "1:1,2:1", "8:0,1:1", "2:999999,1:1", "64:1,1:1", "8:1,4:1,2:1,1:1"),
    "data.missing": ("mask", "times", "counts"),
    "optimizer": (
        "SGD",
        "LBFGS",
        "SparseAdam",
        "Adafactor",
        "ASGD",
        "Optimizer",
        "torch.nn.GELU",
        "NoSuch",
        "os.system",
    ),
    "lr_scheduler": (
        "StepLR",
        "OneCycleLR",
        "LambdaLR",
        "CyclicLR",
        "LRScheduler",
        "SequentialLR",
        "NoSuch",
        "os.system",
    ),
    "name": ("../x", "a/b", "a" * 300, "version_0", "-x", "a\nb"),
    "early_stopping": ("EarlyStopping",),
}

# For each setting what a good value may be: anything else that is accepted is a failure.
RULES: dict[str, Callable[[Any], bool]] = {
    "model.hidden_channels": _whole(1),
    "model.num_blocks": _whole(1),
    "model.omega_0": _or(_real(0, 1e300, open_low=True), _one_of("auto")),
    "model.kernel": _one_of("sine", "relu", "leaky_relu", "swish", "fourier", "magnet", "points"),
    "model.kernel_hidden": _whole(1),
    "model.init": _or(_nothing, _one_of("reference")),
    "model.norm": _one_of(None, "global", "step", "batch"),
    "model.readout": _one_of("last", "mean"),
    "model.dropout": _fraction,
    "model.input_dropout": _fraction,
    "model.weight_dropout": _fraction,
    "model.embedding_channels": _whole(1, 10**40),  # without effect here
    "model.embedding_dropout": _fraction,
    "model.kernel_penalty": _real(0, 1e300),
    "model.learning_rate": _real(0, 1e300, open_low=True),
    "model.schedule": _one_of("plateau", "one_cycle", "cosine", "constant"),
    "model.patience": _whole(0, 10**40),
    "model.decay": _real(1, 1e300, open_low=True),
    "model.block": _one_of("paper", "pre_norm", "pre_norm_gated"),
    "model.conv": _one_of("dense", "depthwise", "separable"),
    "model.stem": _one_of("linear", "conv"),
    "model.window": _one_of("none", "layer", "channel"),
    "model.sigma_0": _real(1e-4, 1e4),
    "model.causal": _flag,
    "model.activation": _one_of("gelu", "relu", "silu"),
    "model.learn_omega_0": _flag,
    "model.radius": _real(1e-4, 1),
    "model.kernel_rate": _real(0, 1e300),
    "model.window_rate": _real(0, 1e300),
    "model.weight_decay": _real(0, 1e300),
    "model.label_smoothing": _fraction,
    "model.warm_up": _real(0, 1),
    "model.loss": _or(_nothing, _class_name),
    "model.metrics": _or(_nothing, _class_name, _one_of({}), lambda v: isinstance(v, dict) and "f1" in v),
    "model.monitor": _or(_nothing, _one_of("accuracy", "loss", "val/accuracy", "train/loss", "val/loss")),
    "model.mode": _one_of(None, "min", "max"),
    "model.horizon": _or(_nothing, _whole(2, 10**9)),
    "optimizer": _or(_nothing, _class_name),
    "lr_scheduler": _or(_nothing, _class_name),
    "data.augment": _one_of("none", "crop", "crop_flip"),
    "data.on_device": _flag,
    "data.schedule_dt": _or(_nothing, lambda v: isinstance(v, str) and ":" in v),
    "data.antialias": _flag,
    "data.batch_size": _whole(1, 10**40),
    "data.num_workers": _whole(0, 200),
    "data.seed": _whole(0, 2**32),
    "data.drop_rate": _fraction,
    "data.missing": _one_of(None, "mask", "times", "counts"),
    "data.train_dt": _rate,
    "data.test_dt": _or(_nothing, _rate),
    "data.standardise": _one_of(None, "channel", "step", "none"),
    "data.pad": _one_of("paper", "valid"),
    "data.keep": _one_of("first", "last"),
    "trainer.max_epochs": _or(_nothing, _whole(-1, 2**31)),
    "trainer.min_epochs": _or(_nothing, _whole(0, 10**40)),
    "trainer.max_steps": _whole(-1, 10**40),
    "trainer.min_steps": _or(_nothing, _whole(0, 10**40)),
    "trainer.limit_train_batches": _or(_nothing, _batches),
    "trainer.limit_val_batches": _or(_nothing, _batches),
    "trainer.limit_test_batches": _or(_nothing, _batches),
    "trainer.limit_predict_batches": _or(_nothing, _batches),
    "trainer.overfit_batches": _batches,
    "trainer.val_check_interval": _or(_nothing, _real(0, 1, open_low=True), _whole(1, 10**40)),
    "trainer.check_val_every_n_epoch": _or(_nothing, _whole(1, 10**40)),
    "trainer.num_sanity_val_steps": _or(_nothing, _whole(-1, 10**40)),
    "trainer.log_every_n_steps": _or(_nothing, _whole(0, 10**40)),
    "trainer.accumulate_grad_batches": _whole(1, 10**40),
    "trainer.gradient_clip_val": _or(_nothing, _real(0, 1e300)),
    "trainer.gradient_clip_algorithm": _one_of(None, "norm", "value"),
    "trainer.deterministic": _or(_flag, _nothing, _one_of("warn")),
    "trainer.benchmark": _or(_flag, _nothing),
    "trainer.inference_mode": _flag,
    "trainer.use_distributed_sampler": _flag,
    "trainer.detect_anomaly": _flag,
    "trainer.barebones": _one_of(False),
    "trainer.reload_dataloaders_every_n_epochs": _whole(0, 10**40),
    "trainer.enable_model_summary": _or(_flag, _nothing),
    "trainer.enable_checkpointing": _or(_flag, _nothing),
    "trainer.accelerator": _one_of("cpu", "auto"),
    "trainer.devices": _one_of(1, "1", "auto", [0], -1),
    "trainer.num_nodes": _one_of(1),
    "trainer.strategy": _one_of("auto", "ddp"),
    "trainer.precision": _anything,
    "trainer.plugins": _or(_nothing, _one_of([], {}, False, True)),
    "trainer.profiler": _or(_nothing, _one_of("simple", "advanced")),
    "trainer.callbacks": _or(_nothing, _one_of([], {})),
    "trainer.logger": _or(_nothing, _flag, _one_of([])),
    "trainer.fast_dev_run": _or(_flag, _whole(0, 10**12)),
    "trainer.max_time": _or(_nothing, _anything),
    "trainer.sync_batchnorm": _flag,
    "trainer.default_root_dir": _anything,
    "early_stopping.patience": _whole(0, 10**40),
    "early_stopping.min_delta": _real(-1e300, 1e300),
    "early_stopping.stopping_threshold": _or(_nothing, _real(-1e301, 1e301)),
    "early_stopping.divergence_threshold": _or(_nothing, _real(-1e301, 1e301)),
    "early_stopping.check_finite": _flag,
    "early_stopping.strict": _flag,
    "early_stopping.verbose": _flag,
    "early_stopping.check_on_train_epoch_end": _or(_flag, _nothing),
    "early_stopping.log_rank_zero_only": _flag,
    "seed_everything": _or(_flag, _whole(0, 2**32 - 1)),
    "name": _anything,
    "paper": _anything,
    "variants": _anything,
    "monitor": _anything,
    "model": _anything,
    "data": _anything,
    "trainer": _anything,
    "early_stopping": _anything,
    "model.class_path": _anything,
    "data.class_path": _anything,
    "model.init_args": _anything,
    "data.init_args": _anything,
}

_values = st.one_of(
    st.sampled_from(_NUMBERS),
    st.sampled_from(_TEXTS),
    st.sampled_from(_NESTED),
    st.sampled_from([None, True, False]),
    st.integers(-5, 20),
    st.floats(-2, 2),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.integers(0, 3), max_size=3),
    st.dictionaries(st.sampled_from("ab"), st.integers(0, 2), max_size=2),
)
_strategy = st.fixed_dictionaries(
    {
        "value": _values,
        "choice": st.integers(0, 99),
        "file": st.booleans(),
        "model": st.sampled_from(["CKCNN"] * 4 + ["GRU", "LSTM", "TCN"]),
    }
)


def _draw(seed: int, count: int) -> list[tuple[Any, Expected]]:
    """Every setting in turn, so that none is left out; half of those with a choice get one of its values."""
    keys = list(RULES)
    random.Random(seed).shuffle(keys)
    recipes = [
        {"key": key, **rest} for key, rest in zip(itertools.cycle(keys), drawn(_strategy, seed, count), strict=False)
    ]
    return [(recipe, _expected(recipe)) for recipe in map(_alone, map(_chosen, recipes))]


def _chosen(recipe: dict[str, Any]) -> dict[str, Any]:
    recipe, number = dict(recipe), recipe["choice"]
    del recipe["choice"]
    choices = _CHOICES.get(recipe["key"], ())
    return {**recipe, "value": choices[number // 2 % len(choices)]} if choices and number % 2 else recipe


def _alone(recipe: dict[str, Any]) -> dict[str, Any]:
    """Several processes start this command again, which a case of this process is not: only far too many are tried."""
    value = recipe["value"]
    count = value if isinstance(value, int | float) else int(value) if str(value).isdecimal() else 0
    several = recipe["key"] in ("trainer.devices", "trainer.num_nodes") and 1 < count < 10**5
    return {**recipe, "value": 10**5} if several else recipe


def _expected(recipe: dict[str, Any]) -> Expected:
    """Flags are texts, which the parser may read as another type; only values in files are certain."""
    key, value = recipe["key"], recipe["value"]
    if isinstance(value, str) and (not recipe["file"] or value in ("0x10", "1e999", "nan", "True", "null", "~")):
        return "either"
    if recipe["model"] != "CKCNN" and key.startswith("model."):
        return "either"
    return "either" if RULES[key](_as_read(value)) else "refused"


def _as_read(value: Any) -> Any:
    """A whole number that is written as a float is one for most settings, and so is one that is a text."""
    if isinstance(value, float) and math.isfinite(value) and value == int(value) and abs(value) < 1e15:
        return int(value)
    return value


def arrange(recipe: dict[str, Any], folder: Path, material: Path) -> list[str]:
    key, value = recipe["key"], recipe["value"]
    base = [f"--data.root={material / 'data'}", f"--model={recipe['model']}"]
    tiny = TINY_MODEL if recipe["model"] == "CKCNN" else TINY_MODEL[:2]
    base = ["--config=digits.yaml", *base, *tiny, *TINY_TRAINER]
    if key == "trainer.max_epochs":  # many of them are no mistake
        base.append("--trainer.max_steps=2")
    if key in ("model", "data"):  # one that is replaced has no options of another
        base = [word for word in base if not word.startswith(f"--{key}.")]
    if not recipe["file"]:
        text = value if isinstance(value, str) else json.dumps(value)
        return ["fit", *base, f"--{key}={text}"]
    tree = value
    parts = key.split(".")
    if len(parts) == 2 and parts[0] in ("model", "data") and parts[1] not in ("class_path", "init_args"):
        parts.insert(1, "init_args")
    for part in reversed(parts):
        tree = {part: tree}
    (folder / "mine.yaml").write_text(_yaml(tree), encoding="utf-8")
    return ["fit", *base, "--config=mine.yaml"]


def _yaml(tree: Any) -> str:
    import yaml

    return yaml.safe_dump(tree, allow_unicode=True)


KIND = Kind("settings", _draw, arrange)
