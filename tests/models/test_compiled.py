"""Compiled networks, and those whose parameters are sharded, train on several processes as others do."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.models import compiled
from tests.ranks import Ranks


@pytest.mark.parametrize(
    "ways", [("compiled ddp",), pytest.param(("shards", "compiled shards"), marks=pytest.mark.slow)]
)
def test_compiled_and_sharded_networks_take_the_same_steps(ways: tuple[str, ...], tmp_path: Path) -> None:
    ranks = Ranks(2, tmp_path, compiled.train, ["ddp", *ways])
    assert ranks.wait() == [0, 0], ranks.printed()
    weights = torch.load(tmp_path / "weights.pt", weights_only=True)
    expected, start = weights.pop("ddp"), compiled.make_model().net.state_dict()
    assert any((expected[name] - value).abs().max() > 1e-4 for name, value in start.items())  # it was trained
    for way in ways:
        worst = max(float((weights[way][name] - value).abs().max()) for name, value in expected.items())
        print(f"{way}: largest difference of a weight {worst:.1e}")
        assert worst < 1e-11
