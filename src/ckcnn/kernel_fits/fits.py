"""Functions for a kernel net to become, and nets to try (paper, Sec. 4.2 and Appx. D.1, Case I)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ckcnn.nn import KernelNet, MLPKernel, MultiscaleSiren, Siren

_LEVELS = (0.2, 0.9, -0.6, 0.4, -1.0, 0.6, -0.2)


def _steps(p: Tensor) -> Tensor:
    index = ((p + 1) / 2 * len(_LEVELS)).long()
    return torch.tensor(_LEVELS)[index.clamp(max=len(_LEVELS) - 1)]


def _noise(p: Tensor) -> Tensor:
    return 2 * torch.rand(len(p), generator=torch.Generator().manual_seed(0)) - 1


TARGETS: dict[str, Callable[[Tensor], Tensor]] = {
    "gaussian": lambda p: torch.exp(-0.5 * (p / 0.2) ** 2),
    "steps": _steps,
    "sawtooth": lambda p: 2 * (5 * p + 0.5).remainder(1) - 1,
    "sines": lambda p: torch.stack([torch.sin(math.pi * k * p) for k in (2, 7, 17)]).mean(0),
    "chirp": lambda p: torch.sin(2 * math.pi * (p + 1) * (1 + 3 * (p + 1))),
    "noise": _noise,
}
"""Functions of the coordinate in [-1, 1], from simple to rough; none leaves [-1, 1]."""

FEWEST_POINTS = 64  # the chirp ends at 13 periods for each unit, and each takes two points at least


@dataclass(frozen=True)
class Choice:
    """A kind of kernel net.

    Args:
        title: what a picture calls it.
        make: makes it for a number of points and an omega_0.
    """

    title: str
    make: Callable[[int, float], KernelNet]


def _piecewise(activation: str, title: str) -> dict[str, Choice]:
    name = activation.replace("_", "-")
    return {
        f"{name}-zero": Choice(f"{title}, zero", lambda points, omega_0: MLPKernel(1, activation, init="zero")),
        f"{name}-knots": Choice(f"{title}, knots", lambda points, omega_0: MLPKernel(1, activation, init="knots")),
    }


NETS: dict[str, Choice] = {
    **_piecewise("relu", "ReLU"),
    **_piecewise("leaky_relu", "LeakyReLU"),
    **_piecewise("swish", "Swish"),
    "sine": Choice("Sine", lambda points, omega_0: Siren(1, omega_0)),
    "sine-auto": Choice("Sine, auto", lambda points, omega_0: MultiscaleSiren(1, points)),
}
"""Three layers of 32 units each; the piecewise ones have the layer norm that the paper gives them."""


@dataclass(frozen=True)
class Fit:
    """What a net has become.

    Args:
        values: at the points.
        error: root mean square, as a fraction of the deviation of the function; the best constant has 1.
    """

    values: Tensor
    error: float


def fit(net: nn.Module, p: Tensor, target: Tensor, steps: int, learning_rate: float) -> Fit:
    """Train a kernel net on a function: all points in every step, Adam, cosine decay.

    Args:
        net: maps coordinates ``(L,)`` to ``(1, L)``.
        p: the coordinates.
        target: values of the function there.
        steps: how many.
        learning_rate: of the first step.
    """
    optimizer = torch.optim.Adam(net.parameters(), lr=learning_rate, fused=True)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        (net(p)[0] - target).square().mean().backward()
        optimizer.step()
        decay.step()
    with torch.no_grad():
        values = net(p)[0]
    error = (values - target).square().mean().sqrt() / target.std(correction=0)
    return Fit(values, error.item() if error.isfinite() else math.inf)
