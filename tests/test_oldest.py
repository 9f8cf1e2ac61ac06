"""setup.cfg says which versions work: from the lowest, which ``make test-oldest`` tests, to the next major one."""

from __future__ import annotations

from configparser import ConfigParser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.oldest import floors

SETUP = Path(__file__).parents[1] / "setup.cfg"
CONSTRAINTS = SETUP.with_name("constraints.txt")


def test_the_lowest_versions_are_those_of_setup_cfg() -> None:
    found = floors(SETUP.read_text())
    assert found["pytorch-lightning"] == "2.6"  # Trainer.fit(weights_only=...)
    assert found["optuna"] == "4.9"  # RetryHeartbeatStaleTrialCallback
    assert found["jsonargparse"] == "4.48"  # what its errors say; its extra is left out


def test_every_requirement_has_a_floor_and_a_cap() -> None:
    config = ConfigParser()
    config.read(SETUP)
    lines = [config["options"]["install_requires"], *config["options.extras_require"].values()]
    for line in filter(None, "\n".join(lines).split("\n")):
        assert ">=" in line, line
        assert ",<" in line, line


def test_a_requirement_without_a_floor_is_refused() -> None:
    text = "[options]\ninstall_requires =\n    torch\n[options.extras_require]\ndev =\n"
    with pytest.raises(ValueError, match="requires 'torch' without a floor"):
        floors(text)


def test_every_pinned_version_is_one_that_setup_cfg_allows() -> None:
    """Otherwise pip cannot install an extra with the pinned versions."""
    config = ConfigParser()
    config.read(SETUP)
    lines = [config["options"]["install_requires"], *config["options.extras_require"].values()]
    required = [Requirement(line) for line in filter(None, "\n".join(lines).split("\n"))]
    pins = [Requirement(line) for line in CONSTRAINTS.read_text().splitlines() if line and not line.startswith("#")]
    pinned = {canonicalize_name(pin.name): next(iter(pin.specifier)).version for pin in pins}
    for package in required:
        version = pinned[canonicalize_name(package.name)]
        assert package.specifier.contains(version), f"{package}, but constraints.txt has {version}"
