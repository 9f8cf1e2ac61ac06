"""Functions that are differentiated by hand are the plain ones, with the same derivatives of every order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from ckcnn.nn import GaussianWindow, MAGNet, PointKernel, by_hand

P = torch.linspace(-1, 1, 9, dtype=torch.float64)


def cropped(window: GaussianWindow, p: Tensor) -> Tensor:
    return window.crop(torch.sin(4 * P).repeat(2, 1), 3 * p)


def gabor(net: MAGNet, p: Tensor) -> Tensor:
    return net.basis(p)


def points(net: PointKernel, p: Tensor) -> Tensor:
    return net(p)


CASES: dict[str, tuple[Callable[..., Tensor], Callable[[], nn.Module]]] = {
    "gabor": (gabor, partial(MAGNet, 2, horizon=20, hidden=4)),
    "points": (points, partial(PointKernel, 2, radius=0.4, points=3)),
    "one width": (cropped, lambda: GaussianWindow(torch.tensor([2.0]))),
    "two widths, one at its limit": (cropped, lambda: GaussianWindow(torch.tensor([0.1, 9.0]))),
}


def everything(function: Callable[..., Tensor], net: nn.Module) -> list[Tensor]:
    """Value, gradients, gradients with that by the coordinate, and second derivatives."""
    parameters = [parameter for name, parameter in net.named_parameters() if not name.startswith("read_out")]
    y = function(net, P)
    grad = torch.linspace(-1, 2, y.numel(), dtype=torch.float64).view_as(y)
    p = P.clone().requires_grad_()
    slopes = torch.autograd.grad(function(net, p), [p, *parameters], grad, create_graph=True)
    total = torch.stack([slope.square().sum() for slope in slopes]).sum()
    return [y, *torch.autograd.grad(y, parameters, grad), *slopes, *torch.autograd.grad(total, parameters)]


@pytest.mark.parametrize("case", CASES)
def test_all_derivatives_are_those_of_plain_tensor_functions(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    function, make = CASES[case]
    net = make().double()
    ours = everything(function, net)
    monkeypatch.setattr(by_hand, "transforms_are_active", lambda: True)
    for found, expected in zip(ours, everything(function, net), strict=True):
        assert torch.allclose(found, expected, rtol=1e-10, atol=1e-10)
    assert all(value.abs().max() > 0 for value in ours)
