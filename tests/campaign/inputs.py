"""Bad inputs of all kinds: drawn from a seed, tried, judged."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.campaign import material as making
from tests.campaign.case import Case, Kind
from tests.campaign.judge import Verdict
from tests.campaign.kinds import (
    checkpoint_files,
    command_lines,
    data_files,
    estimators,
    forecasts,
    new_sequences,
    own_data,
    run_folders,
    searches,
    settings,
    weights,
    yaml_files,
)
from tests.campaign.workers import judge_all

# How many cases of a hundred are of each kind.
_SHARES: dict[Kind, int] = {
    settings.KIND: 27,
    yaml_files.KIND: 9,
    run_folders.KIND: 10,
    checkpoint_files.KIND: 11,
    own_data.KIND: 11,
    forecasts.KIND: 6,
    new_sequences.KIND: 9,
    data_files.KIND: 8,
    estimators.KIND: 4,
    searches.KIND: 3,
    weights.KIND: 4,
    command_lines.KIND: 8,
}
KINDS = {kind.name: kind for kind in _SHARES}


def cases(seed: int, count: int, only: str | None = None) -> list[Case]:
    """Draw at least `count` cases, always the same ones for a seed."""
    chosen = {kind: share for kind, share in _SHARES.items() if only in (None, kind.name)}
    whole = sum(chosen.values())
    return [
        Case(kind.name, recipe, expect)
        for kind, share in chosen.items()
        for recipe, expect in kind.draw(seed, -(-count * share // whole))
    ]


def run(
    seed: int,
    count: int,
    workers: int = 2,
    only: str | None = None,
    told: Callable[[Case, Verdict], None] = lambda case, verdict: None,
) -> list[tuple[str, int, int, list[str]]]:
    """Try cases.

    Returns:
        For each kind: its name, how many were tried, how many failed, and what was wrong with some of those.
    """
    chosen = cases(seed, count, only)
    with tempfile.TemporaryDirectory(prefix="campaign-") as place:
        verdicts = judge_all(chosen, making.make(Path(place)), workers, told)
    rows = []
    for name in dict.fromkeys(case.kind for case in chosen):
        of_kind = [(case, verdict) for case, verdict in zip(chosen, verdicts, strict=True) if case.kind == name]
        bad = [f"{case.recipe}: {verdict.problem}" for case, verdict in of_kind if verdict.problem]
        rows.append((name, len(of_kind), len(bad), bad[:5]))
    return rows
