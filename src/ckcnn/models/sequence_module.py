"""How every model is trained: one step for all tasks and splits, metrics, optimiser and schedule."""

from __future__ import annotations

import copy
import math
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, cast, get_args

import torch
from pytorch_lightning import Callback, LightningModule
from pytorch_lightning.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.optim.lr_scheduler import OneCycleLR, ReduceLROnPlateau
from torchmetrics import Metric, MetricCollection

import ckcnn
from ckcnn.checks import check_choice, check_fraction, check_not_negative, is_number
from ckcnn.compat.lightning import attached_trainer, use_hook_beside_data
from ckcnn.compat.torchmetrics import restore
from ckcnn.datamodules import SequenceBatch, SequenceDataModule
from ckcnn.datamodules.loading import ResumableLoader
from ckcnn.datamodules.preprocessing import Preprocessing
from ckcnn.datamodules.sequences import SPLITS, SequenceData, facts_of
from ckcnn.datamodules.transforms import Statistics
from ckcnn.models import optimization, own_metrics, pretrained
from ckcnn.models.finite_loss import FiniteLoss
from ckcnn.models.optimization import FOR_ALL_STEPS, OptimizerFactory, Schedule, ScheduleFactory
from ckcnn.models.own_metrics import OwnMetrics
from ckcnn.nn.lengths import check_lengths
from ckcnn.tasks import IGNORED, TASKS, Mode
from ckcnn.tasks.metrics import WeightedMean


