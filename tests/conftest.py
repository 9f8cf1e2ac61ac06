"""Every test starts from the same seed, on one thread and without a network; where the real data is."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
import torch

_REPOSITORY = Path(__file__).parents[1]
os.environ["OMP_NUM_THREADS"] = "1"  # of all processes that tests start, which would wait for each other's threads


@pytest.fixture(autouse=True)
def _repeatable() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the shapes are small, and the machine may be shared


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: object) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "localhost", "::1"):  # type: ignore[index]
            raise RuntimeError(f"a test must not use the network, it tried {address}")
        connect(self, address)  # type: ignore[arg-type]

    monkeypatch.setattr(socket.socket, "connect", guarded)


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
