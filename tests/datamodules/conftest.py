"""Where the real data is, and a folder for the prepared one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with the real files; tests that need it are skipped without it."""
    shared = Path(os.environ.get("CKCNN_SHARED") or _REPOSITORY.parent / "shared")
    if not (shared / "data").is_dir():
        pytest.skip(f"no real data in {shared / 'data'}; set CKCNN_SHARED to the folder that holds it")
    return shared / "data"


@pytest.fixture(scope="session")
def real_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prepared once for all tests, since the folder of the real data is read-only."""
    return tmp_path_factory.mktemp("cache")
