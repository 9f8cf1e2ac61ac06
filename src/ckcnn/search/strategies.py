"""Samplers that choose the next values, and pruners that stop bad trials."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, NopPruner
from optuna.samplers import BaseSampler, GPSampler, GridSampler, RandomSampler, TPESampler
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from ckcnn.search.space import Space, grid
from ckcnn.search.storage import is_retry, superseded

Strategy = Literal["tpe", "narrow", "gp", "random", "grid"]
Pruner = Literal["median", "hyperband", "none"]
_STARTUP = 5  # trials that are never pruned
_ROUNDS = 5  # of the strategy "narrow"


def make_sampler(strategy: Strategy, space: Space, trials: int, seed: int) -> BaseSampler:
    """The sampler of a strategy, for a study of this many trials."""
    kinds: dict[str, Callable[[int], BaseSampler]] = {
        "tpe": lambda seed: TPESampler(seed=seed, multivariate=len(space) > 1, constant_liar=True),
        "gp": lambda seed: GPSampler(seed=seed),
        "narrow": lambda seed: NarrowSampler(max(_STARTUP, trials // _ROUNDS), seed),
        "random": lambda seed: RandomSampler(seed=seed),
        "grid": lambda _: GridSampler(grid(space, trials), seed=seed),  # the order of the points is that of the study
    }
    return SeededByTrial(kinds[strategy], seed)


def make_pruner(pruner: Pruner, epochs: int | None) -> BasePruner:
    """The pruner for trials of this many epochs.

    The median is asked five times in the course of a trial, first after a tenth of the epochs: asked after every epoch,
    it saves no more, but any bad moment is the end of a trial, often of the best one (``benchmarks/pruning.py``).
    """
    if pruner == "none":
        return NopPruner()
    if pruner == "hyperband":
        return HyperbandPruner(min_resource=max(1, (epochs or 1) // 20), max_resource=epochs or "auto")
    between = max(1, (epochs or 1) // 5)
    return MedianPruner(n_startup_trials=_STARTUP, n_warmup_steps=(epochs or 0) // 10, interval_steps=between)


class SeededByTrial(BaseSampler):
    """Makes the randomness of a trial a function of the seed and its place among the trials, those run again left out.

    So random values do not depend on how many workers there are and on how often they were stopped or killed, and no
    two workers draw the same ones.
    """

    def __init__(self, make: Callable[[int], BaseSampler], seed: int) -> None:
        self._make, self._seed = make, seed
        self._samplers: dict[int, BaseSampler] = {}

    def _of(self, study: Study, trial: FrozenTrial) -> BaseSampler:
        if trial.number not in self._samplers:
            earlier = (other for other in study.get_trials(deepcopy=False) if other.number < trial.number)
            place = sum(not is_retry(other) for other in earlier)
            self._samplers[trial.number] = self._make(self._seed * 1_000_003 + place)
        return self._samplers[trial.number]

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        self._of(study, trial).before_trial(study, trial)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._of(study, trial).infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self._of(study, trial).sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self._of(study, trial).sample_independent(study, trial, param_name, param_distribution)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        self._of(study, trial).after_trial(study, trial, state, values)
        del self._samplers[trial.number]


class NarrowSampler(RandomSampler):
    """The paper's search (Appx. E.3): random values, then random values in the best part of the interval, and again.

    After each round an interval shrinks to what the best quarter of all trials spans, out to the nearest values on
    either side that are not among them.

    Args:
        round_size: trials of a round.
        seed: of the random values.
    """

    def __init__(self, round_size: int, seed: int) -> None:
        super().__init__(seed)
        self._round_size = round_size

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        if isinstance(param_distribution, FloatDistribution | IntDistribution):
            param_distribution = self.narrowed(study, param_name, param_distribution)
        return super().sample_independent(study, trial, param_name, param_distribution)

    def narrowed(
        self, study: Study, name: str, whole: FloatDistribution | IntDistribution
    ) -> FloatDistribution | IntDistribution:
        """Return the part of an interval from which the next value is drawn."""
        trials = study.get_trials(deepcopy=False)
        again = superseded(trials)
        ended = [
            trial
            for trial in trials
            if trial.state.is_finished() and name in trial.params and trial.number not in again
        ]
        ended = ended[: len(ended) // self._round_size * self._round_size]
        scored = [trial for trial in ended if trial.state == TrialState.COMPLETE]
        scored.sort(key=lambda trial: trial.value or 0.0, reverse=study.direction == StudyDirection.MAXIMIZE)
        best = [trial.params[name] for trial in scored[: math.ceil(len(ended) / 4)]]
        if not best:
            return whole
        tried = [trial.params[name] for trial in ended]
        low = max((value for value in tried if value < min(best)), default=whole.low)
        high = min((value for value in tried if value > max(best)), default=whole.high)
        return type(whole)(max(low, whole.low), min(high, whole.high), log=whole.log)  # type: ignore[arg-type]
