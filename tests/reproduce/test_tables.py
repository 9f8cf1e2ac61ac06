"""The tables say what the paper says, and every cell can be trained."""

from __future__ import annotations

import pytest

from ckcnn import presets
from ckcnn.reproduce.description import Cell, Training
from ckcnn.reproduce.jobs import Job
from ckcnn.reproduce.tables import PRESETS, TABLES

CELLS = [cell for table in TABLES.values() for cell in table.cells]
TRAININGS = list(dict.fromkeys(cell.training for cell in CELLS))


def test_the_tables_of_the_paper_are_there_with_all_their_cells() -> None:
    sizes = {name: (len(table.cells), len(table.trainings())) for name, table in TABLES.items()}
    assert sizes == {
        "stress": (30, 30),
        "discrete": (7, 7),
        "timeseries": (3, 3),
        "irregular": (15, 15),
        "resolution": (40, 8),
        "nonlinearity": (20, 20),
        "depth": (8, 7),
    }


@pytest.mark.parametrize("table", TABLES)
def test_no_cell_stands_twice_in_its_place(table: str) -> None:
    places = [(cell.row, cell.column) for cell in TABLES[table].cells]
    assert len(set(places)) == len(places)


def test_runs_have_different_names() -> None:
    assert len({training.name for training in TRAININGS}) == len(TRAININGS)


def own(cell: Cell) -> bool:
    """Whether a cell is the row of a preset, tested as it was trained, which the preset knows the figure of."""
    changed = set(cell.training.options) - {"data.length", "data.train_dt", "data.drop_rate"}
    return not changed and cell.test_dt in (None, cell.training.options.get("data.train_dt", 1))


@pytest.mark.parametrize(
    "cell",
    [cell for name in TABLES if name != "depth" for cell in TABLES[name].cells if own(cell)],
    ids=lambda cell: f"{cell.training.name}-{cell.test_dt}",
)
def test_figures_are_those_of_the_presets(cell: Cell) -> None:
    paper = Job(cell.training, 0, presets.FOLDER).settings["paper"]
    assert paper[f"test/{cell.metric}"] == (
        cell.paper if cell.solved is None else {"accuracy": 1, "mse": 1e-4}[cell.metric]
    )


@pytest.mark.parametrize("training", TRAININGS, ids=lambda training: training.name)
def test_every_training_has_a_preset_with_epochs(training: Training) -> None:
    job = Job(training, 0, presets.FOLDER)
    assert training.preset in PRESETS.values()
    assert job.planned >= 20
    assert job.epochs == job.planned


def test_options_bring_the_values_of_their_row() -> None:
    (training,) = (training for training in TRAININGS if training.name == "copy_memory-length=1000")
    job = Job(training, 0, presets.FOLDER)
    assert job.planned == 100
    assert presets.value_of(job.settings, "model.omega_0") == 68.69


def test_a_part_of_a_table() -> None:
    part = TABLES["stress"].only(["copy"], ["CKCNN", "TCN"], ["100", "1000"])
    assert [(cell.row, cell.column) for cell in part.cells] == [
        ("copy, TCN", "100"),
        ("copy, TCN", "1000"),
        ("copy, CKCNN", "100"),
        ("copy, CKCNN", "1000"),
    ]
    assert TABLES["stress"].only([], [], []).cells == TABLES["stress"].cells


def test_a_row_is_not_taken_for_a_word_of_others() -> None:
    assert {cell.row for cell in TABLES["irregular"].only([], ["ct"], []).cells} == {"ct"}
    assert {cell.row for cell in TABLES["irregular"].only([], ["time stamps"], ["30 %"]).cells} >= {"ct, time stamps"}


def test_a_table_can_be_trained_with_an_overlay() -> None:
    table = TABLES["discrete"].only(["pmnist"], ["CKCNN"], []).changed(["fast"], {})
    assert (table.name, table.title) == ("discrete-fast", "Discrete sequences (Tab. 1), with fast.yaml")
    (training,) = table.trainings()
    assert training.arguments() == ["--config", "pmnist.yaml", "--config", "fast.yaml"]
    job = Job(training, 0, presets.FOLDER)
    assert (job.name, job.planned) == ("pmnist-fast-seed=0", 20)
    assert TABLES["stress"].changed([], {}) is TABLES["stress"]


def test_settings_of_all_trainings_stand_in_the_names_of_runs_and_table() -> None:
    table = TABLES["irregular"].only(["ct"], [], ["30 %"]).changed(["fast"], {"model.learning_rate": 0.002})
    assert table.name == "irregular-fast-learning_rate=0.002"
    assert table.title.endswith(", with fast.yaml and model.learning_rate 0.002")
    jobs = [Job(training, 0, presets.FOLDER) for training in table.trainings()]
    assert jobs[0].name == "character_trajectories-fast-drop_rate=0.3-learning_rate=0.002-seed=0"
    assert {presets.value_of(job.settings, "model.learning_rate") for job in jobs} == {0.002}