class SequenceModule(LightningModule):
    """A network on sequences: everything about training that does not depend on the network.

    A subclass takes its arguments, calls `save_hyperparameters`, and sets `net`, which maps ``(x, dt, times, lengths)``
    to the output of the task.

    Args:
        task: kind of problem, a key of `ckcnn.tasks.TASKS`.
        out_channels: classes, or values to predict.
        dt: sampling step of each split, in training samples.
        learning_rate: learning rate of Adam; with a schedule, the highest one.
        schedule: ``"plateau"`` divides the learning rate by `decay` after `patience` epochs without a better value of
            the monitored validation metric; ``"one_cycle"`` rises and falls once over all epochs; ``"cosine"`` rises
            linearly and falls as half a cosine; ``"constant"``.
        patience: epochs without improvement before a plateau lowers the learning rate.
        decay: what a plateau divides the learning rate by.
        weight_decay: weight decay of AdamW; 0 is Adam.
        label_smoothing: label smoothing of the training loss of a classifier.
        warm_up: fraction of a ``"one_cycle"`` or ``"cosine"`` schedule in which the learning rate rises.
        loss: loss to use instead of the task's: any module that takes the network's output and the targets.
        metrics: metrics of torchmetrics in addition to the task's: one, a list, or several by name.
        monitor: metric that chooses the best epoch, such as ``"auroc"`` or ``"loss"``; by default the task's.
        mode: whether a good value of `monitor` is large (``"max"``) or small (``"min"``), if the metric does not say.
    """

    takes_times = True  # whether `net` knows what to do with time stamps
    net: nn.Module

    def __init__(
        self,
        task: str,
        out_channels: int,
        dt: dict[str, float] | None = None,
        learning_rate: float = 1e-3,
        schedule: Schedule = "plateau",
        patience: int = 20,
        decay: float = 5.0,
        weight_decay: float = 0.0,
        label_smoothing: float = 0.0,
        warm_up: float = 0.3,
        loss: nn.Module | None = None,
        metrics: OwnMetrics = None,
        monitor: str | None = None,
        mode: Mode | None = None,
    ) -> None:
        super().__init__()
        use_hook_beside_data("on_before_batch_transfer")
        _check_training(task, learning_rate, schedule, patience, decay)
        check_not_negative("weight_decay", weight_decay)
        check_fraction("label_smoothing", label_smoothing)
        if not is_number(warm_up) or not 0 <= warm_up <= 1:
            raise ValueError(f"warm_up must lie in [0, 1], the part of the schedule, got {warm_up!r}")
        self.task = TASKS[task]
        if label_smoothing and loss is not None:
            raise ValueError("label_smoothing is for the loss of the task; leave it out, or give it to your own loss")
        self.loss, self.own_metrics = loss, own_metrics.of_splits(metrics, self.task)
        self.monitored = own_metrics.monitored(self.task, self.own_metrics, monitor, mode)
        self.dt = dict.fromkeys(SPLITS, 1.0) | (dt or {})
        self.learning_rate, self.schedule, self.patience, self.decay = learning_rate, schedule, patience, decay
        self.weight_decay, self.label_smoothing, self.warm_up = weight_decay, label_smoothing, warm_up
        self.losses = nn.ModuleList(WeightedMean() for _ in SPLITS)
        self.metrics = nn.ModuleList(self.task.collection(out_channels, split) for split in SPLITS)
        self.confusion = self.task.confusion and self.task.confusion(out_channels)
        self.preprocessing: Preprocessing | None = None  # what training did to raw sequences
        self.target_statistics: Statistics | None = None  # no buffer: averages of the weights would count it in
        self.preset: str | None = None
        self.network_name = type(self).__name__  # as results call it
        self.confused: list[list[int]] | None = None  # rows are classes, columns answers, after a test
        self.planned_steps: int | None = None  # of a schedule for all steps, if the run is resumed
        self.optimizer_factory: OptimizerFactory | None = None
        self.schedule_factory: ScheduleFactory | None = None

    @property
    def monitor(self) -> str:
        """The logged name of the metric that chooses the best epoch."""
        return f"val/{self.monitored[0]}"

    @property
    def mode(self) -> Mode:
        """Whether a good value of `monitor` is large or small."""
        return self.monitored[1]

    @property
    def stopping(self) -> tuple[str, Mode]:
        """What early stopping watches, as it is logged, and whether a good value is large or small."""
        is_default = self.monitored[0] == self.task.monitor
        name, mode = self.task.stopping if is_default else self.monitored
        return f"val/{name}", mode

    @classmethod
    def for_data(cls, data: SequenceData, **options: Any) -> Self:
        """Return a model for a data module, which knows the channels, the task, the length and the sampling steps.

        Args:
            data: the data module.
            options: of the model; a fact among them, such as `horizon`, takes the place of that of the data.

        Example:
            >>> from ckcnn import CKCNN
            >>> from ckcnn.datamodules import Digits
            >>> CKCNN.for_data(Digits(), omega_0="auto").hparams["out_channels"]
            10
        """
        return cls(**{**facts_of(data)._asdict(), **options})

    def forward(self, x: Tensor, dt: float = 1.0, times: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """What the network returns: scores of classes, or values.

        Args:
            x: signals ``(B, C, T)``; for language, tokens ``(B, T)``.
            dt: sampling step, in training samples.
            times: stamps ``(B, T)``, in training samples.
            lengths: number of valid steps ``(B,)``.

        Returns:
            ``(B, outputs)``, or ``(B, outputs, T)`` for a task with an output at every step.
        """
        if isinstance(x, SequenceBatch):
            raise ValueError("forward takes tensors, got a SequenceBatch; call model.answers(batch)")
        valid = {} if lengths is None else {"lengths": lengths}
        return self.net(x, dt=dt, times=times, **valid)

    def answers(self, batch: SequenceBatch, split: str = "test", step: float = 1.0) -> Tensor:
        """What the network returns for a batch.

        Args:
            batch: of sequences.
            split: which says how the batch is sampled.
            step: keeps every n-th of these samples, as the first epochs of a training from coarse to fine do.

        Raises:
            ValueError: if the batch is something else, such as a pair.
        """
        _check_batch(batch)
        return self(batch.x, dt=self.dt[split] * step, times=batch.times, lengths=batch.lengths)

    def penalty(self) -> Tensor | float:
        """What training adds to the loss."""
        return 0.0

    def on_before_batch_transfer(self, batch: SequenceBatch, dataloader_idx: int) -> SequenceBatch:
        """What can only be checked by value is checked here, where the batch still is on the CPU."""
        _check_batch(batch)
        if batch.lengths is not None:
            check_lengths(batch.lengths, len(batch.x), batch.x.shape[-1])
        return batch

    def training_step(self, batch: SequenceBatch, index: int) -> Tensor:
        loader = self.trainer.train_dataloader
        share, step = 1.0, 1
        if isinstance(loader, ResumableLoader):
            share, step = loader.share(index), loader.step(self.current_epoch)
        return self._step(batch, "train", step=step) * share + self.penalty()

    def validation_step(self, batch: SequenceBatch, index: int) -> None:
        self._step(batch, "val")

    def test_step(self, batch: SequenceBatch, index: int) -> None:
        self._step(batch, "test", self.confusion)

    def predict_step(self, batch: SequenceBatch, index: int) -> tuple[Tensor, Tensor]:
        """What `ckcnn predict` writes, and the targets."""
        return self.task.answer(self._in_their_units(self.answers(batch))), batch.y

    def _step(self, batch: SequenceBatch, split: str, confusion: Metric | None = None, step: float = 1.0) -> Tensor:
        answers = self.answers(batch, split, step)
        target, values = self._scaled(batch.y), self._in_their_units(answers)
        if split == "train" and self.label_smoothing and self.task.smoothable:
            loss = nn.functional.cross_entropy(
                answers, target, ignore_index=IGNORED, label_smoothing=self.label_smoothing
            )
        elif self.loss is not None:
            loss = self._own_loss(answers, target)
        else:
            loss = self.task.loss(answers, target)
        mean_loss, metrics = self._meters(split)
        mean_loss.update(loss.detach(), self.task.counted(batch.y).sum())
        metrics.update(values.detach(), batch.y)
        self._update_own(split, values.detach(), batch.y)
        if confusion is not None:
            confusion.update(answers.detach(), batch.y)
        return loss

    def _own_loss(self, answers: Tensor, target: Tensor) -> Tensor:
        given = own_metrics.for_loss(self.task, answers, target)
        with own_metrics.refusing(f"the loss {type(self.loss).__name__}", *given):
            loss: Tensor = cast(nn.Module, self.loss)(*given)
        if loss.numel() != 1:
            raise ValueError(f"the loss {type(self.loss).__name__} must be one number, got shape {tuple(loss.shape)}")
        return loss

    def _update_own(self, split: str, answers: Tensor, target: Tensor) -> None:
        given = own_metrics.for_metric(self.task, answers, target)
        for name, metric in self._own(split).items():
            with own_metrics.refusing(f"the metric {name}", *given):
                metric.update(*given)

    def _scaled(self, target: Tensor) -> Tensor:
        """Targets as the network is trained on them."""
        statistics = self._target_statistics(target.device)
        return target if statistics is None else statistics.apply(target)

    def _in_their_units(self, answers: Tensor) -> Tensor:
        """Answers in the units of the targets."""
        statistics = self._target_statistics(answers.device)
        return answers if statistics is None else statistics.undo(answers)

    def _target_statistics(self, device: torch.device) -> Statistics | None:
        """Those of the training targets, moved once to where they are needed."""
        found = self.target_statistics
        if found is not None and found.mean.device != device:
            self.target_statistics = found.to(device)
        return self.target_statistics

    def _meters(self, split: str) -> tuple[WeightedMean, MetricCollection]:
        index = list(SPLITS).index(split)
        return cast(WeightedMean, self.losses[index]), cast(MetricCollection, self.metrics[index])

    def _own(self, split: str) -> MetricCollection:
        return cast(MetricCollection, self.own_metrics[list(SPLITS).index(split)])

    def on_train_epoch_end(self) -> None:
        self._log_split("train")
        for scheduler in self._schedulers():
            if isinstance(scheduler, ReduceLROnPlateau):
                self._step_plateau(scheduler)

    def _step_plateau(self, scheduler: ReduceLROnPlateau) -> None:
        metrics, monitor = self.trainer.callback_metrics, getattr(scheduler, "monitor", None)
        if monitor is not None and monitor not in metrics:
            raise ValueError(f"lr_scheduler.monitor must be one of {', '.join(sorted(metrics))}, got {monitor}")
        if (monitor or self.monitor) in metrics:  # some train without validation
            scheduler.step(metrics[monitor or self.monitor])

    def on_validation_epoch_end(self) -> None:
        self._log_split("val")

    def on_test_epoch_end(self) -> None:
        self._log_split("test")
        if self.confusion is not None:
            self.confused = self.confusion.compute().tolist()
            self.confusion.reset()

    def _log_split(self, split: str) -> None:
        """Values are computed over all processes here, so that each sample counts once."""
        mean_loss, metrics = self._meters(split)
        if split == "train":
            self.log("learning_rate", self.trainer.optimizers[0].param_groups[0].get("lr", math.nan))
            if (schedule := getattr(self.trainer.train_dataloader, "schedule", None)) is not None:
                self.log("train/dt", float(schedule.step(self.current_epoch)))
        data = getattr(self.trainer, "datamodule", None)
        reference = data.reference_scores(split) if isinstance(data, SequenceDataModule) and split != "train" else {}
        others = {f"{split}/{name}": value for name, value in reference.items()}
        self.log_dict(
            {
                f"{split}/loss": mean_loss.compute(),
                **metrics.compute(),
                **own_metrics.computed(self._own(split)),
                **others,
            }
        )
        mean_loss.reset()
        self._own(split).reset()
        metrics.reset()

    def configure_callbacks(self) -> list[Callback]:
        """What any trainer does for this module: it ends a training that diverged."""
        return [FiniteLoss()]

    def parameter_groups(self, learning_rate: float, weight_decay: float) -> list[dict[str, Any]]:
        """What the optimiser gets."""
        return [{"params": list(self.parameters()), "lr": learning_rate, "weight_decay": weight_decay}]

    def optimize_with(
        self, optimizer: OptimizerFactory | None = None, lr_scheduler: ScheduleFactory | None = None
    ) -> Self:
        """Take another optimizer than Adam, or another schedule than those that have a name, and return the model.

        Args:
            optimizer: its class, or a `functools.partial` with settings. It gets the groups of `parameter_groups`, and
                the learning rate and the weight decay of the model if it does not say its own.
            lr_scheduler: the same for the schedule, which steps after every epoch, or at every step if it is a cycle.

        Example:
            >>> from functools import partial
            >>> from torch.optim import SGD
            >>> from ckcnn import CKCNN
            >>> model = CKCNN(1, 2, "classification", 8).optimize_with(partial(SGD, momentum=0.9))
            >>> model.make_optimizer().defaults["momentum"]
            0.9
        """
        self.optimizer_factory, self.schedule_factory = optimizer, lr_scheduler
        return self

    @property
    def has_planned_steps(self) -> bool:
        """Whether the schedule is made for the number of steps of the run."""
        return self.schedule_factory is None and self.schedule in FOR_ALL_STEPS

    def own_parts(self) -> dict[str, Any]:
        """Return what was given as an object, such as a loss, which no hyperparameter holds."""
        metrics = {name.partition("/")[2]: metric for name, metric in self._own("test").items()}
        return {name: part for name, part in (("loss", self.loss), ("metrics", metrics)) if part}

    def training_settings(self) -> dict[str, Any]:
        """Return what a run must keep when it is resumed and the hyperparameters do not hold."""
        parts = {"optimizer": self.optimizer_factory, "lr_scheduler": self.schedule_factory}
        settings = {name: factory and optimization.described(factory) for name, factory in parts.items()}
        own = self.own_parts()
        metrics = {name: type(metric).__name__ for name, metric in own.get("metrics", {}).items()}
        return {**settings, "loss": type(self.loss).__name__ if self.loss else None, "metrics": metrics or None}

    def configure_optimizers(self) -> OptimizerLRScheduler:
        optimizer = self.make_optimizer()
        schedule = self.make_schedule(optimizer, self._steps_of_the_run() if self.has_planned_steps else 1)
        if schedule is None:
            return optimizer
        if self.schedule_factory is not None:
            optimization.check_steps(schedule, self.trainer.estimated_stepping_batches)
        if optimization.runs_each_step(schedule):
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}
        monitor = getattr(schedule, "monitor", self.monitor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "monitor": monitor, "strict": False}}

    def make_optimizer(self) -> torch.optim.Optimizer:
        """Return a new optimizer of all parameters.

        Raises:
            ValueError: if it cannot be used with the settings of the trainer.
        """
        given = optimization.keywords(self.optimizer_factory)
        rate, decay = given.get("lr", self.learning_rate), given.get("weight_decay", self.weight_decay)
        groups = self.parameter_groups(rate, decay)
        trainer = attached_trainer(self)
        clips = trainer is not None and bool(trainer.gradient_clip_val) and "mixed" in str(trainer.precision)
        if self.optimizer_factory is None:
            return optimization.adam(groups, rate, bool(decay), fused=not clips)
        if clips and given.get("fused"):
            raise ValueError("a fused optimizer clips no gradients in mixed precision; set --optimizer.fused false")
        return optimization.build(self.optimizer_factory, groups, rate)

    def make_schedule(self, optimizer: torch.optim.Optimizer, steps: int = 1) -> Any:
        """Return a new schedule, for this many steps if it depends on them; None for a constant learning rate."""
        if self.schedule_factory is not None:
            return self.schedule_factory(optimizer)
        if self.schedule == "constant":
            return None
        if self.schedule == "one_cycle":
            rates = [group["lr"] for group in optimizer.param_groups]
            cycles = bool({"momentum", "betas"} & optimizer.defaults.keys())  # what it also changes
            rise = 0.0 if self.warm_up * steps == 1 else self.warm_up  # torch divides by that, less one
            return OneCycleLR(optimizer, rates, total_steps=steps, pct_start=rise, cycle_momentum=cycles)
        if self.schedule == "cosine":
            return optimization.cosine(optimizer, steps, self.warm_up)
        return ReduceLROnPlateau(optimizer, self.mode, factor=1 / self.decay, patience=self.patience)

    def _steps_of_the_run(self) -> int:
        """All steps of the run; a run that is resumed must have as many as it was begun with."""
        steps = self.trainer.estimated_stepping_batches
        if steps == math.inf:
            raise ValueError(f"schedule {self.schedule} needs an end: set --trainer.max_epochs, or --trainer.max_steps")
        if self.planned_steps not in (None, steps):
            raise ValueError(
                f"the run was started with schedule {self.schedule} over {self.planned_steps} steps, got "
                f"{steps}, and a cycle cannot be extended or shortened; keep the epochs, the size of the batches and "
                "the number of processes as they were, or leave out --ckpt_path to start a new run"
            )
        return int(steps)

    def lr_scheduler_step(self, scheduler: Any, metric: Any) -> None:
        """Plateaus step in `on_train_epoch_end`: Lightning would do it after the checkpoint of the epoch is written."""
        if not isinstance(scheduler, ReduceLROnPlateau):
            super().lr_scheduler_step(scheduler, metric)

    def _schedulers(self) -> list[Any]:
        found = self.lr_schedulers() or []
        return found if isinstance(found, list) else [found]

    def setup(self, stage: str) -> None:
        """Lightning converts a model after it has loaded the weights, which would round those of double precision."""
        if self.trainer.precision == "64-true":
            self.double()

    def on_fit_start(self) -> None:
        """Take from the data what a user of the trained network will need; it is kept in every checkpoint."""
        data = getattr(self.trainer, "datamodule", None)
        if isinstance(data, SequenceDataModule):
            if data.schedule is not None and not self.takes_times:
                raise ValueError(
                    f"schedule_dt is for networks that know the sampling step, and {type(self).__name__} counts "
                    "samples; leave it out, or use a CKCNN"
                )
            self.use_preprocessing(data.preprocessing)

    def use_preprocessing(self, trained: Preprocessing) -> None:
        """Keep what is done to raw sequences, and the statistics of the targets where the network is."""
        self.preprocessing, self.target_statistics = trained, trained.target_statistics

    def artefact(self) -> dict[str, Any]:
        """Return what using the trained network needs: weights, settings and what was done to raw sequences."""
        content: dict[str, Any] = {
            "model_class": type(self).__name__,
            "hyper_parameters": dict(self.hparams),
            "state_dict": dict(self.state_dict()),
            "made_by": {"ckcnn": ckcnn.__version__, "preset": self.preset},
        }
        if self.preprocessing is not None:
            content["preprocessing"] = self.preprocessing.state()
        return content

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write ``config.json`` and ``model.safetensors``, which `from_pretrained` and `ckcnn.load` read."""
        pretrained.write_folder(self.artefact(), Path(folder))

    def push_to_hub(self, repository: str, private: bool = True) -> str:
        """Upload to the Hugging Face hub what `save_pretrained` writes, and return its address.

        Args:
            repository: ``owner/name``; it is made if it is not there.
            private: whether a new repository is visible to its owner alone.

        Raises:
            ValueError: if `huggingface_hub` is not installed, or the hub refuses it.
        """
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return pretrained.push_folder(Path(folder), repository, private)

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str], **own: Any) -> Self:
        """Return the model of an exported folder, ready to be evaluated or trained further.

        Args:
            folder: what ``ckcnn export`` or `save_pretrained` wrote. A name such as ``owner/name`` that is not a folder
                is downloaded from the Hugging Face hub, if `huggingface_hub` is installed.
            own: what no file holds, such as the ``net`` of a `ckcnn.OwnNet`.

        Raises:
            ValueError: if it holds no model of this class.
        """
        place = pretrained.find_folder(Path(folder))
        content = pretrained.read_folder(place)
        if content["model_class"] != cls.__name__:
            raise ValueError(f"{place} holds a {content['model_class']}, not a {cls.__name__}")
        return cls.from_artefact(content, **own)

    @classmethod
    def from_artefact(cls, content: Mapping[str, Any]) -> Self:
        """Return the model that `artefact` describes, ready to be evaluated or trained further."""
        model = cls(**inference_settings(content))
        model.load_state_dict(inference_weights(content))
        model.on_load_checkpoint(dict(content))
        return model.eval()

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the artefact, and what the metrics of all processes have seen of an epoch that is not over."""
        checkpoint |= {name: value for name, value in self.artefact().items() if name not in checkpoint}
        checkpoint["training"] = self.training_settings()
        checkpoint["epoch_so_far"] = []
        for metric in self.train_metrics():
            if metric.update_count:
                with metric.sync_context(should_sync=self.trainer.world_size > 1):
                    checkpoint["epoch_so_far"].append(copy.deepcopy(metric.metric_state))
        if self.trainer.world_size > 1:  # a sum depends on its order, so each process resumes with its own part
            own = [copy.deepcopy(metric.metric_state) for metric in self.train_metrics() if metric.update_count]
            parts: list[Any] = [None] * self.trainer.world_size
            torch.distributed.all_gather_object(parts, own)
            checkpoint["epoch_so_far_of_each"] = parts

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take over what the checkpoint knows besides weights; also called by `load_from_checkpoint`.

        Raises:
            ValueError: if the checkpoint is from a different model.
        """
        self._check_class(checkpoint.get("model_class"))
        if "preprocessing" in checkpoint:
            self.use_preprocessing(Preprocessing.from_state(checkpoint["preprocessing"]))
        self.preset = self.preset or checkpoint.get("made_by", {}).get("preset")
        if attached_trainer(self) is not None:  # a run is resumed; `load_from_checkpoint` begins a new one
            self._resume_epoch(checkpoint)

    def _check_class(self, stored: str | None) -> None:
        kind = next((kind.__name__ for kind in type(self).__mro__ if kind.__name__ in ckcnn.MODELS), None)
        if stored in ckcnn.MODELS and stored != kind:
            raise ValueError(
                f"the checkpoint holds a {stored}, not a {type(self).__name__}; load it with ckcnn.{stored}"
            )

    def _resume_epoch(self, checkpoint: Mapping[str, Any]) -> None:
        states = checkpoint.get("epoch_so_far", []) if self.global_rank == 0 else []  # of all, so one of them has it
        parts = checkpoint.get("epoch_so_far_of_each", [])
        if torch.distributed.is_initialized() and len(parts) == torch.distributed.get_world_size():
            states = parts[self.global_rank]
        for metric, state in zip(self.train_metrics(), states, strict=False):
            restore(metric, state)
        states = checkpoint.get("lr_schedulers", [])
        self.planned_steps = next((optimization.planned_steps(state) for state in states), None)
        if "loader_position" in checkpoint:  # of an earlier version; otherwise the data module has its own
            self.trainer.datamodule.load_state_dict(checkpoint["loader_position"])  # type: ignore[attr-defined]

    def train_metrics(self) -> list[Metric]:
        """Return the metrics of the epoch, whose state is kept in checkpoints."""
        mean_loss, metrics = self._meters("train")
        return [mean_loss, *metrics.values(), *self._own("train").values()]


def inference_settings(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a stored model without those about metrics, which may be a user's own."""
    return {name: value for name, value in content["hyper_parameters"].items() if name not in ("monitor", "mode")}


def inference_weights(content: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the weights of a stored model without those of a loss, which may be a user's own."""
    return {name: value for name, value in content["state_dict"].items() if not name.startswith("loss.")}


def _check_batch(batch: object) -> None:
    if not isinstance(batch, SequenceBatch):
        raise ValueError(
            f"a data module yields SequenceBatch(x, y), got a {type(batch).__name__}; "
            "from ckcnn.datamodules import SequenceBatch"
        )


def _check_training(task: str, learning_rate: float, schedule: str, patience: int, decay: float) -> None:
    check_choice("task", task, tuple(TASKS))
    check_choice("schedule", schedule, get_args(Schedule))
    if not is_number(learning_rate) or not 0 < learning_rate < math.inf:
        raise ValueError(f"learning_rate must be a positive number, got {learning_rate!r}")
    if isinstance(patience, bool) or not isinstance(patience, int) or patience < 0:
        raise ValueError(f"patience must be a whole number of epochs from 0, got {patience!r}")
    if not is_number(decay) or not 1 < decay < math.inf:
        raise ValueError(f"decay must be a number above 1, the learning rate is divided by it, got {decay!r}")
