"""Uniform knots: piecewise units that bend at evenly spread coordinates, as seen through layer norm (Appx. B.1)."""

from __future__ import annotations

import torch
from torch import Tensor, nn


@torch.no_grad()
def place_knots(layer: nn.Linear, inputs: Tensor) -> None:
    """Sets weights and biases so that the normalised output of unit ``i`` is zero at ``inputs[i]``.

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
