"""Settings of the trainer keep the type that they were written with, and callbacks do what a run says."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pytorch_lightning import Callback
from pytorch_lightning.callbacks import (
    BatchSizeFinder,
    EMAWeightAveraging,
    LearningRateFinder,
    LearningRateMonitor,
    StochasticWeightAveraging,
    Timer,
)

from ckcnn.cli.trainer_options import check_callbacks, keep_whole_numbers

NAME = "trainer.limit_train_batches"


@pytest.mark.parametrize(
    ("written", "parsed", "kept"), [(1, 1.0, 1), (4, 4.0, 4), (1.0, 1.0, 1.0), (0.5, 0.5, 0.5), (4, 4, 4)]
)
def test_one_batch_is_not_all_batches(written: Any, parsed: Any, kept: Any) -> None:
    settings = {NAME: parsed}
    keep_whole_numbers(settings, {"trainer": {"limit_train_batches": written}})
    assert settings[NAME] == kept
    assert type(settings[NAME]) is type(kept)


@pytest.mark.parametrize(
    ("callback", "message"),
    [
        (StochasticWeightAveraging(0.1), "so no checkpoint would have it; use WeightAveraging, or EMAWeightAveraging"),
        (LearningRateFinder(), "use ckcnn search --space model.learning_rate=1e-4:1e-1:log"),
        (BatchSizeFinder(), "set --data.batch_size"),
        (Timer("00:00:00:01"), "is written --trainer.max_time 00:12:00:00"),
    ],
)
def test_callbacks_that_would_mislead_are_refused(callback: Callback, message: str) -> None:
    check_callbacks([LearningRateMonitor(), EMAWeightAveraging()])
    with pytest.raises(ValueError, match=re.escape(message)):
        check_callbacks([callback])
