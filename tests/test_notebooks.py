"""The notebooks run from the first to the last cell, on runs that the commands in their text have made."""

from __future__ import annotations

import os
import re
import runpy
import shlex
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from nbclient import NotebookClient

from ckcnn.__main__ import main
from tests.datamodules import official

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SMALL = {
    "fit": ["--model.hidden_channels=4", "--trainer.max_epochs=2", "--trainer.limit_train_batches=4"],
    "test": [],
    "search": ["--model.hidden_channels=4", "--trainer.max_epochs=1", "--trainer.limit_train_batches=4", "--trials=3"],
}
EXPECTED = {  # pictures, and what must be among the words
    "01_inspect_run": (2, ["digits/version_1: CKCNN with", "50%  test/accuracy", "99.53 %", "missing: times"]),
    "02_learned_kernels": (4, ["digits/version_1, omega_0 50.0", "block 2, convolution 2", "8 times finer"]),
    "03_irregular_sampling": (4, ["(8, 2, 64)  times None", "(8, 1, 32)  times (8, 32)", "off by", "digits/version_0"]),
    "04_omega_0": (2, ["The best of 3 trials", "model.omega_0", "digits_search/best.yaml"]),
    "05_your_own_data": (2, ["mine/version_0", "test/accuracy", "predictions for 30 sequences"]),
    "06_sktime": (3, ["270 series with 12 channels and 7 to 26 steps", "accuracy on the test set: 0.9", "true class"]),
    "07_live_stream": (1, ["test/accuracy", "3 classes: 'yes', 'no', 'stop'", "the whole recording differ by"]),
}


def read(name: str) -> Any:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def commands(name: str) -> list[list[str]]:
    """What the text of a notebook says is to be done before."""
    text = "\n".join(cell.source for cell in read(name).cells if cell.cell_type == "markdown")
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    lines = [line for block in blocks for line in re.split(r"\n|&&", block)]
    return [shlex.split(line)[1:] for line in lines if line.strip().startswith("ckcnn ")]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Folders with the data and the runs that the notebooks ask for, made by their own commands, only smaller."""
    torch.set_num_threads(1)
    top = tmp_path_factory.mktemp("notebooks")
    shared = [f"--runs={top / 'runs'}", f"--data.root={top / 'data'}", "--trainer.accelerator=cpu"]
    shared += ['--paper={"test/accuracy": 0.9953}']
    official.write_speech(top / "data", ("yes", "no", "stop"), per_word=8)
    for command, *words in commands("03_irregular_sampling") + commands("04_omega_0"):
        assert main([command, *words, *shared, *SMALL[command]]) == 0
    return {"CKCNN_RUNS": str(top / "runs"), "CKCNN_DATA": str(top / "data"), "JUPYTER_DATA_DIR": str(top / "jupyter")}


def execute(name: str, environment: dict[str, str]) -> tuple[int, str]:
    """The number of pictures, and all words."""
    notebook = read(name)
    client = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(FOLDER)}})
    client.execute(env={**os.environ, **environment})
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    shown = [output.get("data", {}) for output in outputs]
    words = [output.get("text", "") + data.get("text/plain", "") for output, data in zip(outputs, shown, strict=True)]
    assert "Warning" not in "".join(words)
    return sum("image/png" in data for data in shown), "\n".join(words)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_notebook_runs_from_the_first_to_the_last_cell(name: str, places: dict[str, str]) -> None:
    pictures, words = EXPECTED[name]
    drawn, said = execute(name, places)
    assert drawn == pictures
    assert [word for word in words if word not in said] == []


def test_every_notebook_is_executed() -> None:
    assert [path.stem for path in NOTEBOOKS] == list(EXPECTED)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs_and_machine(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    assert notebook.metadata == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in notebook.cells:
        assert not cell.metadata
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_paragraph_stands_before_each_cell_and_links_lead_somewhere(path: Path) -> None:
    cells = nbformat.read(path, as_version=4).cells
    kinds = [cell.cell_type for cell in cells]
    assert kinds == ["markdown", "code"] * (len(kinds) // 2) + ["markdown"]
    for target in re.findall(r"\]\(([^)]+)\)", "".join(cell.source for cell in cells if cell.cell_type == "markdown")):
        assert (FOLDER / target).is_file(), target


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_docs_show_the_notebook_as_it_is_now(path: Path) -> None:
    """With the outputs of an execution without errors, and nothing of the machine that did it."""
    tools = runpy.run_path(str(FOLDER.parent / "docs/execute_notebooks.py"), run_name="tools")
    kept = tools["EXECUTED"] / path.name
    notebook = nbformat.read(kept, as_version=4)
    shown = [(cell.cell_type, cell.source) for cell in notebook.cells]
    assert shown == tools["sources"](nbformat.read(path, as_version=4)), "run python docs/execute_notebooks.py"
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == EXPECTED[path.stem][0]
    assert not [output for output in outputs if output.output_type == "error"]
    assert not re.findall(r"/(?:work|tmp|root|var)/", kept.read_text())
    assert kept.stat().st_size < 250_000


def test_the_other_notebooks_ask_for_runs_in_words_that_are_tried() -> None:
    tried = [words[:3] for words in commands("03_irregular_sampling")]
    for name in ("01_inspect_run", "02_learned_kernels"):
        assert commands(name)
        assert all(words in tried for words in commands(name))
