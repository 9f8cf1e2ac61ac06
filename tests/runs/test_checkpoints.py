"""Checkpoints of earlier versions are read as this version would have written them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckcnn.runs import checkpoints
from ckcnn.runs.callbacks import run_callbacks
from ckcnn.runs.folder import RunFolder

OLD = {"best_epoch": 3, "best_score": 0.75, "best_loss": 0.5, "finished": True, "spent": 12.5}
EARLY_STOPPING = "EarlyStopping{'monitor': 'val/accuracy', 'mode': 'max'}"


def load(tmp_path: Path, callbacks: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    """Save a checkpoint with the states of callbacks; return them as they are loaded."""
    content = {"state_dict": {}, "model_class": "CKCNN", "callbacks": callbacks}
    checkpoints.save(content, tmp_path / "last.ckpt")
    return dict(checkpoints.load(tmp_path / "last.ckpt")["callbacks"])


def test_the_state_of_the_old_callback_is_divided(tmp_path: Path) -> None:
    assert load(tmp_path, {EARLY_STOPPING: {"wait_count": 2}, "RunKeeper": OLD}) == {
        EARLY_STOPPING: {"wait_count": 2},
        "BestEpoch": {"epoch": 3, "value": 0.75, "loss": 0.5},
        "KeepCheckpoints": {"finished": True},
        "EpochClock": {"spent": 12.5},
    }


def test_the_divided_state_is_the_state_of_our_callbacks(tmp_path: Path) -> None:
    """Lightning gives each callback the state under its key; all of it must be there."""
    states = load(tmp_path, {"RunKeeper": OLD})
    ours = {callback.state_key: callback for callback in run_callbacks(RunFolder(tmp_path), "val/accuracy", "max", 0)}
    assert {key for key, callback in ours.items() if callback.state_dict()} == states.keys()
    for key, state in states.items():
        ours[key].load_state_dict(state)
        assert ours[key].state_dict() == state


@pytest.mark.parametrize("finished", [True, False])
def test_whether_a_run_had_stopped_by_itself(tmp_path: Path, finished: bool) -> None:
    for callbacks in ({"RunKeeper": {**OLD, "finished": finished}}, {"KeepCheckpoints": {"finished": finished}}):
        checkpoints.save({"state_dict": {}, "model_class": "CKCNN", "callbacks": callbacks}, tmp_path / "last.ckpt")
        content = checkpoints.load(tmp_path / "last.ckpt")
        assert bool(checkpoints.why_finished(content, -1, -1)) == finished
    assert checkpoints.why_finished({}, 5, 5) is None  # no checkpoint yet


@pytest.mark.parametrize(
    ("max_epochs", "max_steps", "reason"),
    [
        (4, -1, None),
        (None, -1, None),
        (-1, -1, None),
        (3, -1, "it has 3 epochs, and --trainer.max_epochs is 3"),
        (2, -1, "it has 3 epochs, and --trainer.max_epochs is 2"),
        (-1, 31, None),
        (-1, 30, "it has 30 steps, and --trainer.max_steps is 30"),
    ],
)
def test_whether_there_is_something_left_to_train(max_epochs: int | None, max_steps: int, reason: str | None) -> None:
    loops = {"fit_loop": {"epoch_progress": {"current": {"processed": 3, "completed": 2}}}}
    assert checkpoints.why_finished({"loops": loops, "global_step": 30}, max_epochs, max_steps) == reason


def test_a_new_checkpoint_stays_as_it_is(tmp_path: Path) -> None:
    states: dict[str, dict[str, object]] = {"KeepCheckpoints": {"finished": True}}
    assert load(tmp_path, states) == states
