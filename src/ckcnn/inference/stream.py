"""Streams of raw measurements through a trained network."""

# B batch, C channels, O outputs, T time

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ckcnn.datamodules.preprocessing import Preprocessing
from ckcnn.inference.intake import describe_channels
from ckcnn.nn import NetworkStream


class ModelStream:
    """Answers raw samples as they arrive, with what training did to whole sequences done sample by sample.

    Args:
        net: a causal network.
        trained: what training did to raw sequences.
        batch: streams side by side.

    Raises:
        ValueError: if the network looks ahead, or its preprocessing needs the whole sequence.
    """

    def __init__(self, net: nn.Module, trained: Preprocessing, batch: int = 1) -> None:
        _check(trained)
        self.trained = trained
        self.stream = NetworkStream(net, batch)

    @property
    def steps(self) -> Tensor:
        """How many samples each stream was given since it started, ``(B,)``."""
        return self.stream.steps

    def push(self, samples: Any) -> Tensor:
        """Return the scores ``(B, O, T)`` after each new sample.

        Args:
            samples: raw values ``(B, C, T)``, any number of new steps; NaN where nothing was observed, if training had
                missing values.

        Raises:
            ValueError: if they do not fit.
        """
        x = torch.as_tensor(samples, dtype=torch.float32, device=self.stream.device)
        if x.dim() != 3 or x.shape[1] != self.trained.channels:
            raise ValueError(
                f"samples must have shape (batch, channels, new steps) with {describe_channels(self.trained)}, "
                f"got {tuple(x.shape)}"
            )
        return self.stream.push(self._prepared(x))

    def reset(self, rows: Any = None) -> None:
        """Forget the past of all streams, or of some rows."""
        self.stream.reset(rows)

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint has to keep."""
        return self.stream.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state_dict` was taken."""
        self.stream.load_state_dict(state)

    def _prepared(self, x: Tensor) -> Tensor:
        origin = torch.tensor(self.trained.origin, device=x.device)[:, None]
        unit = torch.tensor(self.trained.unit, device=x.device)[:, None]
        observed = ~x.isnan()
        if not self.trained.knows_missing and not bool(observed.all()):
            raise ValueError("samples must be numbers, got NaN; the model was trained without missing values")
        x = (x - origin) / unit
        if self.trained.statistics is not None:
            x = self.trained.statistics.to(x.device).apply(x)
        x = x.masked_fill(~observed, 0.0)
        if self.trained.missing == "mask":
            seen = observed[:, : self.trained.sporadic].any(1, keepdim=True)
            x = torch.cat([x, seen.to(x)], dim=1)
        return x


def _check(trained: Preprocessing) -> None:
    """Refuse what cannot be done sample by sample."""
    reasons = {
        "its samples come in another order (permuted data)": trained.order is not None,
        "its statistics differ from step to step (standardise: step)": trained.mean is not None
        and trained.mean.shape[-1] > 1,
        "it takes cepstra of a whole recording": trained.features is not None,
        "it takes counts of observations": trained.missing == "counts",
        "it takes time stamps": trained.missing == "times" or trained.stamped,
        "it reads text; use ckcnn generate": bool(trained.vocabulary),
    }
    if found := [reason for reason, holds in reasons.items() if holds]:
        raise ValueError(f"the model cannot answer a stream: {found[0]}")
