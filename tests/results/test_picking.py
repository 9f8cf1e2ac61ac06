"""The run, the search and the pair of runs that are meant, and what is said if there are none."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from ckcnn import results
from ckcnn.runs import metrics_table


def make_run(folder: Path, age: int, tested: bool = True, **data: Any) -> None:
    """A run folder, written `age` seconds ago."""
    folder.mkdir(parents=True)
    config = {"name": folder.parent.name, "runs": str(folder.parent.parent), "trainer": {"max_epochs": 3}}
    config |= {"data": {"class_path": "datamodules.Digits", "init_args": {"drop_rate": 0.5, **data}}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    metrics_table.write(folder / "metrics.csv", [{"epoch": 0, "step": 1, "val/accuracy": 0.5}])
    os.utime(folder / "metrics.csv", (1e9 - age, 1e9 - age))
    if tested:
        facts = {"dt": {"test": 1.0}, "drop_rate": 0.5}
        (folder / "results.json").write_text(json.dumps({"metrics": {"test/accuracy": 0.5}, "data": facts}))


def make_search(folder: Path, age: int, state: str = "complete") -> None:
    value = 0.9 if state == "complete" else None
    row = {"trial": 0, "state": state, "val/accuracy": value, "model.omega_0": 30.0, "val_loss": 0.1}
    folder.mkdir(parents=True)
    metrics_table.write(folder / "search.csv", [row])
    os.utime(folder / "search.csv", (1e9 - age, 1e9 - age))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    make_run(tmp_path / "digits/version_0", age=5, missing="mask")
    make_run(tmp_path / "digits/version_1", age=4, missing="times")
    make_run(tmp_path / "digits/version_2", age=3, missing="times", seed=1)
    make_run(tmp_path / "digits/version_3", age=2, missing="mask", tested=False)
    make_run(tmp_path / "pmnist/version_0", age=9)
    return tmp_path


def test_the_tested_run_that_was_written_to_last(runs: Path) -> None:
    found = results.load(runs)
    assert results.pick_run(found).name == "digits/version_2"
    assert results.pick_run(found, tested=False).name == "digits/version_3"
    assert results.pick_run(found, "pmnist").name == "pmnist/version_0"
    assert results.pick_run(found, "digits/version_0").name == "digits/version_0"


def test_what_is_said_if_there_is_no_such_run(runs: Path) -> None:
    found = results.load(runs)
    with pytest.raises(ValueError, match=r"no run 'digit'; known are digits/version_0, digits/version_1"):
        results.pick_run(found, "digit")
    with pytest.raises(ValueError, match=r"not tested yet: ckcnn test --ckpt_path .*version_3"):
        results.pick_run(found, "digits/version_3")
    with pytest.raises(ValueError, match="no run yet; make one with ckcnn fit"):
        results.pick_run(results.Results([], [], {}))


def test_the_newest_search_with_a_result(tmp_path: Path) -> None:
    make_search(tmp_path / "old", age=9)
    make_search(tmp_path / "new", age=5)
    make_search(tmp_path / "failed", age=1, state="failed")
    found = results.load(tmp_path)
    assert results.pick_search(found).name == "new"
    assert results.pick_search(found, "old").name == "old"
    with pytest.raises(ValueError, match=r"failed has no complete trial; see .*search.csv"):
        results.pick_search(found, "failed")
    with pytest.raises(ValueError, match="no search 'other'; known are failed, new, old"):
        results.pick_search(found, "other")


def test_what_is_said_if_there_is_no_search(runs: Path) -> None:
    with pytest.raises(ValueError, match="no search yet; make one with ckcnn search"):
        results.pick_search(results.load(runs))


def test_two_runs_that_differ_in_one_setting(runs: Path) -> None:
    pair = results.pick_pair(results.load(runs), "data.missing", ("mask", "times"))
    assert [run.name for run in pair] == ["digits/version_0", "digits/version_1"]  # version_2 has another seed


def test_a_setting_of_a_part_without_a_class(runs: Path) -> None:
    make_run(runs / "longer/version_0", age=1, missing="mask")
    path = runs / "longer/version_0/config.yaml"
    path.write_text(path.read_text().replace("max_epochs: 3", "max_epochs: 9"))
    pair = results.pick_pair(results.load(runs), "trainer.max_epochs", (3, 9))
    assert [run.name for run in pair] == ["digits/version_0", "longer/version_0"]


def test_what_is_said_if_no_two_runs_match(runs: Path) -> None:
    with pytest.raises(ValueError, match=r"differ only in data\.missing; train the same with --data.missing mask and"):
        results.pick_pair(results.load(runs), "data.missing", ("mask", "counts"))
