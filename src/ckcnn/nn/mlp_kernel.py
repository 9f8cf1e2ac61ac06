"""Piecewise kernel nets, the alternatives of the paper's ablation, and where their units bend (paper, Appx. B.1)."""

# K basis functions, L coordinates

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from ckcnn.checks import check_choice, check_counts
from ckcnn.nn.kernels import KernelNet

MLPInit = Literal["knots", "zero", "reference"]


class MLPKernel(KernelNet):
    """A piecewise net: ``W3 a(norm(W2 a(norm(W1 p + b1)) + b2)) + b3`` (paper, Appx. B.1).

    The authors' "layer norm" in kernel nets pools over all coordinates, which makes a kernel depend on where else it is
    sampled. Ours normalises the units at each coordinate, so the kernel is a function.

    Args:
        outputs: number of kernel values at a coordinate.
        activation: ``"relu"``, ``"leaky_relu"`` or ``"swish"``.
        hidden: basis functions.
        init: ``"knots"`` spreads the knots of both layers evenly over [-1, 1] (paper, Appx. B.1), ``"zero"`` starts
            from zero biases, ``"reference"`` from what the authors' runs really started from.
    """

    ACTIVATIONS: ClassVar[dict[str, Callable[[Tensor], Tensor]]] = {
        "relu": nn.functional.relu,
        "leaky_relu": nn.functional.leaky_relu,
        "swish": nn.functional.silu,
    }

    def __init__(self, outputs: int, activation: str = "relu", hidden: int = 32, init: MLPInit = "knots") -> None:
        check_counts(outputs=outputs)
        if hidden < 3:
            raise ValueError(f"hidden must be at least 3 units, which layer norm and knots need, got {hidden!r}")
        check_choice("activation", activation, tuple(self.ACTIVATIONS))
        check_choice("init", init, get_args(MLPInit))
        super().__init__(weight_norm(nn.Linear(hidden, outputs)))
        self.first = weight_norm(nn.Linear(1, hidden))
        self.first_norm = nn.LayerNorm(hidden)
        self.second = weight_norm(nn.Linear(hidden, hidden))
        self.second_norm = nn.LayerNorm(hidden)
        self.activation, self.init = activation, init
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Initialise all weights."""
        for layer in (self.first, self.second, self.read_out):
            bound = 1 / math.sqrt(layer.in_features)
            layer.weight = torch.empty_like(layer.weight).uniform_(-bound, bound)
            layer.bias.zero_()
        self.first_norm.reset_parameters()
        self.second_norm.reset_parameters()
        knots = torch.linspace(-1, 1, self.first.out_features).to(self.first.bias)
        if self.init == "knots":
            place_knots(self.first, knots[:, None])
            place_knots(self.second, self._activate(self._first_input(knots)))
        elif self.init == "reference":
            self.first.bias.copy_(-knots * torch.empty_like(knots).normal_(std=0.01))

    def _first_input(self, p: Tensor) -> Tensor:
        """What the first activation receives: ``(L,) -> (L, K)``."""
        return self.first_norm(self.first(p[:, None]))

    def _second_input(self, p: Tensor) -> Tensor:
        return self.second_norm(self.second(self._activate(self._first_input(p))))

    def _activate(self, x: Tensor) -> Tensor:
        return self.ACTIVATIONS[self.activation](x)

    def basis(self, p: Tensor) -> Tensor:
        return self._activate(self._second_input(p)).T

    def extra_repr(self) -> str:
        return f"activation={self.activation}, init={self.init}"


@torch.no_grad()
def place_knots(layer: nn.Linear, inputs: Tensor) -> None:
    """Set weights and biases so that the normalised output of unit ``i`` is zero at ``inputs[i]``.

    The paper sets ``b_i = -W_i h_i`` for any weights. Layer norm then takes the mean over the units away, which moves
    the knots. They stay in place if that mean is zero at every input: weights that sum to zero over the units give
    the linear part, weights orthogonal to the inputs give the biases. So the drawn weights are projected to both.

    Args:
        layer: linear layer with as many units as there are inputs.
        inputs: what the layer receives at the coordinates of the knots, ``(units, in_features)``.
    """
    weight = layer.weight - layer.weight.mean(0)
    centred = inputs - inputs.mean(0)
    weight = weight - (weight * centred).sum() / (centred * centred).sum() * centred
    layer.weight = weight
    layer.bias.copy_(-(weight * inputs).sum(1))
