"""Runs that are killed again and again end as if nobody had stopped them."""

from __future__ import annotations

import pytest

from tests.campaign import kills


@pytest.mark.slow
def test_killed_runs_end_as_others_do() -> None:
    rows = kills.run(seed=1, count=12)
    assert sum(tried for _, tried, _, _ in rows) >= 12
    assert [example for _, _, _, examples in rows for example in examples] == []
