"""What the README shows runs as it stands."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_python_in_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    exec("\n".join(blocks), names)
    assert names["y"].shape == (8, 30, 182)  # type: ignore[attr-defined]
    assert names["probabilities"].shape == (40, 4)  # type: ignore[attr-defined]


def test_badges_say_what_the_package_says() -> None:
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    workflow = (ROOT / ".github/workflows/ci.yml").read_text()
    badges = {path.stem: path.read_text() for path in (ROOT / "docs/pictures/badges").iterdir()}
    versions = re.findall(r'"(3\.\d+)"', workflow)
    assert f">{settings['metadata']['license']}<" in badges["licence"]
    assert f">{' | '.join(versions)}<" in badges["python"]
    assert settings["options"]["python_requires"] == f">={versions[0]}"
    assert "make test" in badges["tests"]
    assert "make test" in workflow


def test_every_make_target_in_the_readme_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`?make ([a-z-]+)", (ROOT / "README.md").read_text())) <= targets


def test_every_file_that_the_readme_links_exists() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text())
    files = [link for link in links if not link.startswith("https://")]
    assert len(files) > 5
    assert [file for file in files if not (ROOT / file).is_file()] == []


def test_results_in_the_readme_are_those_of_the_results_page() -> None:
    table = (ROOT / "README.md").read_text().split("| trained here | minutes |")[1].split("\n\n")[0]
    cells = [[cell.strip() for cell in line.split("|")[2:-1]] for line in table.splitlines()[2:]]
    assert all(len(re.findall(r"\d+[.]\d+|\d+", cell)) <= 1 for row in cells for cell in row), "one number a cell"
    ours = {row[2] for row in cells} - {"-", "solved"}
    assert len(ours) > 5
    page = (ROOT / "docs/reference/results.md").read_text()
    assert [value for value in sorted(ours) if value.removesuffix(" %") not in page] == []
    theirs = {row[1] for row in cells} - {"-"}
    weights = (ROOT / "docs/how_to/authors_weights.md").read_text()
    assert [value for value in sorted(theirs) if value not in weights] == []
