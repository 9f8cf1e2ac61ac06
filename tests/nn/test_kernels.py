"""Kernel nets are functions of the coordinate, and start from what they say, as `forward` sees it."""

from __future__ import annotations

import copy
import math
from functools import partial

import pytest
import torch
from torch import nn

from ckcnn.nn import FourierKernel, KernelFactory, KernelNet, MLPKernel, MultiscaleSiren, Siren

KERNELS: dict[str, KernelFactory] = {
    "siren": Siren,
    "siren paper": partial(Siren, init="paper"),
    "siren reference": partial(Siren, init="reference"),
    "relu": MLPKernel,
    "leaky_relu": partial(MLPKernel, activation="leaky_relu"),
    "swish": partial(MLPKernel, activation="swish"),
    "swish zero": partial(MLPKernel, activation="swish", init="zero"),
    "relu reference": partial(MLPKernel, init="reference"),
    "fourier": FourierKernel,
    "multiscale": partial(MultiscaleSiren, horizon=200),
}


def seen_weight(layer: nn.Linear) -> torch.Tensor:
    """The weight that `forward` uses, found by probing."""
    layer = copy.deepcopy(layer).double()
    zero = layer(torch.zeros(1, layer.in_features, dtype=torch.float64))
    return (layer(torch.eye(layer.in_features, dtype=torch.float64)) - zero).T.detach()


def assert_uniform(values: torch.Tensor, bound: float, slack: float) -> None:
    """Values that fill [-bound, bound] evenly; `slack` is the missing part at the ends, for few values."""
    assert values.abs().max() <= bound * (1 + 1e-5)
    assert values.abs().max() >= bound * (1 - slack)
    assert values.std().item() == pytest.approx(bound / math.sqrt(3), rel=2 * slack)


@pytest.mark.parametrize("make", KERNELS.values(), ids=KERNELS)
def test_is_a_linear_read_out_of_a_basis(make: KernelFactory) -> None:
    net = make(12)
    p = torch.linspace(-1, 1, 50)
    assert net.basis(p).shape == (32, 50)
    assert torch.allclose(net(p), net.read_out.weight @ net.basis(p) + net.read_out.bias[:, None], atol=1e-5)


@pytest.mark.parametrize("make", KERNELS.values(), ids=KERNELS)
def test_value_at_a_coordinate_does_not_depend_on_the_others(make: KernelFactory) -> None:
    net = make(12).double()
    p = torch.linspace(-1, 1, 50, dtype=torch.float64)
    assert torch.allclose(net(p)[:, 7:8], net(p[7:8]), atol=1e-12)


@pytest.mark.parametrize("make", KERNELS.values(), ids=KERNELS)
def test_every_parameter_is_finite_and_gets_a_gradient(make: KernelFactory) -> None:
    net = make(12)
    net(torch.linspace(-1, 1, 50)).square().sum().backward()
    for name, parameter in net.named_parameters():
        assert parameter.isfinite().all(), name
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("omega_0", [1.0, 30.0, 200.0])
def test_siren_init(omega_0: float) -> None:
    net = Siren(2000, omega_0)
    assert_uniform(seen_weight(net.first), 1.0, slack=0.15)
    for layer in (net.second, net.read_out):
        assert_uniform(seen_weight(layer), math.sqrt(6 / 32) / omega_0, slack=0.05)
    for layer in (net.first, net.second):
        assert_uniform(omega_0 * layer.bias, math.pi, slack=0.2)  # phases over one period
    assert net.read_out.bias.eq(0).all()


def test_siren_basis_is_spread_over_the_sine() -> None:
    """What the law is for: both layers see arguments of the same, useful size at any omega_0."""
    for omega_0 in (1.0, 30.0, 200.0):
        hidden = Siren(1, omega_0, hidden=256).basis(torch.linspace(-1, 1, 500)).detach()
        assert hidden.std().item() == pytest.approx(math.sqrt(0.5), rel=0.1)


