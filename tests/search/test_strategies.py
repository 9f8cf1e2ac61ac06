"""Every strategy finds the best omega_0 of a known curve, and draws the same values however the work is shared."""

from __future__ import annotations

import math
from typing import get_args

import optuna
import pytest
from optuna.pruners import HyperbandPruner, MedianPruner, NopPruner
from optuna.trial import create_trial

from ckcnn.search.objective import TrialFailed
from ckcnn.search.space import OMEGA_0, parse
from ckcnn.search.storage import retry, superseded
from ckcnn.search.strategies import NarrowSampler, Strategy, make_pruner, make_sampler

optuna.logging.set_verbosity(optuna.logging.ERROR)
SPACE = parse([], (1.0, 1000.0))
TRIALS = 30
BEST = 31.0


def objective(trial: optuna.Trial) -> float:
    omega_0 = trial.suggest_float(OMEGA_0, 1.0, 1000.0, log=True)
    return -abs(math.log(omega_0 / BEST))


def study_of(strategy: str, trials: int = TRIALS, seed: int = 0) -> optuna.Study:
    return optuna.create_study(direction="maximize", sampler=make_sampler(strategy, SPACE, trials, seed))  # type: ignore[arg-type]


@pytest.mark.parametrize("strategy", get_args(Strategy))
def test_finds_the_best(strategy: str) -> None:
    study = study_of(strategy)
    study.optimize(objective, n_trials=TRIALS)
    assert len(study.trials) == TRIALS
    # 30 values on three decades: neighbours on an even grid are a factor of 1.27 apart
    near = {"tpe": 1.1, "gp": 1.05, "narrow": 1.1}.get(strategy, 1.27)
    assert 1 / near < study.best_params[OMEGA_0] / BEST < near


def test_grid_tries_each_point_once() -> None:
    study = study_of("grid", 7)
    study.optimize(objective, n_trials=7)
    tried = sorted(trial.params[OMEGA_0] for trial in study.trials)
    assert tried == pytest.approx([10 ** (index / 2) for index in range(7)])


def test_random_values_follow_from_the_number_of_the_trial() -> None:
    alone, one, other = study_of("random"), study_of("random"), study_of("random")
    alone.optimize(objective, n_trials=6)
    shared = []
    for number in range(6):  # two workers take turns; each has a sampler of its own
        worker = (one, other)[number % 2]
        worker.add_trials(trial for trial in shared if trial.number >= len(worker.trials))
        worker.optimize(objective, n_trials=1)
        shared.append(worker.trials[-1])
    assert [trial.params for trial in shared] == [trial.params for trial in alone.trials]
    assert len({trial.params[OMEGA_0] for trial in shared}) == 6


@pytest.mark.parametrize("strategy", ["random", "narrow"])
def test_a_retry_does_not_change_what_others_draw(strategy: Strategy) -> None:
    """Also if the trial that is run again fails a second time."""
    plain, retried = (study_of(strategy) for _ in range(2))
    plain.optimize(objective, n_trials=8)
    failing = {2, 3}

    def sometimes(trial: optuna.Trial) -> float:
        value = objective(trial)
        if trial.number in failing:
            raise TrialFailed
        return value

    def again(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        if trial.state == optuna.trial.TrialState.FAIL:
            retry(study, trial)

    retried.optimize(sometimes, n_trials=10, catch=(TrialFailed,), callbacks=[again])
    gone = superseded(retried.trials)
    assert len(gone) == 2
    kept = [trial.params for trial in retried.trials if trial.number not in gone]
    assert sorted(map(str, kept)) == sorted(str(trial.params) for trial in plain.trials)


def test_another_seed_draws_other_values() -> None:
    first, second = study_of("random", seed=0), study_of("random", seed=1)
    for study in (first, second):
        study.optimize(objective, n_trials=3)
    assert not {t.params[OMEGA_0] for t in first.trials} & {t.params[OMEGA_0] for t in second.trials}


def narrowed(values: list[float], round_size: int = 8) -> tuple[float, float]:
    study = optuna.create_study(direction="maximize")
    whole = SPACE[OMEGA_0]
    for omega_0 in values:
        score = -abs(math.log(omega_0 / BEST))
        study.add_trial(create_trial(params={OMEGA_0: omega_0}, distributions={OMEGA_0: whole}, value=score))
    part = NarrowSampler(round_size, 0).narrowed(study, OMEGA_0, whole)  # type: ignore[arg-type]
    return part.low, part.high


def test_narrow_shrinks_to_the_best_quarter_and_its_neighbours() -> None:
    values = [1.0, 3.0, 10.0, 20.0, 40.0, 100.0, 300.0, 1000.0]
    assert narrowed(values[:7]) == (1.0, 1000.0)  # the first round is not over
    assert narrowed(values) == (10.0, 100.0)  # 20 and 40 are the best two of eight
    assert narrowed([*values, 12.0, 15.0, 25.0, 30.0, 33.0, 60.0, 80.0, 90.0]) == (20.0, 60.0)  # 25, 30, 33, 40


def test_narrow_never_leaves_the_interval() -> None:
    assert narrowed([25.0, 30.0, 31.0, 32.0], round_size=4)[0] >= 1.0
    assert narrowed([], round_size=4) == (1.0, 1000.0)


def test_pruners() -> None:
    assert isinstance(make_pruner("none", 20), NopPruner)
    assert isinstance(make_pruner("hyperband", 200), HyperbandPruner)
    assert isinstance(make_pruner("median", None), MedianPruner)


@pytest.mark.parametrize("pruner", ["median", "hyperband"])
def test_bad_trials_are_pruned_and_good_ones_are_not(pruner: str) -> None:
    study = optuna.create_study(direction="maximize", pruner=make_pruner(pruner, 20), study_name="a")  # type: ignore[arg-type]

    def curve(trial: optuna.Trial) -> float:
        height = trial.suggest_float("height", 0, 1)
        for epoch in range(1, 21):
            trial.report(height * epoch / 20, epoch)
            if trial.should_prune():
                raise optuna.TrialPruned
        return height

    for height in [0.5, 0.6, 0.7, 0.4, 0.3, 0.9, *[0.1] * 10]:
        study.enqueue_trial({"height": height})
    study.optimize(curve, n_trials=16)
    pruned = [trial for trial in study.trials if trial.state.name == "PRUNED"]
    assert len(pruned) >= 5
    assert study.best_value == 0.9
