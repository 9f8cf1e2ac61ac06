"""A kernel net without omega_0: its frequencies follow from the horizon, and its layers start at the right scale."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch

from ckcnn.nn import CKConv, MultiscaleSiren, Siren
from tests.nn.test_kernels import seen_weight


@pytest.mark.parametrize("horizon", [64, 182, 784, 16000])
def test_frequencies_are_even_in_octaves_up_to_half_of_what_the_grid_holds(horizon: int) -> None:
    net = MultiscaleSiren(5, horizon)
    seen = seen_weight(net.first).abs()[:, 0]
    nyquist = math.pi * (horizon - 1) / 2  # of samples 2 / (horizon - 1) apart
    assert seen[0].item() == pytest.approx(1.0)
    assert seen[-1].item() == pytest.approx(nyquist / 2, rel=1e-5)
    steps = seen.log2().diff()
    assert torch.allclose(steps, steps.mean(), atol=1e-4)


@pytest.mark.parametrize("horizon", [64, 784, 16000])
def test_what_enters_the_second_sine_has_variance_one(horizon: int) -> None:
    p = torch.linspace(-1, 1, horizon)
    nets = [MultiscaleSiren(5, horizon) for _ in range(40)]
    inputs = torch.stack([60 * (net.second(torch.sin(net.first(p[:, None]))) - net.second.bias) for net in nets])
    assert inputs.var(dim=(0, 1)).mean().item() == pytest.approx(1.0, abs=0.1)


def test_the_basis_has_slow_and_fast_functions() -> None:
    """A SIREN's are all of one kind; here each is slower than those behind it, by and large."""
    p = torch.linspace(-1, 1, 784)

    def pace(net: torch.nn.Module) -> torch.Tensor:
        h = net.basis(p)  # type: ignore[operator]
        return h.diff(dim=1).square().mean(1).sqrt() / h.std(1)

    spread = torch.stack([pace(MultiscaleSiren(5, 784)) for _ in range(20)]).mean(0)
    assert spread[-4:].mean() > 20 * spread[:4].mean()
    alike = torch.stack([pace(Siren(5, omega_0=40.0)) for _ in range(20)])
    assert alike.max() < 4 * alike.min()


def test_every_phase_is_equally_likely() -> None:
    nets = [MultiscaleSiren(5, 200) for _ in range(100)]
    for biases in (torch.cat([net.first.bias for net in nets]), 60 * torch.cat([net.second.bias for net in nets])):
        assert biases.abs().max() <= math.pi * (1 + 1e-5)
        assert biases.std().item() == pytest.approx(math.pi / math.sqrt(3), rel=0.05)


def test_is_as_large_as_a_siren() -> None:
    siren, multiscale = Siren(90), MultiscaleSiren(90, 784)
    assert sum(p.numel() for p in siren.parameters()) == sum(p.numel() for p in multiscale.parameters())


def test_in_a_layer_and_for_a_memory_of_one_or_two_samples() -> None:
    for horizon in (2, 3, 50):
        layer = CKConv(2, 3, horizon=horizon, kernel=partial(MultiscaleSiren, horizon=horizon))
        assert layer(torch.randn(4, 2, 20)).isfinite().all()
    assert MultiscaleSiren(1, 1).frequencies().eq(1).all()


def test_says_what_it_is() -> None:
    assert "1 ... 614.967 rad" in repr(MultiscaleSiren(1, 784))


def test_bad_horizon() -> None:
    with pytest.raises(ValueError, match="horizon must be a whole number of at least 1, got 0"):
        MultiscaleSiren(1, 0)
