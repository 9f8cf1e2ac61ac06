"""The documentation builds without a warning, and what it shows runs as it stands."""

from __future__ import annotations

import html
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import ckcnn.nn
import ckcnn.results
from ckcnn import datamodules
from ckcnn.cli import listing
from ckcnn.runs.metrics_table import read

ROOT = Path(__file__).parents[1]
PAGES = sorted(page for page in (ROOT / "docs").rglob("*.md") if not {"_build", "tables", "api"} & set(page.parts))
TABLES = sorted((ROOT / "docs/reference/tables").glob("*.md"))
WITH_PYTHON = [page for page in PAGES if "```python\n" in page.read_text()]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    options = ["-W", "--keep-going", "-n", "-q", "-d", str(folder / "doctrees")]
    command = [sys.executable, "-m", "sphinx", *options, str(ROOT / "docs"), str(folder / "html")]
    built = subprocess.run(command, capture_output=True, text=True)  # in this process it would load our modules twice
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "html"


def test_every_page_is_there_and_fetches_nothing(site: Path) -> None:
    executed = (ROOT / "docs/tutorials/notebooks").glob("*.ipynb")
    for page in [*PAGES, *executed, *(ROOT / "docs/reference/api").glob("*.md")]:
        text = (site / page.relative_to(ROOT / "docs").with_suffix(".html")).read_text()
        assert not re.findall(r'<(?:script|img|iframe|link)\b[^>]*(?:src|href)="(?:https?:)?//', text)


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    pages = "".join(path.read_text() for path in (site / "reference/api").glob("*.html"))
    names = [
        f"{package.__name__}.{name}"
        for package in (ckcnn, ckcnn.nn, ckcnn.results, datamodules)
        for name in package.__all__
    ]
    assert [name for name in names if f'id="{name}"' not in pages] == []


def test_every_preset_is_in_the_table(site: Path) -> None:
    text = html.unescape(re.sub("<[^>]+>", "", (site / "reference/presets.html").read_text()))
    assert [command for command, _ in listing.rows() if command not in text] == []


@pytest.mark.filterwarnings("ignore:.*does not have many workers")  # said on machines with many cores
@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.stem)
def test_python_in_the_docs_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec("\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)), {"__name__": page.stem})


def test_pictures_can_be_drawn_again(tmp_path: Path) -> None:
    runpy.run_path(str(ROOT / "docs/pictures.py"))["main"](str(tmp_path))
    drawn = {path.name for path in tmp_path.iterdir()}
    kept = {path.name: path.stat().st_size for path in (ROOT / "docs/pictures").iterdir()}
    assert drawn
    assert drawn <= set(kept)
    assert max(kept.values()) < 150_000


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_results_are_those_of_the_tables(path: Path) -> None:
    text = path.read_text()
    overview = text[text.index("|  |") :].split("\n\n")[0]
    assert overview in (ROOT / "docs/reference/results.md").read_text()
    rows = read(path.with_suffix(".csv"))
    assert text.count("runs/reproduce/") == sum(bool(row.get("run")) for row in rows), "both files are of the same runs"


def test_every_test_that_the_docs_name_exists() -> None:
    text = "".join(page.read_text() for page in PAGES)
    files, names = re.findall(r"`(tests/[\w/]+\.py)`", text), set(re.findall(r"`(test_\w+)`", text)) - {"test_dt"}
    assert len(names) > 10
    assert all((ROOT / file).is_file() for file in files)
    known = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name in names if f"def {name}(" not in known] == []
