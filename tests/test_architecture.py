"""Imports follow the flow of data and never point back."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted(ROOT.glob("src/ckcnn/**/*.py")) + sorted(ROOT.glob("datamodules/*.py"))

# Every room, in the order in which data flows through them, and the rooms that it may import besides itself.
ROOMS = {
    "compat": "",
    "checks": "",
    "files": "",
    "formatting": "",
    "data_options": "",
    "processes": "",
    "tasks": "",
    "nn": "compat checks",
    "datamodules": "checks files data_options tasks",
    "models": "compat checks files processes tasks nn datamodules",
    "reference": "files nn models",
    "configs": "",
    "presets": "checks files data_options configs",
    "runs": "compat files formatting data_options processes",
    "results": "checks formatting data_options tasks nn models reference presets runs",
    "inference": "checks files formatting data_options tasks nn datamodules models reference presets runs results",
    "sktime": "compat checks tasks nn datamodules models runs inference",
    "cli": "compat checks files processes formatting data_options tasks nn datamodules models reference presets runs "
    "inference",
    "archive": "checks files datamodules models runs cli sktime",
    "report": "files formatting data_options runs results cli",
    "search": "compat checks files formatting data_options presets runs results cli",
    "reproduce": "checks files formatting data_options tasks datamodules presets runs results cli archive",
    "kernel_fits": "checks files nn cli",
}


def room_of(path: Path) -> str:
    """The folder or file just below the package that a source lies in."""
    parts = path.relative_to(ROOT).parts
    return parts[0] if parts[0] == "datamodules" else Path(parts[2]).stem


def imported(path: Path) -> set[str]:
    """Full names of everything that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_rooms_import_only_what_lies_before_them(path: Path) -> None:
    room = room_of(path)
    if room in ("__init__", "__main__"):
        return  # they hand over to every room, by name
    rooms = {name.split(".")[1] for name in imported(path) if name.startswith("ckcnn.")}
    assert rooms & ROOMS.keys() <= {room, *ROOMS[room].split()}


def test_the_rooms_are_those_on_the_disk() -> None:
    assert {room_of(path) for path in SOURCES} - {"__init__", "__main__"} == ROOMS.keys() - {"configs"}


def test_the_layers_need_torch_alone() -> None:
    """And so does what they import of other rooms."""
    allowed = {"ckcnn", "torch", *sys.stdlib_module_names}
    outside = {ROOT / "src/ckcnn/compat/torch.py", *ROOT.glob("src/ckcnn/checks/*.py")}
    for path in SOURCES:
        names = imported(path)
        if room_of(path) == "nn":
            assert {name.split(".")[2] for name in names if name.startswith("ckcnn.compat.")} <= {"torch"}, path
        if room_of(path) == "nn" or path in outside:
            assert {name.split(".")[0] for name in names} <= allowed, path


def test_results_are_read_without_lightning() -> None:
    """A report or a notebook starts in half the time without it."""
    code = "import sys, ckcnn.results; print([name for name in ('torch', 'pytorch_lightning') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
