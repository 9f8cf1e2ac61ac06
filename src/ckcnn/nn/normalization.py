"""The normalisations of the backbones: one of them looks into the future (paper, Appx. E.1), the others do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

Norm = Literal["global", "step", "batch"]


def global_norm(channels: int) -> nn.Module:
    """The authors' layer normalisation: one mean and variance over channels *and* time. Not causal."""
    return nn.GroupNorm(1, channels, eps=1e-12)


class StepNorm(nn.Module):
    """Normalises the channels of each time step by themselves: causal, and untouched by padding."""

    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise ``(B, C, T)``."""
        variance, mean = torch.var_mean(x, dim=1, keepdim=True, correction=0)
        return (x - mean) * torch.rsqrt(variance + self.eps) * self.weight[:, None] + self.bias[:, None]


NORMS: dict[Norm, Callable[[int], nn.Module]] = {
    "global": global_norm,
    "step": StepNorm,
    "batch": nn.BatchNorm1d,
}
