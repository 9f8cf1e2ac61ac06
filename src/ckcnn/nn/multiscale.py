"""A kernel net that needs no omega_0, because the grid says which frequencies there are."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from ckcnn.checks import check_counts
from ckcnn.nn.kernels import KernelNet
from ckcnn.nn.siren_parts import siren_parts

_LOWEST = 1.0  # rad: below it a sine over [-1, 1] is close to a straight line
_GAIN = 60.0  # sets how fast the second layer learns, not where it starts; of 30, 60 and 100 the best
_OCTAVES = 2.0  # how far from its own frequency those lie that a basis function starts from


class MultiscaleSiren(KernelNet):
    """A SIREN with one frequency for each unit: ``W3 sin(g (W2 sin(w p + b1) + b2)) + b3``, all weights normalised.

    The frequencies ``w`` are a geometric progression from 1 rad, less than a third of a period over the whole memory,
    to ``pi (horizon - 1) / 4``, half of what a grid of `horizon` samples on [-1, 1] can hold: the second layer makes
    overtones, and the first of them must fit as well. Each unit of the second layer starts from the frequencies within
    two octaves of its own, so that the basis has slow and fast functions. Weights and phases are drawn so that what
    enters the second sine has variance 1 and any phase, as in SIREN, whatever the constant `g`.

    Args:
        outputs: number of kernel values at a coordinate.
        horizon: length of the memory, in training samples.
        hidden: basis functions.
    """

    def __init__(self, outputs: int, horizon: int, hidden: int = 32) -> None:
        check_counts(outputs=outputs, horizon=horizon, hidden=hidden)
        super().__init__(weight_norm(nn.Linear(hidden, outputs)))
        self.first = weight_norm(nn.Linear(1, hidden))
        self.second = weight_norm(nn.Linear(hidden, hidden))
        self.horizon = horizon
        self.reset_parameters()

    def frequencies(self) -> Tensor:
        """The frequencies that the units start from, in rad, slowest first."""
        highest = max(_LOWEST, math.pi * (self.horizon - 1) / 4)
        return torch.logspace(math.log2(_LOWEST), math.log2(highest), self.first.out_features, base=2)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Initialise all weights. Assigning to a normalised ``weight`` sets its direction and its norm."""
        frequencies = self.frequencies()
        octaves = frequencies.log2()
        near = ((octaves[:, None] - octaves).abs() <= _OCTAVES + 1e-3).float()
        signs = torch.randint(0, 2, (len(frequencies), 1)) * 2 - 1
        self.first.weight = signs * frequencies[:, None]
        self.first.bias.uniform_(-math.pi, math.pi)
        bounds = torch.sqrt(6 / near.sum(1, keepdim=True)) / _GAIN
        self.second.weight = near * bounds * torch.empty_like(near).uniform_(-1, 1)
        self.second.bias.uniform_(-math.pi, math.pi).div_(_GAIN)
        bound = math.sqrt(6 / self.read_out.in_features) / _GAIN
        self.read_out.weight = torch.empty_like(self.read_out.weight).uniform_(-bound, bound)
        self.read_out.bias.zero_()

    def basis(self, p: Tensor) -> Tensor:
        h = torch.sin(self.first(p[:, None]))
        return torch.sin(_GAIN * self.second(h)).T

    def parts(self, p: Tensor) -> tuple[Tensor, Tensor]:
        return siren_parts(p, (self.first, self.second, self.read_out), (1.0, _GAIN))

    def extra_repr(self) -> str:
        low, high = self.frequencies()[[0, -1]].tolist()
        return f"{low:g} ... {high:g} rad"
