"""Tables are made of what lies in the run folders, and say what is short."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ckcnn.reproduce import output
from ckcnn.reproduce.description import Cell, Table, Training
from ckcnn.reproduce.jobs import Job, jobs_of, missing_tests, result_of
from ckcnn.reproduce.runner import outcome
from ckcnn.runs import checkpoints
from ckcnn.runs.metrics_table import read
from tests import small_runs

LETTERS = Training("character_trajectories")
COPY = Training("copy_memory", {"data.length": 200})
RATES = [Cell("ct", name, "ct", LETTERS, paper=0.99, test_dt=step) for step, name in ((1, "1"), (4, "1/4"))]
SOLVED = Cell("copy", "200", "copy", COPY, solved=True)
TABLE = Table("t", "A table", [*RATES, SOLVED], "A remark.")


def write(job: Job, epochs: int, scores: dict[int, float], finished: bool = False) -> None:
    """A run that was trained for some epochs and tested at some steps."""
    checkpoint = {"checkpoint": "checkpoints/best-000.ckpt"}
    tests: list[dict[str, Any]] = []
    for step, score in scores.items():
        test = small_runs.result_of(score, float(step), **checkpoint)
        tests.append(test | {"data": test["data"] | {"test_dt": step}})
    folder = small_runs.write_run(job.runs / job.name / "version_0", small_runs.config(), [0.5] * epochs, tests)
    content = {"state_dict": {}, "model_class": "CKCNN", "callbacks": {"KeepCheckpoints": {"finished": finished}}}
    for name in ("best-000", "last"):
        checkpoints.save(content, folder / f"checkpoints/{name}.ckpt")


@pytest.fixture
def jobs(tmp_path: Path) -> list[Job]:
    jobs = jobs_of([TABLE], 2, tmp_path, 1.0)
    write(jobs[0], 200, {1: 0.98, 4: 0.9})
    write(jobs[1], 12, {1: 1.0}, finished=True)
    write(jobs[2], 7, {1: 0.96})
    return jobs


def test_jobs_begin_with_all_trainings_of_the_first_seed(jobs: list[Job]) -> None:
    assert [(job.training.preset, job.seed) for job in jobs] == [
        ("character_trajectories", 0),
        ("copy_memory", 0),
        ("character_trajectories", 1),
        ("copy_memory", 1),
    ]


def test_a_run_is_finished_after_its_epochs_or_when_it_says_so(jobs: list[Job]) -> None:
    runs = [job.run() for job in jobs]
    assert [run is not None and job.is_finished(run) for job, run in zip(jobs, runs, strict=True)] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("scale", "epochs", "finished", "short"),
    [
        (1.0, 50, False, False),
        (1.0, 49, False, True),
        (1.0, 12, True, False),
        (0.5, 25, False, True),
        (0.5, 12, False, True),
        (0.5, 12, True, False),
    ],
)
def test_a_run_that_stopped_by_itself_is_not_short(
    scale: float, epochs: int, finished: bool, short: bool, tmp_path: Path
) -> None:
    job = Job(COPY, 0, tmp_path, scale)
    write(job, epochs, {}, finished)
    run = job.run()
    assert run is not None
    assert job.is_short(run) == short


def test_a_short_run_is_another_run(tmp_path: Path) -> None:
    short = Job(LETTERS, 0, tmp_path, 0.1)
    assert (short.epochs, short.planned) == (20, 200)
    assert short.name == "character_trajectories-epochs=20-seed=0"
    assert "--trainer.max_epochs=20" in short.fit()
    assert Job(LETTERS, 0, tmp_path, 0.001).epochs == 1


def test_tests_of_an_older_checkpoint_do_not_count(jobs: list[Job]) -> None:
    run = jobs[0].run()
    assert run is not None
    assert not missing_tests(run, RATES)
    (run.folder.checkpoints / "best-000.ckpt").rename(run.folder.checkpoints / "best-009.ckpt")
    assert result_of(run, RATES[0]) is None
    assert [words[2:] for words in missing_tests(run, RATES)] == [["--data.test_dt=1"], ["--data.test_dt=4"]]


def test_markdown_has_ours_beside_the_papers(jobs: list[Job]) -> None:
    text = output.markdown(TABLE, output.collect(TABLE, jobs))
    assert "# A table" in text
    assert "A remark." in text
    assert "| ct | 97.00 % ± 1.41 short | 90.00 % |  |\n| ct, paper | 99.00 % | 99.00 % |  |" in text
    assert "| copy |  |  | 100.00 % ✓ |\n| copy, paper |  |  | ✓ |" in text
    assert "| ct | 1 | 99.00 % | 98.00 % | -1.00 | 0 | 200 of 200 | 5 min 0 s | `" in text
    assert "| ct | 1 | 99.00 % | 96.00 % | -3.00 | 1 | 7 of 200, short | " in text
    assert "| copy | 200 | solved | 100.00 % |  | 0 | 12 of 50 | " in text, "it stopped because it was solved"
    assert "short: " in text
    assert "Mean ± standard deviation of up to 2 seeds." in text


def test_what_the_paper_does_not_have_has_no_line(jobs: list[Job]) -> None:
    cells = [Cell("ct", "1", "ct", LETTERS, test_dt=1), Cell("ct", "1/8", "ct", LETTERS, test_dt=8)]
    table = Table("t", "", cells)
    text = output.markdown(table, output.collect(table, jobs))
    assert "| ct | 97.00 % ± 1.41 short | - |" in text
    assert ", paper |" not in text


def test_a_part_of_a_table_does_not_hide_what_else_was_run(jobs: list[Job]) -> None:
    part = TABLE.only([], [], ["1/4", "1/8"])
    assert [(cell.column, len(figures)) for cell, figures in output.collect(part, jobs)] == [
        ("1", 2),
        ("1/4", 1),
        ("200", 1),
    ]
    unrun = part.changed([], {"model.omega_0": 1})
    assert [(cell.column, len(figures)) for cell, figures in output.collect(unrun, jobs)] == [("1/4", 0)]


def test_csv_has_a_row_for_each_run_and_for_what_is_missing(tmp_path: Path, jobs: list[Job]) -> None:
    empty = Cell("ct", "1/8", "ct", LETTERS, paper=0.9, test_dt=8)
    table = Table("t", "", [*TABLE.cells, empty])
    markdown, values = output.write(table, jobs, tmp_path / "tables")
    assert markdown.is_file()
    rows = read(values)
    assert [(row["column"], row["seed"], row["ours"]) for row in rows] == [
        ("1", "0", "0.98"),
        ("1", "1", "0.96"),
        ("1/4", "0", "0.9"),
        ("200", "0", "1.0"),
        ("1/8", "", ""),
    ]
    assert float(rows[0]["difference"]) == pytest.approx(-0.01)
    assert [row["short"] for row in rows] == ["False", "True", "False", "False", ""]


def test_a_run_that_is_being_written_is_left_out(jobs: list[Job]) -> None:
    (jobs[0].runs / jobs[0].name / "version_0/config.yaml").write_text("")
    found = output.collect(TABLE, jobs)
    assert [len(figures) for _, figures in found] == [1, 0, 1]


def test_an_unsolved_problem_is_called_so(tmp_path: Path) -> None:
    job = Job(COPY, 0, tmp_path)
    write(job, 50, {1: 0.9999})
    text = output.markdown(TABLE, output.collect(TABLE, [job]))
    assert "| copy |  |  | 99.99 % ✗ |\n| copy, paper |  |  | ✓ |" in text


def test_what_is_told_of_a_run_is_the_figure_of_its_own_cell(tmp_path: Path) -> None:
    half = Training("character_trajectories", {"data.train_dt": 2, "model.kernel": "relu"})
    cells = [
        Cell("ct", name, "ct", half, paper=paper, test_dt=step)
        for step, name, paper in ((1, "1", 0.5), (2, "1/2", 0.4))
    ]
    job = Job(half, 0, tmp_path)
    write(job, 200, {1: 0.9, 2: 0.8})
    run = job.run()
    assert run is not None
    assert run.paper is not None, "that of the preset, whose kernel is another one"
    assert outcome(run, cells) == "accuracy 80.00 %, the paper has 40.00 %"
    assert outcome(run, [replace(cells[0], paper=None)]) == "accuracy 90.00 %"
