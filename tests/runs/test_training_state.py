"""Whatever else a checkpoint holds is refused with one sentence before an optimizer, a schedule or a loop uses it."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ckcnn.__main__ import main
from ckcnn.runs import checkpoints

FIT = [
    "fit",
    "--config",
    "digits.yaml",
    "--model.hidden_channels=2",
    "--model.kernel_hidden=4",
    "--trainer.accelerator=cpu",
    "--trainer.enable_progress_bar=false",
    "--trainer.limit_train_batches=2",
    "--trainer.limit_val_batches=1",
    "--trainer.max_epochs=3",
]
LAST = Path("runs/digits/version_0/checkpoints/last.ckpt")
EARLY = "EarlyStopping{'monitor': 'val/accuracy', 'mode': 'max'}"


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a checkpoint after two of its three epochs."""
    folder = tmp_path_factory.mktemp("half")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(FIT) == 0
        content = checkpoints.load(LAST)
        content["loops"]["fit_loop"]["epoch_progress"]["current"].update(ready=2, started=2, processed=2, completed=1)
        checkpoints.save(content, LAST)
    return folder


def setting(*path: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        inner: Any = content
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = to

    return change


def dropping(*path: Any) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        inner: Any = content
        for key in path[:-1]:
            inner = inner[key]
        del inner[path[-1]]

    return change


ADAM = ("optimizer_states", 0)
MOMENTS = (*ADAM, "state", 3)
GROUP = (*ADAM, "param_groups", 0)
CYCLE = ("lr_schedulers", 0)
LOOP = ("loops", "fit_loop")
CASES: list[tuple[Callable[[dict[str, Any]], None], str]] = [
    (setting(*MOMENTS, "exp_avg", to=torch.zeros(2)), "optimizer_states.state[3].exp_avg must have the shape"),
    (setting(*MOMENTS, "exp_avg_sq", to=torch.zeros(())), "exp_avg_sq must have the shape"),
    (setting(*MOMENTS, "exp_avg", to="x"), "exp_avg must be a tensor, got 'x'"),
    (setting(*MOMENTS, "step", to=torch.zeros(7)), "step must have the shape (), got (7,)"),
    (setting(*MOMENTS, to={}), "optimizer_states.state[3] must have"),
    (dropping(*MOMENTS, "exp_avg"), "got no exp_avg"),
    (dropping(*MOMENTS), "optimizer_states.state must be about"),
    (setting(*ADAM, "state", 99, to={}), "optimizer_states.state must be about"),
    (setting(*ADAM, "state", to=[1]), "optimizer_states must have 1 param_groups and a state"),
    (setting(*ADAM, to=5), "optimizer_states must have param_groups and state, got 5"),
    (setting(*GROUP, "params", to=[0]), "params must have"),
    (setting(*GROUP, "lr", to=float("nan")), "lr must be a number, got nan"),
    (setting(*GROUP, "lr", to="fast"), "lr must be a number, got 'fast'"),
    (setting(*GROUP, "betas", to=0.9), "betas must have 2 entries, got 0.9"),
    (setting(*GROUP, "amsgrad", to=True), "amsgrad must be False, got True"),
    (dropping(*GROUP, "lr"), "must have lr and"),
    (setting("optimizer_states", to=None), "is damaged: optimizer_states must be a list, got nothing"),
    (setting("optimizer_states", to=[{}, {}]), "optimizer_states must be a list of one state"),
    (setting("lr_schedulers", to="x"), "is damaged: lr_schedulers must be a list, got a text"),
    (setting(*CYCLE, to=[]), "lr_schedulers must have last_epoch, got []"),
    (setting(*CYCLE, "last_epoch", to=-5), "lr_schedulers.last_epoch must be a whole number, got -5"),
    (setting(*CYCLE, "step", to=5), "got also 'step'"),
    (setting(*CYCLE, "base_lrs", to=[1e-3, 1e-3]), "base_lrs must have 1 entries"),
    (setting(*CYCLE, "_schedule_phases", to=None), "_schedule_phases must have 2 entries"),
    (setting("callbacks", to=[]), "is damaged: callbacks must hold values by name, got a list"),
    (setting("callbacks", "BestEpoch", to=3), "is damaged: the state of the callback BestEpoch must be values by name"),
    (setting("callbacks", "BestEpoch", "epoch", to="x"), "BestEpoch.epoch must be a whole number, got 'x'"),
    (setting("callbacks", "BestEpoch", "run", to="elsewhere"), "got also 'run'"),
    (setting("callbacks", "KeepCheckpoints", "finished", to=0), "finished must be true or false, got 0"),
    (setting("callbacks", EARLY, "best_score", to=torch.zeros(3)), "best_score must have the shape (), got (3,)"),
    (dropping("callbacks", EARLY, "wait_count"), "EarlyStopping must have wait_count and"),
    (setting("loops", to=7), "is damaged: loops must hold values by name, got a number"),
    (setting(*LOOP, "epoch_progress", "current", to=None), "current must be a mapping, got None"),
    (setting(*LOOP, "epoch_progress", "current", "processed", to=-1), "processed must be a whole number, got -1"),
    (setting(*LOOP, "epoch_loop.batch_progress", "total", "ready", to="x"), "ready must be a whole number, got 'x'"),
    (dropping(*LOOP, "epoch_loop.batch_progress", "total"), "must have total and current"),
    (setting("global_step", to=2.5), "is damaged: global_step must be a whole number from 0, got a number"),
    (setting("epoch_so_far", to=[{}]), "epoch_so_far must have 2 entries"),
    (setting("state_dict", to={}), "state_dict must have"),
    (dropping("pytorch-lightning_version"), "pytorch-lightning_version must be a version such as 2.6.0, got None"),
    (setting("pytorch-lightning_version", to="x"), "must be a version such as 2.6.0, got 'x'"),
]


@pytest.mark.parametrize(("change", "message"), CASES, ids=[re.sub(r"\W+", "-", message) for _, message in CASES])
def test_what_does_not_fit_is_refused(
    half: Path,
    change: Callable[[dict[str, Any]], None],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(half)
    whole = LAST.read_bytes()
    content = copy.deepcopy(checkpoints.load(LAST))
    change(content)
    checkpoints.save(content, LAST)
    try:
        assert main([*FIT, "--ckpt_path=last"]) == 2
    finally:
        LAST.write_bytes(whole)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("ckcnn: error: ")]
    assert line.startswith((f"ckcnn: error: {LAST} cannot be resumed from: ", f"ckcnn: error: {LAST} is damaged: "))
    assert message in line


def test_what_is_refused_while_it_is_restored_leaves_no_log(half: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(half)
    whole, files = LAST.read_bytes(), sorted(LAST.parents[1].rglob("*"))
    content = checkpoints.load(LAST)
    content["preprocessing"]["classes"] = ["0", 1.0]
    checkpoints.save(content, LAST)
    try:
        assert main([*FIT, "--ckpt_path=last"]) == 2
    finally:
        LAST.write_bytes(whole)
    assert sorted(LAST.parents[1].rglob("*")) == files


def test_a_checkpoint_of_weights_alone_begins_anew(half: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `ckcnn import` writes them."""
    monkeypatch.chdir(half)
    content = checkpoints.load(LAST)
    weights = {key: content[key] for key in ("state_dict", "model_class", "hyper_parameters")}
    weights |= {"optimizer_states": [], "lr_schedulers": [], "epoch": 0, "global_step": 0}
    weights["pytorch-lightning_version"] = content["pytorch-lightning_version"]
    checkpoints.save(weights, Path("weights.ckpt"))
    assert main([*FIT, "--ckpt_path=weights.ckpt", "--name=again"]) == 0
