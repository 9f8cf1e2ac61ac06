"""Runs that are killed again and again, compared with runs that nobody stopped, to the last bit.

A case is one training. It is stopped one to four times, by SIGKILL or SIGTERM, at a random time or at an aimed moment,
resumes each time with ``--ckpt_path last``, and must end as an uninterrupted run with the same settings: weights,
optimizer, schedule, callbacks, table of metrics, names of files, and nothing else in the folder.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ckcnn.cli.processes import CommandProcess, alone
from ckcnn.runs import checkpoints, metrics_table
from tests.campaign import moments

Row = tuple[str, int, int, list[str]]  # kind, tried, failed, examples
EPOCHS = 4
FIT = [
    "fit",
    "--config=digits.yaml",
    "--model.hidden_channels=4",
    "--model.kernel_hidden=8",
    "--model.patience=0",
    "--trainer.accelerator=cpu",
    "--trainer.enable_progress_bar=false",
    "--trainer.limit_val_batches=2",
    f"--trainer.max_epochs={EPOCHS}",
]
# What changes the learning rate and the weights: a schedule of ours, or classes of torch.
SCHEDULES: dict[str, list[str]] = {
    **{name: [f"--model.schedule={name}"] for name in ("one_cycle", "plateau", "constant")},
    "cosine": ["--model.schedule=cosine", "--model.warm_up=0.3", "--model.weight_decay=0.01"],
    "SGD": ["--optimizer=SGD", "--optimizer.lr=0.1", "--optimizer.momentum=0.9", "--model.schedule=one_cycle"],
    "RMSprop, StepLR": ["--optimizer=RMSprop", "--lr_scheduler=StepLR", "--lr_scheduler.step_size=1"],
    "Adam, ReduceLROnPlateau": [
        "--lr_scheduler=ReduceLROnPlateau",
        "--lr_scheduler.monitor=val/loss",
        "--lr_scheduler.patience=0",
    ],
    "NAdam, CosineAnnealingLR": ["--optimizer=NAdam", "--lr_scheduler=CosineAnnealingLR", "--lr_scheduler.T_max=4"],
}
# What else a training may do, one at a time.
EXTRAS: dict[str, list[str]] = {
    "": [],
    "coarse to fine": ["--data.schedule_dt=4:1,2:1,1:2"],
    "augmented": ["--data.augment=crop_flip"],
    "clipped": ["--trainer.gradient_clip_val=0.01"],
    "clipped by value": ["--trainer.gradient_clip_val=0.001", "--trainer.gradient_clip_algorithm=value"],
    "validated within epochs": ["--trainer.val_check_interval=2"],
    "samples dropped": ["--data.drop_rate=0.3", "--data.missing=times"],
    "buffers": ["--model.norm=batch", "--model.dropout=0.3", "--model.learn_omega_0=true"],
    "bfloat16": ["--trainer.precision=bf16-mixed"],
    "own metric": [
        "--model.metrics=torchmetrics.classification.MulticlassF1Score",
        "--model.metrics.num_classes=10",
        "--model.monitor=MulticlassF1Score",
    ],
}
PAIRS = 0.08  # of the cases with two processes, which take long to start
_STOPPED = (-signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGTERM)
_PARTS = ("state_dict", "optimizer_states", "lr_schedulers", "callbacks", "epoch", "global_step", "preprocessing")
_PATIENCE = 300.0  # seconds for one training


class Settings(NamedTuple):
    """What a case trains with."""

    schedule: str
    batches: int
    accumulate: int
    workers: int
    processes: int
    extra: str = ""

    def flags(self) -> list[str]:
        several = ["--trainer.devices=2", "--trainer.strategy=ddp"] if self.processes == 2 else ["--trainer.devices=1"]
        return [
            *SCHEDULES[self.schedule],
            *EXTRAS[self.extra],
            f"--trainer.limit_train_batches={self.batches}",
            f"--trainer.accumulate_grad_batches={self.accumulate}",
            f"--data.num_workers={self.workers}",
            *several,
        ]


def run(
    seed: int, count: int, workers: int = 2, told: Callable[[str, str], None] = lambda what, problem: None
) -> list[Row]:
    """Stop runs at least `count` times and say how many of the stops led to a run that differs.

    Args:
        seed: of the cases.
        count: of the stops.
        workers: cases side by side.
        told: called after each case with what it was and what is wrong with its result.

    Returns:
        For each kind of stop: how many were tried, how many were part of a case that failed, and what happened then.
    """
    tried: dict[str, int] = defaultdict(int)
    failures: dict[str, list[str]] = defaultdict(list)
    top = Path(tempfile.mkdtemp(prefix="kills"))
    campaign = Campaign(top)
    cases = itertools.count(1)
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                if sum(tried.values()) >= count:
                    return
                case = next(cases)
            draw = random.Random(f"{seed} {case}")
            settings = _drawn(draw)
            kinds, problem = campaign.case(f"case_{case}", settings, draw)
            what = f"seed {seed}, case {case}, {settings}, {', '.join(kinds)}"
            with lock:
                told(what, problem)
                for kind in kinds:
                    tried[kind] += 1
                    if problem:
                        failures[kind].append(f"{what}: {problem}")

    try:
        with ThreadPoolExecutor(workers) as pool:
            for done in [pool.submit(work) for _ in range(workers)]:
                done.result()
    finally:
        shutil.rmtree(top, ignore_errors=True)
    return [(kind, number, len(failures[kind]), failures[kind][:3]) for kind, number in sorted(tried.items())]


def _drawn(draw: random.Random) -> Settings:
    return Settings(
        schedule=draw.choice(list(SCHEDULES)),
        batches=draw.choice([5, 8]),
        accumulate=draw.choice([1, 1, 3]),
        workers=draw.choice([0, 0, 0, 2]),
        processes=2 if draw.random() < PAIRS else 1,
        extra=draw.choice(list(EXTRAS)),
    )


class Campaign:
    """The folder of all cases, and the uninterrupted runs that they are compared with.

    Args:
        top: the folder.
    """

    def __init__(self, top: Path) -> None:
        self.top = top
        self.references: dict[Settings, tuple[Path, float]] = {}
        self.one_at_a_time = threading.Lock()

    def case(self, name: str, settings: Settings, draw: random.Random) -> tuple[list[str], str]:
        """Train with stops; return the kinds of the stops that took place, and what is wrong with the result."""
        reference, seconds = self._reference(settings)
        folder = self.top / name
        kinds: list[str] = []
        for _ in range(draw.randint(1, 4)):
            kind, code = self._stopped_once(folder, settings, draw, seconds)
            if code == 0:
                break  # it was faster
            kinds.append(kind)
            if code not in (
                -signal.SIGKILL,
                -signal.SIGTERM,
                128 + signal.SIGTERM,
                1 if settings.processes == 2 else -9,
            ):
                return kinds, f"exit code {code}: {_tail(folder)}"
        return (kinds, self._problem(folder, settings, reference)) if kinds else ([], "")

    def aimed(self, name: str, settings: Settings, moment: str, number: signal.Signals, rank: int = 0) -> str:
        """Train with one stop in the second epoch; return what is wrong with the result."""
        reference, _ = self._reference(settings)
        folder = self.top / name
        code = self._train(folder, settings, moments.flags(moment, number, 1, rank))
        if code not in _STOPPED and not (settings.processes == 2 and code):
            return f"exit code {code}: {_tail(folder)}"
        return self._problem(folder, settings, reference)

    def _problem(self, folder: Path, settings: Settings, reference: Path) -> str:
        """Train to the end and compare."""
        if code := self._train(folder, settings, ["--ckpt_path=last"]):
            return f"exit code {code} at the end: {_tail(folder)}"
        problem = difference(folder / "digits", reference / "digits")
        shutil.rmtree(folder, ignore_errors=True)
        return problem

    def _reference(self, settings: Settings) -> tuple[Path, float]:
        alike = settings._replace(workers=0)  # they change nothing
        with self.one_at_a_time:
            if alike not in self.references:
                folder = self.top / f"reference_{len(self.references)}"
                start = time.monotonic()
                if code := self._train(folder, alike, []):
                    raise RuntimeError(f"the uninterrupted run ended with exit code {code}: {_tail(folder)}")
                self.references[alike] = (folder, time.monotonic() - start)
            return self.references[alike]

    def _stopped_once(
        self, folder: Path, settings: Settings, draw: random.Random, seconds: float
    ) -> tuple[str, int | None]:
        number = draw.choice([signal.SIGKILL, signal.SIGTERM])
        rank = draw.randrange(settings.processes)
        if draw.random() < 0.3:
            delay = draw.uniform(0, seconds)
            return f"{number.name} at a random time", self._train(folder, settings, ["--ckpt_path=last"], number, delay)
        moment = draw.choice(moments.MOMENTS)
        stop = moments.flags(moment, number, draw.randrange(EPOCHS), rank)
        return f"{number.name}: {moment}", self._train(folder, settings, ["--ckpt_path=last", *stop])

    def _train(
        self,
        folder: Path,
        settings: Settings,
        options: list[str],
        number: signal.Signals | None = None,
        delay: float = _PATIENCE,
    ) -> int | None:
        environment = {**alone(os.environ), "CKCNN_DATA": str(self.top / "data"), "OMP_NUM_THREADS": "1"}
        words = [*FIT, *settings.flags(), f"--runs={folder}", *options]
        process = CommandProcess.start(words, folder / "log.txt", environment, 1)
        if not process.wait(delay):
            os.kill(process.process.pid or 0, number or signal.SIGKILL)
            if not process.wait(_PATIENCE):
                process.process.kill()
        process.process.join()
        return process.process.exitcode


def difference(runs: Path, reference: Path) -> str:
    """Return in which part two runs differ; nothing if they do not."""
    places = [place / "version_0" for place in (runs, reference)]
    names = [
        sorted(str(path.relative_to(place)) for path in place.rglob("*") if "tfevents" not in path.name)
        for place in places
    ]
    if names[0] != names[1]:
        return f"files {set(names[0]) ^ set(names[1])}"
    if [path.name for path in runs.iterdir()] != ["version_0"]:
        return "more than one run folder"
    ours, theirs = (checkpoints.load(place / "checkpoints/last.ckpt") for place in places)
    for content in (ours, theirs):
        content["callbacks"].pop("EpochClock", None)
    for part in (
        "state_dict",
        "optimizer_states",
        "lr_schedulers",
        "callbacks",
        "epoch",
        "global_step",
        "preprocessing",
    ):
        if not same(ours[part], theirs[part]):
            return f"{part} of the last checkpoint"
    tables = [[{**row, "seconds": None} for row in metrics_table.read(place / "metrics.csv")] for place in places]
    return "" if tables[0] == tables[1] else "metrics.csv"


def _names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if "tfevents" not in path.name}


def same(first: Any, second: Any) -> bool:
    """Return whether two trees of values are equal to the last bit."""
    if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor):
        return first.dtype == second.dtype and torch.equal(first, second)
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(first == second)


def _tail(folder: Path) -> str:
    lines = (folder / "log.txt").read_text(errors="replace").strip().splitlines()
    return " / ".join(lines[-2:])
