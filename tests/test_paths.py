"""Every file, module and name that the README and the documentation speak of exists."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FOLDERS = "src|datamodules|lightning_configs|benchmarks|notebooks|docs|tests|[.]github"
WRITTEN = {
    "config.yaml",
    "hparams.yaml",
    "best.yaml",
    "mine.yaml",
    "quick_digits.yaml",
}  # by a run, a search or the reader

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


def exists(pattern: str) -> bool:
    return any(ROOT.glob(pattern.rstrip("/")))


@each_page
def test_paths(page: Path) -> None:
    """In prose, in commands and in links."""
    named = re.findall(rf"(?<![\w/.-])((?:{FOLDERS})/[\w./*=-]*)", page.read_text())
    built = "docs/_build/"  # by make docs
    assert [path for path in named if not path.startswith(built) and not exists(path.rstrip("."))] == []


@each_page
def test_presets(page: Path) -> None:
    text = page.read_text()
    named = {*re.findall(r"`(\w+\.(?:yaml|sbatch))`", text), *re.findall(r"--config (\w+\.yaml)", text)} - WRITTEN
    assert [name for name in sorted(named) if not exists(f"lightning_configs/{name}")] == []


@pytest.mark.parametrize("page", [*PAGES, ROOT / "Makefile"], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_modules_that_are_run(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    named = re.findall(r" -m ((?:benchmarks|ckcnn)[\w.]*)", page.read_text())
    assert [name for name in named if importlib.util.find_spec(name.rstrip(".")) is None] == []


@each_page
def test_python_names(page: Path) -> None:
    named = set(re.findall(r"`(ckcnn(?:\.\w+)+)[`(]", page.read_text()))
    assert [name for name in sorted(named) if not is_python(name)] == []


def is_python(name: str) -> bool:
    """Whether a dotted name leads through modules to something that is there."""
    parts = name.split(".")
    thing = importlib.import_module(parts[0])
    for number, part in enumerate(parts[1:], start=2):
        try:
            thing = importlib.import_module(".".join(parts[:number]))
        except ModuleNotFoundError:
            if not hasattr(thing, part):
                return False
            thing = getattr(thing, part)
    return True


def test_the_tree_of_folders() -> None:
    """Each line starts with a path; files that its description names lie in that folder, or in full below the root."""
    tree = (ROOT / "CONTRIBUTING.md").read_text().split("## Where things are")[1].split("```")[1]
    place, places = "", []
    for line in tree.strip().splitlines():
        if not line.startswith(" "):
            place = line.split()[0]
            places.append(place)
        described = line.removeprefix(place)
        for name in re.findall(r"[\w/]+\.py", described):
            assert exists(name) or exists(place + name), f"{place}: there is no {name}"
    assert [path for path in places if not exists(path)] == []
    rooms = {f"{path.relative_to(ROOT)}/" for path in (ROOT / "src/ckcnn").iterdir() if (path / "__init__.py").exists()}
    assert rooms - {"src/ckcnn/datamodules/", "src/ckcnn/configs/"} <= set(places), "every room is in the tree"