def test_paper_init() -> None:
    net = Siren(900, 30.0, hidden=256, init="paper")
    for layer, slack in ((net.first, 0.1), (net.second, 0.1)):
        norms = seen_weight(layer).norm(dim=1)
        assert_uniform(layer.bias * norms, math.pi, slack)
    assert_uniform(seen_weight(net.second), math.sqrt(6 / 256) / 30, slack=0.05)


def test_reference_init_is_that_of_the_authors_runs() -> None:
    """As measured on their class: a kernel of std 0.72, of which 0.59 is a constant."""
    nets = [Siren(900, 30.0, init="reference") for _ in range(20)]
    assert_uniform(torch.cat([seen_weight(net.first) for net in nets]), 1.0, slack=0.05)
    for name in ("second", "read_out"):
        assert_uniform(torch.cat([seen_weight(getattr(net, name)) for net in nets]), 1 / math.sqrt(32), slack=0.02)
    for name in ("first", "second", "read_out"):
        assert_uniform(torch.cat([getattr(net, name).bias for net in nets]), 1.0, slack=0.05)
    kernels = torch.stack([net(torch.linspace(-1, 1, 784)) for net in nets])
    assert kernels.std().item() == pytest.approx(0.72, abs=0.03)
    assert kernels.mean(-1).std().item() == pytest.approx(0.59, abs=0.03)


def test_reset_parameters_draws_weights_that_forward_uses() -> None:
    for make in KERNELS.values():
        net = make(6)
        p = torch.linspace(-1, 1, 20)
        before = net(p)
        net.reset_parameters()  # type: ignore[operator]
        assert not torch.allclose(before, net(p))


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "swish"])
def test_knots_are_spread_evenly_through_layer_norm(activation: str) -> None:
    net = MLPKernel(10, activation).double()
    knots = torch.linspace(-1, 1, 32, dtype=torch.float64)
    for make_layer in (net._first_input, net._second_input):
        bends = make_layer(knots).diagonal()  # unit i at knot i
        assert bends.abs().max() < 1e-6
        assert make_layer(knots).abs().mean() > 0.1


def test_zero_and_reference_knots() -> None:
    assert MLPKernel(10, init="zero").first.bias.eq(0).all()
    bias = MLPKernel(10, init="reference").first.bias
    assert 0.001 < bias.abs().max() < 0.05


def test_fourier_frequencies() -> None:
    net = FourierKernel(10, omega_0=5.0, hidden=4000)
    assert net.frequencies.weight.std().item() == pytest.approx(2 * math.pi * 5, rel=0.1)


def test_a_kernel_net_of_your_own() -> None:
    class Constant(KernelNet):
        def basis(self, p: torch.Tensor) -> torch.Tensor:
            return torch.ones(1, len(p))

    net = Constant(nn.Linear(1, 3))
    assert net(torch.zeros(5)).shape == (3, 5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Siren(3, omega_0=0.0), "omega_0 must be a positive number, got 0"),
        (lambda: Siren(3, omega_0=math.nan), "omega_0 must be a positive number, got nan"),
        (lambda: FourierKernel(3, omega_0=-1.0), "omega_0 must be a positive number, got -1"),
        (lambda: Siren(3, init="xavier"), "init must be one of siren, paper, reference, got 'xavier'"),  # type: ignore[arg-type]
        (lambda: MLPKernel(3, init="siren"), "init must be one of knots, zero, reference, got 'siren'"),  # type: ignore[arg-type]
        (lambda: MLPKernel(3, activation="gelu"), "activation must be one of relu, leaky_relu, swish, got 'gelu'"),
        (lambda: Siren(0), "outputs must be a whole number of at least 1, got 0"),
        (lambda: MLPKernel(3, hidden=2), "hidden must be at least 3 units"),
        (lambda: FourierKernel(3, hidden=5), "hidden must be even"),
    ],
)
def test_bad_arguments(make: KernelFactory, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[call-arg]
