"""A sample of the campaign: every kind of bad input is refused in one sentence, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaign import inputs, material
from tests.campaign.workers import judge_all

_SEED, _COUNT = 20, 200
_CASES = inputs.cases(_SEED, _COUNT)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return material.make(tmp_path_factory.mktemp("material"))


def test_the_sample_is_as_large_as_it_should_be() -> None:
    assert len(_CASES) >= _COUNT
    assert {case.kind for case in _CASES} == set(inputs.KINDS)
    assert inputs.cases(_SEED, _COUNT) == inputs.cases(_SEED, _COUNT)  # repeatable


@pytest.mark.parametrize("kind", inputs.KINDS)
def test_bad_input(kind: str, whole: Path) -> None:
    cases = [case for case in _CASES if case.kind == kind]
    verdicts = judge_all(cases, whole, workers=1)
    problems = [f"{case.recipe}: {verdict.problem}" for case, verdict in zip(cases, verdicts, strict=True)]
    assert not [problem for problem, verdict in zip(problems, verdicts, strict=True) if verdict.problem]
