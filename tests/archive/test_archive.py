"""`ckcnn reproduce archive`: what is compared, the ranks, and the files that come out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckcnn.__main__ import main
from ckcnn.archive import methods, output, problems, results
from ckcnn.archive.command import compare
from ckcnn.archive.ranking import accuracies, critical_difference, mean_ranks
from ckcnn.archive.results import Result
from ckcnn.datamodules import UEA, DataError
from ckcnn.sktime import CKCNNClassifier

SMALL: dict[str, Any] = {"n_epochs": 1, "hidden_channels": 4, "kernel_hidden": 8, "num_blocks": 1, "accelerator": "cpu"}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Methods that train in a moment; those that were trained are noted."""
    trained: list[str] = []

    def note(name: str, kind: Callable[..., Any]) -> Callable[[int], Any]:
        def make(seed: int) -> Any:
            trained.append(f"{name} {seed}")
            return kind(random_state=seed, **SMALL)

        return make

    quick = {"CKCNN": note("CKCNN", CKCNNClassifier), "GRU": note("GRU", methods.GRUClassifier)}
    monkeypatch.setattr("ckcnn.archive.command.METHODS", quick)
    return trained


def test_the_table_resumes_where_it_was(tmp_path: Path, small: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["reproduce", "archive", "--root", str(tmp_path), "--output", str(tmp_path / "tables"), "--methods"]
    assert main([*words, "CKCNN", "--problems", "UnitTest"]) == 0
    assert small == ["CKCNN 0"]
    assert main([*words, "CKCNN", "GRU", "--problems", "UnitTest", "JapaneseVowels"]) == 0
    assert small == ["CKCNN 0", "GRU 0", "CKCNN 0", "GRU 0"]
    assert len(results.read(tmp_path / "tables" / "archive.csv")) == 4
    text = (tmp_path / "tables" / "archive.md").read_text()
    assert "mean rank** (2 problems)" in text
    assert (tmp_path / "tables" / "archive.png").stat().st_size > 1000
    assert "UnitTest, GRU, seed 0" in capsys.readouterr().out


def test_an_unknown_method_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "archive", "--methods", "ROCKT", "--output", str(tmp_path)]) == 2
    assert "--methods must be one of CKCNN" in capsys.readouterr().err


def test_a_problem_that_cannot_be_read_is_left_out(
    tmp_path: Path, small: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(UEA, "download", lambda self: (_ for _ in ()).throw(DataError("no network")))
    words = ["reproduce", "archive", "--root", str(tmp_path), "--output", str(tmp_path / "tables"), "--methods"]
    assert main([*words, "CKCNN", "--problems", "NoSuchProblem", "UnitTest"]) == 1
    assert small == ["CKCNN 0"]
    assert "NoSuchProblem: left out: no network" in capsys.readouterr().out


def test_a_method_without_its_package_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckcnn.archive.methods.find_spec", lambda name: None)
    assert main(["reproduce", "archive", "--methods", "DTW", "--problems", "UnitTest", "--output", str(tmp_path)]) == 0
    assert not (tmp_path / "archive.csv").exists()


def test_problems_within_reach_are_classification(tmp_path: Path) -> None:
    names = problems.within_reach(tmp_path)
    assert {"GunPoint", "PLAID", "Digits"} <= set(names)
    assert "Tecator" not in names


def test_digits_have_the_test_set_of_the_data_module(tmp_path: Path) -> None:
    digits = problems.load("Digits", tmp_path, tmp_path / "cache")
    assert (len(digits.train), len(digits.test)) == (1527, 270)
    assert digits.train[0].shape == (1, 64)


def test_ranks_share_ties_and_count_complete_problems() -> None:
    rows = [Result("one", "a", 0, 0.5, 1), Result("one", "a", 1, 0.7, 1), Result("one", "b", 0, 0.6, 1)]
    rows += [Result("two", "a", 0, 0.5, 1), Result("two", "b", 0, 0.9, 1), Result("three", "a", 0, 1, 1)]
    table = accuracies(rows)
    assert table["one"]["a"] == pytest.approx(0.6)
    table["one"]["a"] = 0.6
    assert mean_ranks(table, ["a", "b"]) == ({"a": 1.75, "b": 1.25}, 2)


def test_the_critical_difference_is_that_of_demsar() -> None:
    """Table 5 (a) of his paper: q = 2.569 for four classifiers."""
    assert critical_difference(4, 14) == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), rel=1e-3)


def test_methods_that_do_not_differ_are_joined_once() -> None:
    assert output.cliques([1.0, 2.0, 3.0, 5.0], 1.5) == [(1.0, 2.0), (2.0, 3.0)]
    assert output.cliques([1.0, 3.0], 1.5) == []


def test_minirocket_and_dtw_take_unequal_lengths(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    whole = problems.load("UnitTest", tmp_path)
    short = whole._replace(train=[series[:, : 20 + number % 5] for number, series in enumerate(whole.train)])
    for method in methods.PADDED:
        assert compare("UnitTest", short, method, 0).accuracy > 0.7
