"""Estimate the time of trainings on this machine, from a few measured steps or from their sizes."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from ckcnn import datamodules
from ckcnn.cli.rehearsal import Rehearsal
from ckcnn.data_options import OPTIONS
from ckcnn.datamodules import SequenceBatch, SequenceDataModule
from ckcnn.files import replacing
from ckcnn.reproduce.description import Training
from ckcnn.reproduce.jobs import Job
from ckcnn.runs.results_file import machine
from ckcnn.tasks import TASKS

_STEPS = 3
_ENOUGH = 2.0  # seconds; slower steps are measured once, after one to warm up
_MODEL = ("class_path", "hidden_channels", "num_blocks", "kernel")  # settings that the time of a step depends on
_YARDSTICK = Training("character_trajectories")  # short to measure; it shows how fast a machine is

# A training step on two cores of an AMD EPYC takes this many seconds for each sample of a batch, two blocks of 30
# channels. The four shapes of CKCNN in the README are within 30 % of it, and the baselines take so many times as long.
_SECONDS, _WIDTH_POWER = 4.5e-6, 1.35
_SLOWER = {"GRU": 4.3, "LSTM": 3.0, "TCN": 3.1}


class Estimates:
    """Seconds that jobs take; what was measured is kept in a file, and not measured again on the same machine.

    Args:
        path: of the file.
        others: options of every training.
        measure: whether to measure what is not known, which takes minutes; otherwise it is estimated from the sizes of
            data and network, and from what is known.
    """

    def __init__(self, path: Path, others: Sequence[str] = (), measure: bool = False) -> None:
        self.path, self.others, self.measure = path, others, measure
        self.machine = f"{machine()}, {torch.get_num_threads()} threads"
        self.rough = False  # whether something was estimated
        self._speed: float | None = None
        try:
            self.known: dict[str, dict[str, float]] = json.loads(path.read_text())
        except (OSError, ValueError):  # none yet, or none any more: it is measured again
            self.known = {}

    def seconds(self, job: Job) -> float:
        """Return the time of all epochs of a job, if it does not stop early."""
        known = self.known.setdefault(self.machine, {})
        if self.measure or shape_of(job.settings) in known:
            return self._measured(job) * job.epochs
        self.rough = True
        if self._speed is None:
            yardstick = Job(_YARDSTICK, 0, job.runs)
            self._speed = self._measured(yardstick) / by_size(yardstick.settings)
        return self._speed * by_size(job.settings) * job.epochs

    def _measured(self, job: Job) -> float:
        known, shape = self.known.setdefault(self.machine, {}), shape_of(job.settings)
        if shape not in known:
            known[shape] = seconds_per_epoch([*job.training.arguments(), *self.others])
            with replacing(self.path) as file:
                file.write((json.dumps(self.known, indent=1) + "\n").encode())
        return known[shape]


def by_size(settings: dict[str, Any]) -> float:
    """Seconds of an epoch on the machine of the README, roughly, from the sizes of data and network."""
    kind = getattr(datamodules, settings["data"]["class_path"].rpartition(".")[2])
    data = kind(**settings["data"].get("init_args", {}))
    model = settings["model"].get("init_args", {})
    samples = data.batch_size * data.horizon / data.dt["train"]
    width, blocks = model.get("hidden_channels", 30) / 30, model.get("num_blocks", 2) / 2
    slower = _SLOWER.get(settings["model"]["class_path"].rpartition(".")[2], 1.0)
    return float(_SECONDS * samples * width**_WIDTH_POWER * blocks * slower * batches(data))


def shape_of(settings: dict[str, Any]) -> str:
    """Return the settings that the time of an epoch depends on."""
    data = {"class_path": settings["data"]["class_path"], **settings["data"].get("init_args", {})}
    model = {"class_path": settings["model"]["class_path"], **settings["model"].get("init_args", {})}
    parts = [f"{name}={value}" for name, value in data.items() if name not in OPTIONS or OPTIONS[name].changes_time]
    parts += [f"{name}={model[name]}" for name in _MODEL if name in model]
    parts += ["penalty"] if model.get("kernel_penalty") else []
    return " ".join(parts)


def seconds_per_epoch(arguments: list[str]) -> float:
    """Return the seconds of an epoch with its validation, from a few steps on random data."""
    made = Rehearsal("fit", arguments)
    data, model = cast(SequenceDataModule, made.datamodule), made.model.train()  # of a preset
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    batch = random_batch(data)
    times: list[float] = []
    while len(times) < 2 or (len(times) <= _STEPS and sum(times) < _ENOUGH):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss: Tensor = model.task.loss(model.answers(batch, "train"), batch.y) + model.penalty()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        times.append(time.perf_counter() - start)
    return min(times[1:]) * batches(data)  # the first one warms up, and may take many times as long


def batches(data: SequenceDataModule) -> float:
    """Batches of an epoch; one of validation has no backward pass and counts a third."""
    if data.sizes is None:
        raise ValueError(f"{type(data).__name__} does not know its size before it is read")
    fresh = data.horizon - data.history if TASKS[data.task].from_tokens else 1  # characters that a window adds
    train, validation = (math.ceil(size / fresh / data.batch_size) for size in data.sizes[:2])
    return train + validation / 3


def random_batch(data: SequenceDataModule) -> SequenceBatch:
    """Return random data in the shape of a batch."""
    size, length = data.batch_size, round(data.horizon / data.dt["train"])
    task = TASKS[data.task]
    if task.from_tokens:
        tokens = torch.randint(data.out_channels, (size, length))
        return SequenceBatch(tokens, tokens)
    x = torch.randn(size, data.in_channels, length)
    shape = (size, *task.target_shape(data.out_channels, length))
    y = torch.randn(shape) if task.target == "value" else torch.randint(task.classes(data.out_channels), shape)
    return SequenceBatch(x, y)
