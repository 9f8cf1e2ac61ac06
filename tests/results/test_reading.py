"""Runs and searches are read as they were written; what is broken is named and does not hide the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckcnn import results
from ckcnn.results.metrics import known_metric, known_mode
from ckcnn.runs import metrics_table
from ckcnn.tasks import TASKS
from tests.small_runs import config, result_of, write_run, write_search


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    others = [result_of(0.90, dt=4), result_of(0.96, dt=2), result_of(0.98)]
    write_run(tmp_path / "letters/version_2", config(), [0.5, 0.9, 0.9, 0.7], others)
    write_run(
        tmp_path / "letters/version_10", config(data__drop_rate=0.3), [0.4], [result_of(0.8), result_of(0.7, 1, 0.3)]
    )
    write_run(tmp_path / "other/version_0", config(name="other"), [])
    write_search(tmp_path / "letters_search", [(1.0, 0.5, "complete"), (30.0, 0.9, "complete"), (90.0, 0.4, "pruned")])
    write_run(tmp_path / "letters_search/trial_0/version_0", config(), [0.5])
    return tmp_path


def test_finds_runs_in_the_order_of_their_numbers_and_leaves_trials_to_their_search(runs: Path) -> None:
    found = results.load(runs)
    assert [run.name for run in found.runs] == ["letters/version_2", "letters/version_10", "other/version_0"]
    assert [search.name for search in found.searches] == ["letters_search"]
    assert not found.broken


@pytest.mark.parametrize("below", ["letters", "letters/version_2"])
def test_a_part_of_the_folder_has_the_same_names(runs: Path, below: str) -> None:
    assert results.load(runs / below).runs[0].name == "letters/version_2"


def test_a_search_alone(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [search.name for search in results.load(runs / "letters_search").searches] == ["letters_search"]
    monkeypatch.chdir(runs / "letters_search")
    assert [search.name for search in results.load(".").searches] == ["letters_search"]


def test_the_test_that_counts_is_on_data_like_that_of_training(runs: Path) -> None:
    plain, dropped, untested = results.load(runs).runs
    assert plain.score == 0.98, "not the newest, which is at another rate"
    assert dropped.score == 0.7
    assert untested.score is None
    assert plain.paper == 0.9953
    assert untested.paper == 0.9953, "known from its settings"


def test_without_such_a_test_the_newest_one_counts(tmp_path: Path) -> None:
    write_run(tmp_path / "letters/version_0", config(), [0.5], [result_of(0.8, dt=2), result_of(0.7, dt=4)])
    assert results.load(tmp_path).runs[0].score == 0.8


def test_the_best_epoch_is_the_one_that_was_kept(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "letters/version_0", config(), [0.5, 0.9, 0.7])
    rows = (folder / "metrics.csv").read_text().replace("0.7,1.3", "0.9,0.2")  # as good as epoch 1, at a smaller loss
    (folder / "metrics.csv").write_text(rows)
    run = results.load(tmp_path).runs[0]
    assert run.best is not None
    assert run.best["epoch"] == 2
    assert run.seconds == 4.5


def test_small_is_good_for_errors(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "adding/version_0", config(), [0.5, 0.2, 0.4])
    text = (folder / "metrics.csv").read_text().replace("accuracy", "mse")
    (folder / "metrics.csv").write_text(text)
    run = results.load(tmp_path).runs[0]
    assert run.best is not None
    assert (run.metric, run.best["epoch"]) == ("mse", 1)


def test_the_benchmark_does_not_depend_on_how_data_is_sampled(runs: Path) -> None:
    assert {run.benchmark for run in results.load(runs).runs} == {"CharacterTrajectories"}
    options = {"length": 200, "mfcc": True, "permuted": False, "words": None}
    options |= {"drop_rate": 0.5, "root": "x", "augment": "crop"}
    data = {"class_path": "datamodules.CopyMemory", "init_args": options}
    write_run(runs / "copy/version_0", config(data=data), [])
    assert results.load(runs / "copy").runs[0].benchmark == "CopyMemory, length 200, mfcc"


def test_settings_by_their_names_on_the_command_line(runs: Path) -> None:
    run = results.load(runs).runs[1]
    assert (run.setting("model.omega_0"), run.setting("data.drop_rate"), run.setting("seed_everything")) == (
        21.4,
        0.3,
        0,
    )
    assert run.setting("data.nothing", "-") == "-"
    assert run.setting("nothing.at_all") is None


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("config.yaml", "!!python/object/apply:os.system ['touch never']", "is not valid YAML"),
        ("config.yaml", "just words", "must hold settings"),
        ("metrics.csv", "epoch,step\nx,y\n", "is not a table of epochs"),
        ("metrics.csv", "epoch,step\n1,2,3\n", "is not a table of epochs"),
        ("results.json", "{", "was not written by ckcnn test"),
        ("results.json", "[]", "was not written by ckcnn test"),
        ("results.json", '{"metrics": {"test/accuracy": "high"}, "data": {"dt": {"test": 1}}}', "was not written by"),
        ("results.json", '{"metrics": {}, "data": {"dt": {}, "drop_rate": 0}}', "was not written by ckcnn test"),
        ("results.json", '{"metrics": {}, "data": {"dt": {"test": 1}, "drop_rate": [1]}}', "was not written by"),
    ],
)
def test_a_broken_file_is_named_and_the_rest_is_read(runs: Path, name: str, text: str, message: str) -> None:
    broken = runs / "letters/version_2"
    (broken / name).write_text(text)
    found = results.load(runs)
    assert [run.name for run in found.runs] == ["letters/version_10", "other/version_0"]
    assert list(found.broken) == [broken]
    assert str(broken / name) in found.broken[broken]
    assert message in found.broken[broken]


def test_an_odd_search_is_named(runs: Path) -> None:
    (runs / "letters_search/search.csv").write_text("a,b\n1,2\n")
    found = results.load(runs)
    assert not found.searches
    assert "its columns are a, b" in next(iter(found.broken.values()))


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no run in .*; ckcnn fit makes run folders"):
        results.load(tmp_path)
    with pytest.raises(ValueError, match="is not a folder; give the one that holds the runs"):
        results.load(tmp_path / "nowhere")


def test_trials_are_ranked_and_sorted(runs: Path) -> None:
    search = results.load(runs).searches[0]
    assert [trial["model.omega_0"] for trial in search.ranked] == [30.0, 1.0]
    assert search.points("complete") == [(1.0, 0.5), (30.0, 0.9)]
    assert search.points("pruned") == [(90.0, 0.4)]
    assert search.keys == ("model.omega_0",)


def test_table_has_one_row_a_run(runs: Path) -> None:
    table = results.table(results.load(runs).runs)
    assert list(table.index) == ["letters/version_2", "letters/version_10", "other/version_0"]
    row = table.loc["letters/version_2"]
    assert (row["test"], row["validation"], row["best epoch"], row["parameters"]) == (0.98, 0.9, 1, 100_696)


# Runs of forecasting, which counts the mean squared error of a regression beside its own metric, have always said it.
@pytest.mark.parametrize("task", [name for name, task in TASKS.items() if not task.ahead])
def test_metrics_are_compared_as_in_training(task: str) -> None:
    metrics = [f"val/{name}" for name in (*TASKS[task].metrics(3), "loss")]
    assert known_metric(metrics) == TASKS[task].monitor
    assert known_mode(f"val/{TASKS[task].monitor}") == TASKS[task].mode


def test_a_run_says_itself_which_metric_counts_and_in_which_direction(tmp_path: Path) -> None:
    monitor = {"metric": "hinge", "mode": "min"}
    folder = write_run(tmp_path / "mine/version_0", config(monitor=monitor), [])
    metrics_table.write(folder / "metrics.csv", [{"epoch": n, "val/hinge": value} for n, value in enumerate((3, 1, 2))])
    (run,) = results.load(tmp_path).runs
    assert (run.metric, run.mode) == ("hinge", "min")
    assert run.best is not None
    assert run.best["epoch"] == 1
