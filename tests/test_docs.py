"""The documentation builds without a warning, and what it shows runs as it stands."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(path for path in (ROOT / "docs").glob("*.md") if "```python\n" in path.read_text())


def run_blocks(page: Path) -> dict[str, object]:
    """Runs all Python of a page in one go; the names it leaves behind."""
    names: dict[str, object] = {"__name__": page.stem}
    exec("\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)), names)
    return names


@pytest.mark.filterwarnings("ignore:.*does not have many workers")  # said on machines with many cores
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_in_the_docs_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_blocks(page)


def test_pictures_can_be_drawn_again(tmp_path: Path) -> None:
    runpy.run_path(str(ROOT / "docs/pictures.py"))["main"](str(tmp_path))
    drawn = {path.name for path in tmp_path.iterdir()}
    pages = "".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))
    assert drawn and drawn <= set(re.findall(r"\(pictures/(\w+\.png)\)", pages))
    kept = {path.name: path.stat().st_size for path in (ROOT / "docs/pictures").iterdir()}
    assert drawn <= set(kept)
    assert max(kept.values()) < 150_000
