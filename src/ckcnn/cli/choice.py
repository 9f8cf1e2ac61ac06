"""Which run folder and which checkpoint a command means."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lightning_utilities.core.rank_zero import rank_zero_info, rank_zero_only
from pytorch_lightning import Callback, LightningDataModule
from pytorch_lightning.callbacks import WeightAveraging

import ckcnn
from ckcnn import presets
from ckcnn.data_options import DEFAULTS, PLACES
from ckcnn.datamodules import SequenceDataModule
from ckcnn.datamodules.array_file import without_labels
from ckcnn.datamodules.preprocessing import Preprocessing
from ckcnn.datamodules.sequences import facts_of, said_of
from ckcnn.models.ckcnn import CKCNN
from ckcnn.models.optimization import planned_steps
from ckcnn.models.own_net import OwnNet, needs_net, with_stored_arguments
from ckcnn.models.sequence_module import SequenceModule
from ckcnn.presets import Layer, Layers, value_of
from ckcnn.runs import checkpoints, lock, training_state
from ckcnn.runs.checkpoint_structure import settings_of
from ckcnn.runs.folder import RunFolder, check_name

_SAMPLING = ("horizon", "dt")  # facts that may differ between training and test: the network knows what they mean


@dataclass(frozen=True)
class Choice:
    """What a command works on.

    Attributes:
        name: of the runs, a folder in the folder of all runs.
        run: the folder of the run; None if it needs a new one.
        checkpoint: where to start from; None to train from scratch.
        content: of the checkpoint.
    """

    name: str
    run: RunFolder | None
    checkpoint: Path | None = None
    content: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def steps(self) -> int:
        """Training steps of the checkpoint."""
        steps = self.content.get("global_step", 0)
        return steps if isinstance(steps, int) else 0  # whatever else it is, `check_state` refuses it


def layers_of(arguments: Sequence[str]) -> Layers:
    """Read the presets, overlays and flags of a command; without any file, take that of the run to resume or test."""
    layers = Layers.of_arguments(arguments)
    if layers.files:
        return layers
    named = value_of(layers.merged(), "ckpt_path")
    run = RunFolder.of(Path(named)) if isinstance(named, str) else None
    if isinstance(named, str) and named not in ("best", "last") and not Path(named).exists():
        raise ValueError(f"there is no run folder or checkpoint {named}")
    return replace(layers, layers=(Layer.of_file(str(run.config)), *layers.layers)) if run else layers


def choose(command: str, config: Any, files: Sequence[Path]) -> Choice:
    """Find what `--ckpt_path` means: a file, a run folder, ``best`` or ``last`` of the newest run.

    Without it, training starts from scratch, and also with ``last`` if there is nothing yet to resume, so that a job
    that may be started again can always say ``last``. The other commands take the best checkpoint by default.

    Raises:
        ValueError: if there is no such checkpoint.
    """
    source = RunFolder.of(files[0]) if files else None
    name = check_name(config.name or (files[0].stem if files else "run"))
    parent = Path(config.runs) / name
    if command == "fit":
        return _for_training(name, source or RunFolder.begun(parent), config)
    wanted = config.ckpt_path or "best"
    if wanted not in ("best", "last"):
        path = _file(Path(wanted), "best")
    elif run := source or RunFolder.trained(parent):
        path = run.checkpoint(wanted)
    else:
        raise ValueError(f"there is no trained run in {parent}; train one with ckcnn fit, or give --ckpt_path")
    return Choice(name, RunFolder.of(path), path, checkpoints.load(path))


def _for_training(name: str, newest: RunFolder | None, config: Any) -> Choice:
    if config.ckpt_path is None:
        return Choice(name, None)
    if config.ckpt_path == "last":
        if newest is None:
            return Choice(name, None)
        _hold(newest)
        if not newest.last.is_file():
            return Choice(name, newest)
        path = newest.last
    else:
        path = _file(Path(config.ckpt_path), "last")
    run = RunFolder.of(path)
    if run is None or path != run.last:
        return Choice(name, None, path, checkpoints.load(path))
    _hold(run)
    content = checkpoints.load(path)
    _check_same_data(run, content, config)
    if run.path.name.startswith("version_"):
        name = run.path.absolute().parent.name
    return Choice(name, run, path, content)


def _hold(run: RunFolder) -> None:
    """One process of a run keeps others away from its folder, before it reads what they may be writing."""
    if getattr(rank_zero_only, "rank", 0) == 0:
        lock.hold(run)


def _file(path: Path, which: str) -> Path:
    if not path.is_dir():
        return path
    run = RunFolder.of(path)
    if run is None:
        raise ValueError(f"{path} is not a run folder (it would hold the config.yaml and the checkpoints of a run)")
    return run.checkpoint(which)


def _check_same_data(run: RunFolder, content: dict[str, Any], config: Any) -> None:
    """A run is resumed with the data that it began with.

    How large the batches of all processes together are is compared by the data module, which knows how many there are.
    """
    elastic = any(isinstance(state, dict) and "together" in state for state in content.values())
    free = {*PLACES, "batch_size"} if elastic else PLACES
    before = presets.load(run.config).get("data") or {}
    now = config.data
    pairs = {"class_path": (before.get("class_path"), now.class_path)}
    module, _, name = now.class_path.rpartition(".")
    options = _defaults(getattr(importlib.import_module(module), name)) | before.get("init_args", {})
    pairs |= {key: (options.get(key), value) for key, value in (now.get("init_args") or {}).items()}
    for key, (old, new) in pairs.items():
        if key not in free and old != new:
            raise ValueError(f"{run.path} was trained with data.{key} {old}, got {new}; {_WAYS_OUT}")


def _defaults(kind: type) -> dict[str, Any]:
    """The defaults of a class: what a run had for options that are newer than it."""
    made = [vars(cls)["__init__"] for cls in reversed(kind.__mro__) if "__init__" in vars(cls)]
    entries = [entry for function in made for entry in inspect.signature(function).parameters.values()]
    return {entry.name: entry.default for entry in entries if entry.default is not entry.empty}


_STEPS = ("max_epochs", "max_steps", "limit_train_batches", "accumulate_grad_batches", "overfit_batches")


def check_same_cycle(choice: Choice, config: Any, model: SequenceModule) -> None:
    """A one-cycle schedule is made for a number of steps, so what they follow from stays as it was.

    Raises:
        ValueError: if a setting differs; the message names it.
    """
    if choice.run is None or choice.checkpoint is None or not model.has_planned_steps:
        return
    before = presets.load(choice.run.config).get("trainer") or {} if choice.run.config.is_file() else {}
    for key in _STEPS:
        if key in before and before[key] != config.trainer[key]:
            raise ValueError(
                f"{choice.run.path} was started with trainer.{key} {before[key]} and schedule {model.schedule}, got "
                f"{config.trainer[key]}, and a cycle cannot be extended or shortened; {_WAYS_OUT}"
            )


_WAYS_OUT = "keep it as it was to resume, or leave out --ckpt_path to start a new run"


def check_same_model(choice: Choice, model: SequenceModule) -> None:
    """Training resumes with the settings that it began with.

    Raises:
        ValueError: if a setting differs; the message names it.
    """
    stored = _defaults(type(model)) | settings_of(choice.content, choice.checkpoint)
    if choice.content["model_class"] != type(model).__name__:
        old, new = choice.content["model_class"], type(model).__name__
        raise ValueError(f"{choice.checkpoint} holds a {old}, not a {new}; {_WAYS_OUT}")
    for key, value in model.hparams.items():
        if key != "dt" and stored.get(key) != value:
            before = f"{choice.checkpoint} was trained with model.{key} {stored.get(key)}"
            raise ValueError(f"{before}, got {value}; {_WAYS_OUT}")
    settings = model.training_settings()
    trained = choice.content.get("training") or dict.fromkeys(settings)  # earlier versions had nothing to choose
    for key, value in settings.items():
        if trained.get(key) != value:
            old, new = (_in_words(named) for named in (trained.get(key), value))
            raise ValueError(f"{choice.checkpoint} was trained with {key} {old}, got {new}; {_WAYS_OUT}")


def _in_words(named: Any) -> str:
    """A class and its arguments, in one line."""
    if not isinstance(named, Mapping) or "class_path" not in named:
        return str(named or "left out")
    given = ", ".join(f"{name}={value}" for name, value in (named.get("init_args") or {}).items())
    return f"{named.get('class_path')}({given})"


def check_place(choice: Choice, data: LightningDataModule) -> None:
    """Only data modules of ours resume in the middle of an epoch.

    Raises:
        ValueError: if the checkpoint is of the middle of an epoch, and the data module is not one of ours.
    """
    fit = choice.content.get("loops", {}).get("fit_loop", {})
    progress = fit.get("epoch_loop.batch_progress", {})
    inside = progress.get("current", {}).get("completed", 0) and not progress.get("is_last_batch", True)
    if inside and not isinstance(data, SequenceDataModule):
        raise ValueError(
            f"{choice.checkpoint} was written in the middle of an epoch, where {type(data).__name__} cannot resume: "
            "which of its sequences were seen is not known; use a checkpoint of the end of an epoch"
        )


def check_state(choice: Choice, model: SequenceModule, callbacks: Sequence[Callback]) -> None:
    """What a checkpoint brings fits the run, before Lightning hands it to optimizer, schedule, loops and callbacks.

    Raises:
        ValueError: if it does not; the message names what differs.
    """
    content = choice.content
    averages = any(isinstance(callback, WeightAveraging) for callback in callbacks)
    if averages != ("current_model_state" in content):
        before, now = ("without", "with") if averages else ("with", "without")
        raise ValueError(
            f"{choice.checkpoint} was trained {before} an average of the weights (WeightAveraging), got {now}; "
            f"{_WAYS_OUT}"
        )
    try:
        training_state.check_version(content)
        training_state.check_weights(model, content["state_dict"])
        training_state.check_average(model, content)
        training_state.check_counts(content)
        training_state.check_callbacks(callbacks, content.get("callbacks", {}))
        metrics = [metric.metric_state for metric in model.train_metrics()]
        for part in (content.get("epoch_so_far", []), *content.get("epoch_so_far_of_each", [])):
            training_state.check_metrics(metrics, part)
        if type(model).configure_optimizers is SequenceModule.configure_optimizers:  # otherwise only the user knows
            _check_optimizer(model, content)
    except training_state.StateError as error:
        raise ValueError(f"{choice.checkpoint} cannot be resumed from: {error}; use another checkpoint") from None


def _check_optimizer(model: SequenceModule, content: Mapping[str, Any]) -> None:
    optimizers, schedules = (content.get(name, []) for name in ("optimizer_states", "lr_schedulers"))
    for name, states in (("optimizer_states", optimizers), ("lr_schedulers", schedules)):
        if not isinstance(states, list) or len(states) > 1:  # none: imported weights
            raise training_state.StateError(f"{name} must be a list of one state, got {str(states)[:60]}")
    optimizer = model.make_optimizer()
    for state in optimizers:
        training_state.check_optimizer(optimizer, state)
    for state in schedules:
        schedule = model.make_schedule(optimizer, planned_steps(state) or 1)
        if schedule is None:
            raise training_state.StateError("lr_schedulers must be empty for a constant learning rate")
        training_state.check_schedule(schedule, state)


def load_model(choice: Choice, configured: SequenceModule, data: LightningDataModule) -> SequenceModule:
    """The model of a checkpoint, with its own settings; how the data is sampled comes from the data.

    How kernels are read at a lower rate changes no weights, so the configured model may say it, too.

    Raises:
        ValueError: if it does not fit the data.
    """
    _check_rate(choice, data)
    kind = _kind(str(choice.content["model_class"]), configured)
    facts = facts_of(data)  # type: ignore[arg-type]
    settings = {**settings_of(choice.content, choice.checkpoint), "dt": facts.dt}
    if issubclass(kind, CKCNN) and configured.hparams.get("coarse"):
        settings["coarse"] = configured.hparams["coarse"]
    known = [*_SAMPLING, *(() if said_of(data, "labelled") else ("out_channels", "task"))]  # labels say the last two
    for fact, value in facts._asdict().items():
        if fact not in known and settings[fact] != value:
            raise ValueError(
                f"{choice.checkpoint} was trained for {fact} {settings[fact]}, the data has {value}; "
                "give the settings of the data that it was trained with (drop_rate and missing add channels)"
            )
    if settings["horizon"] != facts.horizon:
        rank_zero_info(
            f"the memory of the network is {settings['horizon']} training samples, the sequences of the data have "
            f"{facts.horizon}; for another sampling rate, use --data.test_dt"
        )
    state = choice.content.get("preprocessing")
    trained = Preprocessing.from_state(state) if state else None
    if trained and isinstance(data, SequenceDataModule):
        data.use_statistics(trained)
    parts = _own_parts(choice, kind, configured)
    try:
        model = kind(**settings, **parts)
        model.load_state_dict(choice.content["state_dict"])
    except (KeyError, TypeError, AttributeError, RuntimeError):
        raise ValueError(
            f"{choice.checkpoint} does not hold what its settings say: its weights belong to a different network"
        ) from None
    if trained:
        model.use_preprocessing(trained)
    return model


def _own_parts(choice: Choice, kind: type[SequenceModule], configured: SequenceModule) -> dict[str, Any]:
    """What no checkpoint says: losses, metrics and networks of the user's own, which the command line names."""
    parts, stored = configured.own_parts(), choice.content.get("net")
    if issubclass(kind, OwnNet) and "net" not in parts:
        raise ValueError(f"{choice.checkpoint}: {needs_net(stored, 'name it yourself with --model.net {name}')}")
    return parts | ({"net": with_stored_arguments(parts["net"], stored)} if "net" in parts else {})


