"""Training framework for continuous-kernel convolutional networks (CKConv, ICLR 2022)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ckcnn.inference.loading import load
    from ckcnn.models.baselines import GRU, LSTM, TCN
    from ckcnn.models.ckcnn import CKCNN
    from ckcnn.models.own_net import OwnNet
    from ckcnn.reference.model import ReferenceCKCNN

__version__ = "0.1.0"
__all__ = ["CKCNN", "GRU", "LSTM", "TCN", "OwnNet", "ReferenceCKCNN", "load"]
MODELS = ("CKCNN", "GRU", "LSTM", "TCN", "OwnNet", "ReferenceCKCNN")  # what a preset or a checkpoint may name

_HOMES = dict.fromkeys(("GRU", "LSTM", "TCN"), "ckcnn.models.baselines")
_HOMES |= {
    "CKCNN": "ckcnn.models.ckcnn",
    "OwnNet": "ckcnn.models.own_net",
    "ReferenceCKCNN": "ckcnn.reference.model",
    "load": "ckcnn.inference.loading",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is asked for: `ckcnn --help` should not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'ckcnn' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
