"""Every test starts from the same seed, on one thread and without a network."""

from __future__ import annotations

import socket

import pytest
import torch


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