def check_labels(command: str, data: LightningDataModule) -> None:
    """Only `predict` can do without labels.

    Raises:
        ValueError: if there are none; the message says what to do.
    """
    if not said_of(data, "labelled") and command != "predict":
        raise ValueError(without_labels(Path(said_of(data, "files")[0])))


def check_stamps(model: SequenceModule, data: LightningDataModule) -> None:
    """Data with time stamps is for models that take them.

    Raises:
        ValueError: if it is not; the message says what to do.
    """
    stamped = said_of(data, "stamped")
    if not model.takes_times and (stamped or said_of(data, "missing") == "times"):
        advice = "leave times out of the file" if stamped else "use --data.missing mask"
        raise ValueError(
            f"{type(model).__name__} takes no time stamps, and the data has them; {advice}, or use a CKCNN"
        )


def _check_rate(choice: Choice, data: LightningDataModule) -> None:
    """The rate of training is what the network counts time in; the data must know it."""
    if choice.run is None:
        return
    trained = value_of(presets.load(choice.run.config), "data.train_dt") or DEFAULTS["train_dt"]
    now = said_of(data, "train_dt")
    if trained != now:
        raise ValueError(
            f"{choice.run.path} was trained with data.train_dt {trained}, got {now}; "
            f"give --data.train_dt {trained}, or --ckpt_path {choice.run.path} without --config, which knows it"
        )


def _kind(name: str, configured: SequenceModule) -> type[SequenceModule]:
    """The class of that name: one of ours, or the user's own, but never one that only the file names."""
    if name == type(configured).__name__:
        return type(configured)
    if name in ckcnn.MODELS:
        return getattr(ckcnn, name)
    raise ValueError(f"the checkpoint holds a {name}; give its class with --model")
