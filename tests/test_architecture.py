"""Imports follow the flow of data and never point back."""

from __future__ import annotations

import ast
import configparser
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted([*ROOT.glob("src/ckcnn/**/*.py"), *ROOT.glob("datamodules/**/*.py")])
_PLAIN_RESULTS = tuple(
    f"results/{name}.py" for name in ("__init__", "figures", "picking", "reading", "searches", "table")
)


def imported(path: Path) -> set[str]:
    """Full names of the modules that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            names.add(node.module or "")
    return names


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_import_rule(path: Path) -> None:
    tops = {name.split(".")[0] for name in imported(path)}
    if "nn" in path.parent.parts:
        ours = {name for name in imported(path) if name.startswith("ckcnn")}
        assert all(name.startswith("ckcnn.nn") for name in ours), ours
        assert tops <= {"ckcnn", "torch"} | set(sys.stdlib_module_names)
    if "datamodules" in path.parts:
        assert "ckcnn" not in tops
    place = path.relative_to(ROOT).as_posix().removeprefix("src/ckcnn/")
    if place.startswith(("results/", "report/", "networks", "checkpoints")) and place != "results/writing.py":
        training = {"ckcnn.training", "ckcnn.tasks", "ckcnn.model", "ckcnn.cli", "ckcnn.search"}  # they train nothing
        assert not tops & {"pytorch_lightning", "datamodules"} | (imported(path) & training)
    if place in (*(f"{name}.py" for name in ("runs", "metrics_table", "presets", "listing")), *_PLAIN_RESULTS):
        assert not tops & {"torch", "pytorch_lightning", "datamodules"}
    if path.stem in ("tasks", "training", "model", "baselines"):
        assert not imported(path) & {"ckcnn.cli", "ckcnn.choice", "ckcnn.callbacks", "ckcnn.runs", "ckcnn.presets"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_are_small(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 200
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 50, node.name


def test_every_package_is_installed() -> None:
    """An editable install finds all of them anyway, an ordinary one only those that are listed."""
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    found = {".".join(path.parent.relative_to(ROOT).parts).removeprefix("src.") for path in SOURCES}
    assert found | {"lightning_configs"} == set(settings["options"]["packages"].split())


def test_the_walk_finds_something() -> None:
    assert any(path.name == "ckconv.py" for path in SOURCES)
