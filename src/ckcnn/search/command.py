"""The function of ``ckcnn search``."""

from __future__ import annotations

import math
import os
import shlex
import warnings
from argparse import Namespace
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import optuna
import torch
from optuna.exceptions import ExperimentalWarning, UpdateFinishedTrialError
from optuna.trial import FrozenTrial
from rich.console import Console

from ckcnn.checks.hints import nearest
from ckcnn.cli import processes
from ckcnn.cli.quiet import make_quiet
from ckcnn.cli.rehearsal import WeightlessRehearsal
from ckcnn.compat.optuna import is_taken_over
from ckcnn.runs.folder import check_name
from ckcnn.runs.stopping import Stop, signals
from ckcnn.search import arguments, space
from ckcnn.search.objective import Objective, TrialFailed, TrialInterrupted
from ckcnn.search.outcome import STATES, Outcome
from ckcnn.search.progress import Progress
from ckcnn.search.storage import check_place, fail_dead, open_storage, retry, shown
from ckcnn.search.strategies import make_pruner, make_sampler
from ckcnn.search.study import open_study, question


def main(argv: Sequence[str]) -> int:
    """Run a search.

    Returns:
        0, or 1 if no trial has a value, 130 or 143 if it was stopped by a signal and can be resumed.

    Raises:
        ValueError: for a mistake of the user, before anything is trained.
    """
    options, others = arguments.parse(argv)
    stop = Stop.after(options.budget)
    _refuse_launchers()
    processes.warm_up()
    make_quiet()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=ExperimentalWarning)  # of Optuna: heartbeats and retries
    rehearsal = WeightlessRehearsal("fit", others)
    wanted = _space(options, rehearsal, others)
    if options.strategy == "grid":
        options.trials = math.prod(len(points) for points in space.grid(wanted, options.trials).values())
    name = check_name(options.name or f"{rehearsal.choice.name}_search")
    folder = Path(options.runs) / name
    options.storage = options.storage or f"sqlite:///{folder / 'search.db'}"
    check_place(options.storage)
    rehearsal.datamodule.prepare_data()  # once, not by all trials at the same time
    study = open_study(
        name,
        open_storage(options.storage),
        make_sampler(options.strategy, wanted, options.trials, int(rehearsal.config.seed_everything)),
        make_pruner(options.pruner, rehearsal.config.trainer.max_epochs),
        rehearsal.model.monitor,
        rehearsal.model.mode,
        question(rehearsal.choice.name, rehearsal.config, wanted),
    )
    return _search(options, study, folder, others, wanted, stop)


def _refuse_launchers() -> None:
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError(
            "ckcnn search is started once for each worker, not by torchrun; "
            "a trial starts its own processes: --trainer.devices 2 --trainer.strategy ddp"
        )


def _space(options: Namespace, rehearsal: WeightlessRehearsal, others: Sequence[str]) -> space.Space:
    """Return the search space, after trying every bound and choice on the model."""
    has_omega_0 = "omega_0" in rehearsal.config.model.init_args
    wanted = space.parse(options.space, (options.low, options.high) if has_omega_0 else None)
    for key in wanted:
        if "." not in key:
            known = [f"{part}.{name}" for part in ("model", "data") for name in vars(rehearsal.config[part].init_args)]
            raise ValueError(f"--space {key} must name its part, such as model; {nearest(f'model.{key}', known)}")
    if not wanted:
        raise ValueError(f"{type(rehearsal.model).__name__} has no omega_0; name what to search with --space")
    for values in space.corners(wanted):
        WeightlessRehearsal("fit", [*others, *space.flags(values)])
    return wanted


def _search(
    options: Namespace, study: optuna.Study, folder: Path, others: Sequence[str], wanted: space.Space, stop: Stop
) -> int:
    console = Console(soft_wrap=True, highlight=False)
    progress = Progress(console, study, options.trials, options.workers, stop)
    objective = Objective(
        arguments=others,
        space=wanted,
        monitor=progress.outcome.monitor,
        mode=progress.outcome.mode,
        folder=folder,
        stop=stop,
        shares=processes.shares(options.workers, torch.cuda.device_count(), os.environ.get("CUDA_VISIBLE_DEVICES")),
        threads=processes.threads(options.workers),
        watch=progress.watch,
    )

    def after(study: optuna.Study, trial: FrozenTrial) -> None:
        if {"interrupted", "killed"} & trial.user_attrs.keys():
            retry(study, trial)
        progress.ended(study, trial)
        progress.outcome.write(folder)
        if progress.outcome.is_hopeless():
            stop.reason = (
                f"the first {progress.outcome.count('failed')} trials all failed: {trial.user_attrs['reason']}"
            )
        if stop.now() or not _open(study, options.trials):
            study.stop()

    console.print(f"study {study.study_name} in {folder}: {progress.status()}")
    with signals(stop), progress.live:
        while (open_trials := _open(study, options.trials)) and not stop.now():
            side_by_side = min(options.workers, open_trials)
            failures = (TrialFailed, TrialInterrupted)
            try:
                study.optimize(objective, n_jobs=side_by_side, catch=failures, callbacks=[after])
            except (ValueError, UpdateFinishedTrialError) as error:
                if not is_taken_over(error):
                    raise
                console.print("another worker took over a trial, because this one had been silent for too long")
    return _report(options, study, folder, others, stop, console)


def _open(study: optuna.Study, trials: int) -> int:
    """Return how many trials remain to be started."""
    fail_dead(study)
    outcome = Outcome.of(study)
    return outcome.count("waiting") + max(0, trials - outcome.count(*STATES))


def _report(
    options: Namespace, study: optuna.Study, folder: Path, others: Sequence[str], stop: Stop, console: Console
) -> int:
    outcome = Outcome.of(study)
    files = outcome.write(folder)
    console.print()
    outcome.show(console)
    if stop.reason:
        done = f"{outcome.count('complete', 'pruned', 'failed')} of {options.trials} trials are done"
        console.print(f"{stop.reason}; {done}, run the same command to resume", markup=False)
    console.print(f"\nwritten: {', '.join(map(str, files))}")
    if outcome.ranked():
        train = shlex.join(["ckcnn", "fit", *others, "--config", str(folder / "best.yaml")])
        first = "" if find_spec("optuna_dashboard") else "pip install 'ckcnn\\[dashboard]'; "
        dashboard = f"{first}optuna-dashboard {shown(options.storage)}"
        console.print(f"What to do next:\n  {train}\n  tensorboard --logdir {folder}\n  {dashboard}")
    if code := stop.exit_code():
        return code
    going_on = outcome.ranked() or stop.reason or outcome.count("running", "waiting")
    return 1 if outcome.is_hopeless() or not going_on else 0
