"""Forecasts as changes from the last value that was seen."""

# B batch, C channels, H steps ahead, T time

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


class FromLastValue(nn.Module):
    """A network that sees and predicts differences from the last value of each channel.

    The level of a series drifts, so that of a later part is often one that training never saw; differences are much the
    same everywhere. ``y = x[T] + net(x - x[T])``.

    Args:
        net: maps ``(B, C, T)`` to ``(B, C H)``, channel by channel.
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor, **sampled: Any) -> Tensor:
        """Map ``(B, C, T)`` to the next steps ``(B, C, H)``; `sampled` says how, as for the network."""
        last = x[..., -1:]  # (B, C, 1)
        return last + self.net(x - last, **sampled).unflatten(1, (x.shape[1], -1))
