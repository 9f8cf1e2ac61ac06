"""An ordinary installation, without the checkout, has everything that it needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BUILT_FROM = ("src", "datamodules", "lightning_configs", "setup.cfg", "pyproject.toml", "README.md", "LICENSE")


def run(command: list[str | Path], folder: Path) -> str:
    """What a command prints; it sees no checkout through the environment."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing an earlier build left in the checkout gets into it."""
    folder = tmp_path_factory.mktemp("build")
    unwanted = shutil.ignore_patterns("*.egg-info", "__pycache__")
    for name in BUILT_FROM:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=unwanted)
        else:
            shutil.copy(ROOT / name, folder)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-index"]
    run([*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", folder / "dist", folder], folder)
    (path,) = (folder / "dist").glob("*.whl")
    return path


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment with the wheel, which sees the dependencies of this one."""
    environment = tmp_path_factory.mktemp("environment")
    run([sys.executable, "-m", "venv", "--without-pip", environment], environment)
    programs = Path(sysconfig.get_path("scripts", "venv", vars={"base": str(environment)}))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", programs / "python"]
    run([*pip, "install", "--no-index", "--no-deps", wheel], environment)
    # The .pth files of a folder that a .pth file names are not read, so an editable installation there is not seen.
    packages = sysconfig.get_path("purelib", "venv", vars={"base": str(environment)})
    Path(packages, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return programs


def test_every_source_and_preset_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as zipped:
        packed = set(zipped.namelist())
    package = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src/ckcnn").rglob("*.py")}
    data = {f"ckcnn/datamodules/{path.name}" for path in (ROOT / "datamodules").glob("*.py")}
    presets = {f"ckcnn/configs/{path.name}" for path in (ROOT / "lightning_configs").glob("*.*")}
    templates = {f"ckcnn/report/templates/{path.name}" for path in (ROOT / "src/ckcnn/report/templates").iterdir()}
    wanted = package | data | presets | templates | {"ckcnn/py.typed"}
    assert min(map(len, (package, data, presets, templates))) > 1
    assert wanted - packed == set()
    assert {name for name in packed if ".dist-info/" not in name} - wanted == set()


def test_it_lists_presets_and_trains(programs: Path, tmp_path: Path) -> None:
    place = run([programs / "python", "-c", "import ckcnn; print(ckcnn.__file__)"], tmp_path)
    assert Path(place.strip()).is_relative_to(programs.parent)
    assert "digits.yaml" in run([programs / "ckcnn", "presets"], tmp_path)
    run([programs / "ckcnn", "fit", "--config", "digits.yaml", "--config", "debug.yaml"], tmp_path)
    assert (tmp_path / "runs/digits/version_0/metrics.csv").is_file()


def test_a_folder_datamodules_of_your_own_is_no_obstacle(programs: Path, tmp_path: Path) -> None:
    """The usual layout of a Lightning project has one."""
    (tmp_path / "datamodules").mkdir()
    (tmp_path / "datamodules/__init__.py").write_text("mine = True\n")
    code = "import datamodules; from ckcnn import CKCNN; from ckcnn.datamodules import Digits; print(datamodules.mine)"
    assert run([programs / "python", "-c", code], tmp_path) == "True\n"
