"""The kernel-norm penalty: un-squared norms of the sampled kernel and the bias, layer by layer."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from ckcnn.nn import CKConv, CKNet, MLPKernel, kernel_penalty


@pytest.mark.parametrize("options", [{}, {"causal": False}, {"kernel": MLPKernel}])
def test_is_the_sum_of_norms(options: dict[str, object]) -> None:
    net = CKNet(2, 6, 5, partial(CKConv, horizon=20, **options)).double()  # type: ignore[arg-type]
    for layer in net.modules():
        if isinstance(layer, CKConv):
            nn.init.normal_(layer.bias)  # type: ignore[arg-type]
    layers = [layer for layer in net.modules() if isinstance(layer, CKConv)]
    assert len(layers) == 4
    expected = sum(layer.kernel(20).square().sum().sqrt() + layer.bias.square().sum().sqrt() for layer in layers)  # type: ignore[union-attr]
    assert kernel_penalty(net).item() == pytest.approx(expected.item(), rel=1e-12)  # type: ignore[union-attr]


def test_gradient_is_right_and_finite_at_zero() -> None:
    layer = CKConv(2, 3, 10).double()
    penalty = torch.autograd.grad(kernel_penalty(layer), list(layer.kernel_net.parameters()))
    direct = torch.autograd.grad(layer.kernel(10).square().sum().sqrt(), list(layer.kernel_net.parameters()))
    for ours, theirs in zip(penalty, direct, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-10)
    kernel_penalty(layer).backward()  # the bias starts at zero, where the norm has no gradient
    assert layer.bias is not None
    assert layer.bias.grad is not None
    assert layer.bias.grad.eq(0).all()


def test_works_without_a_bias_and_in_float32() -> None:
    layer = CKConv(2, 3, 500, bias=False)
    exact = layer.kernel(500).double().square().sum().sqrt().item()
    assert kernel_penalty(layer).item() == pytest.approx(exact, rel=1e-5)


def test_needs_a_ckconv() -> None:
    with pytest.raises(ValueError, match="at least one CKConv, found none"):
        kernel_penalty(nn.Linear(2, 2))
