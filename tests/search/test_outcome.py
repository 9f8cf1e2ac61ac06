"""What a search leaves behind, from a study that is made by hand."""

from __future__ import annotations

import csv
from datetime import timedelta
from pathlib import Path
from typing import Any

import optuna
import pytest
import yaml
from optuna.trial import TrialState, create_trial
from rich.console import Console

from ckcnn.presets import nested
from ckcnn.runs.stopping import Stop
from ckcnn.search.outcome import Outcome
from ckcnn.search.progress import Progress
from ckcnn.search.space import parse

SPACE = parse(["model.dropout=0.0:0.3"], (1.0, 100.0))


def trial(omega_0: float, value: float | None, state: TrialState = TrialState.COMPLETE, **notes: Any) -> Any:
    made = create_trial(
        state=state,
        value=value,
        params={"model.omega_0": omega_0, "model.dropout": 0.1},
        distributions=dict(SPACE),
        user_attrs=notes,
        intermediate_values={1: 0.2, 2: 0.4} if state == TrialState.PRUNED else {},
    )
    made.datetime_start = made.datetime_complete - timedelta(seconds=30)
    return made


@pytest.fixture
def study() -> optuna.Study:
    study = optuna.create_study(direction="maximize")
    study.set_user_attr("monitor", "val/accuracy")
    study.add_trial(trial(30.0, 0.9, val_loss=0.5, seconds=3.0, epochs=4, best_epoch=3, folder="trial_0"))
    study.add_trial(trial(50.0, 0.9, val_loss=0.3, seconds=3.0, epochs=4, best_epoch=2, folder="trial_1"))
    study.add_trial(trial(2.0, None, TrialState.PRUNED, folder="trial_2", epochs=2, seconds=1.0))
    study.add_trial(trial(99.0, None, TrialState.FAIL, folder="trial_3", reason="the loss became nan, [bold]"))
    return study


def test_of_equally_good_trials_the_smaller_loss_wins(study: optuna.Study, tmp_path: Path) -> None:
    written = Outcome.of(study).write(tmp_path)
    assert [path.name for path in written] == ["search.csv", "omega_0.png", "best.yaml"]
    assert yaml.safe_load((tmp_path / "best.yaml").read_text()) == {
        "model": {"init_args": {"omega_0": 50.0, "dropout": 0.1}}
    }


def test_the_table_has_every_trial(study: optuna.Study, tmp_path: Path) -> None:
    Outcome.of(study).write(tmp_path)
    with (tmp_path / "search.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["state"] for row in rows] == ["complete", "complete", "pruned", "failed"]
    assert [row["val/accuracy"] for row in rows] == ["0.9", "0.9", "0.4", ""]  # of the pruned one what it had reached
    assert rows[3]["reason"] == "the loss became nan, [bold]"


def test_nothing_to_draw_and_no_winner(tmp_path: Path) -> None:
    study = optuna.create_study()
    study.set_user_attr("monitor", "val/loss")
    assert [path.name for path in Outcome.of(study).write(tmp_path)] == ["search.csv"]


def test_what_is_shown(study: optuna.Study, capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(soft_wrap=True, highlight=False)
    Outcome.of(study).show(console)
    said = capsys.readouterr().out
    assert said.index("50") < said.index("30")  # the best first
    assert "trial 3 failed: the loss became nan, [bold]" in said  # nothing is taken for markup
    progress = Progress(console, study, 10, 2, Stop())
    assert progress.status() == (
        "best val/accuracy 0.9000 (omega_0 50, dropout 0.1), 4 of 10 trials done, 1 pruned, 1 failed, about 2 min left"
    )  # three rounds of two, 30 s each


def test_time_left_ends_with_the_budget(study: optuna.Study) -> None:
    progress = Progress(Console(), study, 10, 1, Stop(deadline=0.0))
    assert progress.seconds_left(6) == 0.0
    assert progress.seconds_left(0) != progress.seconds_left(0)  # NaN: there is nothing left to do


def test_an_overlay_knows_where_settings_belong() -> None:
    assert nested(
        {"model.omega_0": 3.0, "data.batch_size": 8, "trainer.gradient_clip_val": 1, "seed_everything": 2}
    ) == {
        "model": {"init_args": {"omega_0": 3.0}},
        "data": {"init_args": {"batch_size": 8}},
        "trainer": {"gradient_clip_val": 1},
        "seed_everything": 2,
    }
