"""Settings of the trainer keep the type that they were written with."""

from __future__ import annotations

from typing import Any

import pytest

from ckcnn.cli.trainer_options import keep_whole_numbers

NAME = "trainer.limit_train_batches"


@pytest.mark.parametrize(
    ("written", "parsed", "kept"), [(1, 1.0, 1), (4, 4.0, 4), (1.0, 1.0, 1.0), (0.5, 0.5, 0.5), (4, 4, 4)]
)
def test_one_batch_is_not_all_batches(written: Any, parsed: Any, kept: Any) -> None:
    settings = {NAME: parsed}
    keep_whole_numbers(settings, {"trainer": {"limit_train_batches": written}})
    assert settings[NAME] == kept
    assert type(settings[NAME]) is type(kept)
