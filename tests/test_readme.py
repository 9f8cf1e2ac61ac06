"""What the README shows runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_python_in_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) >= 4
    names: dict[str, object] = {}
    exec("\n".join(blocks), names)
    assert names["kernel"].shape == (30, 3, 182)  # type: ignore[attr-defined]
    assert names["scores"].shape == (64, 10)  # type: ignore[attr-defined]
    assert names["batch"].x.shape == (32, 3, 100)  # type: ignore[attr-defined]


def test_every_public_name_in_the_readme_exists() -> None:
    import ckcnn.nn

    table = (ROOT / "README.md").read_text().split("| module |")[1].split("\n\n")[0]
    names = set(re.findall(r"^\| (.*?) \|", table, re.MULTILINE)[1:])
    mentioned = {name for cell in names for name in re.findall(r"`(\w+)`", cell)}
    assert len(mentioned) >= 10
    assert all(hasattr(ckcnn.nn, name) for name in mentioned)


def test_every_make_target_in_the_readme_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`?make ([a-z-]+)", (ROOT / "README.md").read_text())) <= targets


def test_every_file_that_the_readme_links_exists() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text())
    files = [link for link in links if not link.startswith("https://")]
    assert len(files) > 5
    assert [file for file in files if not (ROOT / file).is_file()] == []


def test_results_in_the_readme_are_those_of_the_results_page() -> None:
    table = (ROOT / "README.md").read_text().split("trained from scratch in ckcnn |")[1].split("\n\n")[0]
    cells = [line.split("|")[-2] for line in table.splitlines()[2:]]
    figures = {figure for cell in cells for figure in re.findall(r"\d+\.\d{2,}|\d\.\d+e-\d+", cell)}
    assert len(figures) > 10
    page = (ROOT / "docs/reference/results.md").read_text()
    assert [figure for figure in sorted(figures) if figure not in page] == []
