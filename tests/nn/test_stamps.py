"""Real-valued stamps by FFT: as good as the tolerance says, causal to rounding, and never silently worse."""

from __future__ import annotations

import warnings
from functools import partial

import pytest
import torch
from torch import Tensor

from ckcnn.nn import (
    CKConv,
    CKNet,
    FourierKernel,
    KernelFactory,
    MLPKernel,
    MultiscaleSiren,
    Siren,
    TimeGrid,
    irregular,
)
from ckcnn.nn.band import choose_sigma
from ckcnn.nn.positions import Memory
from ckcnn.nn.window import profile, window
from tests.nn import direct

HORIZON = 120
SMOOTH = partial(Siren, omega_0=12.0)


def make_layer(kernel: KernelFactory = SMOOTH, **options: object) -> CKConv:
    torch.manual_seed(1)
    layer = CKConv(2, 3, HORIZON, kernel=kernel, **options).double()  # type: ignore[arg-type]
    torch.nn.init.normal_(layer.bias)  # type: ignore[arg-type]
    return layer


def make_stamps(kind: str, length: int, batch: int = 2) -> Tensor:
    gaps = 2 * torch.rand(batch, length, dtype=torch.float64)
    if kind == "clustered":
        gaps = torch.where(torch.rand(batch, length) < 0.1, 10 * gaps, 0.05 * gaps)
    elif kind == "jitter":
        return torch.arange(length) + 0.9 * torch.rand(batch, length, dtype=torch.float64)
    elif kind == "equal":
        gaps = torch.where(torch.rand(batch, length) < 0.3, 0.0, gaps)
    elif kind == "gaps":
        gaps[:, length // 2] += 10.0 * HORIZON
        gaps[:, -3] += 10.0 * HORIZON
    elif kind == "sparse":
        gaps = 30 * gaps
    return gaps.cumsum(1) + 1000


def outcome(layer: CKConv, x: Tensor, times: Tensor | TimeGrid) -> list[Tensor]:
    y = layer(x, times=times)
    grad = torch.linspace(-1, 1, y.numel(), dtype=torch.float64).view(y.shape).sin().to(y)
    return [y, *torch.autograd.grad(y, [x, *layer.parameters()], grad)]


def exactly(layer: CKConv, x: Tensor, times: Tensor) -> list[Tensor]:
    exact = make_layer(stamps="exact", causal=layer.memory.causal)
    exact.kernel_net = layer.kernel_net.double()
    exact.bias = layer.bias
    return outcome(exact.double(), x.detach().double().requires_grad_(), times)


def error(ours: list[Tensor], exact: list[Tensor]) -> float:
    """The largest relative error of values and gradients; a gradient that is only rounding counts with the others."""
    ours, exact = [part.detach() for part in ours], [part.detach() for part in exact]
    scale = max(float(part.norm()) for part in exact[2:])
    floors = [0.0, 0.0] + [1e-3 * scale] * (len(exact) - 2)
    parts = zip(ours, exact, floors, strict=True)
    return max(float((a.double() - b).norm()) / max(float(b.norm()), floor) for a, b, floor in parts)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ways that were taken."""
    taken: list[str] = []
    for name in ("spread_conv", "_conv_by_pairs", "_conv_on_grid"):
        way = getattr(irregular, name)

        def noted(*arguments: object, name: str = name, way: object = way) -> Tensor:
            taken.append(name)
            return way(*arguments)  # type: ignore[operator, no-any-return]

        monkeypatch.setattr(irregular, name, noted)
    return taken


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kind", ["uniform", "clustered", "jitter", "equal", "gaps"])
@pytest.mark.parametrize("length", [50, 300])
def test_is_as_good_as_the_tolerance_with_all_gradients(kind: str, length: int, causal: bool, calls: list[str]) -> None:
    layer, times = make_layer(causal=causal), make_stamps(kind, length)
    x = torch.randn(2, 2, length, dtype=torch.float64, requires_grad=True)
    ours = outcome(layer, x, times)
    assert "spread_conv" in calls
    assert error(ours, exactly(layer, x, times)) <= 1e-5


@pytest.mark.parametrize("kind", ["uniform", "equal", "gaps"])
@pytest.mark.parametrize("length", [1, 2, 3, 50])
def test_equals_the_direct_sum(kind: str, length: int) -> None:
    layer, times = make_layer(), make_stamps(kind, max(length, 4))[:, :length]
    x = torch.randn(2, 2, length, dtype=torch.float64)
    with torch.no_grad():
        expected = direct.convolve_stamped(layer, x, times)
        assert (layer(x, times=times) - expected).norm() <= 1e-5 * expected.norm()


@pytest.mark.parametrize("causal", [True, False])
def test_a_smaller_tolerance_is_reached(causal: bool, calls: list[str]) -> None:
    layer, times = make_layer(causal=causal, tolerance=1e-9), make_stamps("uniform", 300)
    x = torch.randn(2, 2, 300, dtype=torch.float64, requires_grad=True)
    ours = outcome(layer, x, times)
    assert "spread_conv" in calls
    assert error(ours, exactly(layer, x, times)) <= 1e-9


@pytest.mark.parametrize("causal", [True, False])
def test_single_precision(causal: bool, calls: list[str]) -> None:
    layer, times = make_layer(causal=causal).float(), make_stamps("uniform", 300)
    x = torch.randn(2, 2, 300, requires_grad=True)
    ours = outcome(layer, x, times)
    assert "spread_conv" in calls
    assert error(ours, exactly(layer, x, times)) <= 1e-5


KERNELS = {
    "siren": SMOOTH,
    "default siren": Siren,
    "fast siren": partial(Siren, omega_0=100.0),
    "reference": partial(Siren, omega_0=30.0, init="reference"),
    "multiscale": partial(MultiscaleSiren, horizon=HORIZON),
    "swish": partial(MLPKernel, activation="swish"),
    "relu": MLPKernel,
    "leaky": partial(MLPKernel, activation="leaky_relu"),
    "fourier": FourierKernel,
}


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_net_respects_the_tolerance(name: str, calls: list[str]) -> None:
    layer, times = make_layer(KERNELS[name]), make_stamps("uniform", 150)
    x = torch.randn(2, 2, 150, dtype=torch.float64, requires_grad=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ours = outcome(layer, x, times)
    slow = "_conv_by_pairs" in calls
    assert slow == any("summed pair by pair" in str(warning.message) for warning in caught)
    assert slow or name not in ("relu", "leaky", "fourier")  # kinks have all frequencies
    assert error(ours, exactly(layer, x, times)) <= 1e-5


@pytest.mark.parametrize("kind", ["uniform", "clustered", "equal", "whole"])
def test_nothing_depends_on_what_is_later(kind: str) -> None:
    """Not even by the tolerance: to rounding, whatever later samples and stamps are."""
    layer, length, known = make_layer(), 120, 70
    times = make_stamps(kind, length) if kind != "whole" else torch.arange(length).double().mul(2).expand(2, -1)
    x = torch.randn(2, 2, length, dtype=torch.float64)
    with torch.no_grad():
        before = layer(x, times=times if kind != "whole" else times + (torch.arange(length) % 7 == 6))[..., :known]
        for step in (0.013, 3.3, 25.0, 1e4):
            later_x, later = x.clone(), times.clone()
            if kind == "whole":
                later = later + (torch.arange(length) % 7 == 6)
            later_x[..., known:] = 10 * torch.randn(2, 2, length - known, dtype=torch.float64)
            later[:, known:] = later[:, known - 1 : known] + step * (1 + torch.arange(length - known))
            change = (layer(later_x, times=later)[..., :known] - before).abs().max()
            assert change <= 1e-13 * step * 10 * length * before.abs().max().clamp_min(1)


def test_a_grid_that_gets_too_long_ends_in_pairs(calls: list[str]) -> None:
    layer, times = make_layer(), make_stamps("sparse", 150)
    x = torch.randn(2, 2, 150, dtype=torch.float64, requires_grad=True)
    ours = outcome(layer, x, times)
    assert "spread_conv" in calls
    assert "_conv_by_pairs" in calls
    assert error(ours, exactly(layer, x, times)) <= 1e-5


@pytest.mark.parametrize("causal", [True, False])
def test_padding_of_whole_numbers_stays_on_the_grid(causal: bool, calls: list[str]) -> None:
    layer = make_layer(causal=causal)
    times = torch.stack([torch.arange(50), torch.arange(50).clamp_max(30)]) * 2 + (torch.arange(50) > 4)
    times = times.double()
    x = torch.randn(2, 2, 50, dtype=torch.float64, requires_grad=True)
    ours = outcome(layer, x, times)
    assert calls == ["_conv_on_grid"]
    assert error(ours, exactly(layer, x, times)) <= 1e-12


def test_tiles_that_are_not_kept_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, times = make_layer(), make_stamps("clustered", 150)
    x = torch.randn(2, 2, 150, dtype=torch.float64, requires_grad=True)
    kept = outcome(layer, x, times)
    monkeypatch.setattr("ckcnn.nn.near_pairs._KEEP_ELEMENTS", 0)
    monkeypatch.setattr("ckcnn.nn.near_pairs._CHUNK_ELEMENTS", 5000)
    assert error(outcome(layer, x, times), kept) <= 1e-12


def test_a_network_looks_at_stamps_once(monkeypatch: pytest.MonkeyPatch) -> None:
    net = CKNet(2, 4, 3, partial(CKConv, horizon=HORIZON, kernel=SMOOTH), norm="step")
    made: list[object] = []
    checked = TimeGrid.__init__

    def noted(self: TimeGrid, *arguments: Tensor) -> None:
        made.append(self)
        checked(self, *arguments)

    monkeypatch.setattr(TimeGrid, "__init__", noted)
    x, times = torch.randn(2, 2, 60), make_stamps("uniform", 60)
    y = net(x, times=times)
    assert len(made) == 1
    assert torch.equal(net(x, times=made[0]), y)
    assert len(made) == 1


def test_a_time_grid_of_another_signal_is_refused() -> None:
    x, times = torch.randn(2, 2, 60, dtype=torch.float64), make_stamps("uniform", 60)
    with pytest.raises(ValueError, match=r"shape \(2, 59\) for this x, got \(2, 60\); make one with TimeGrid"):
        make_layer()(x[..., :59], times=TimeGrid(times, x))


@pytest.mark.parametrize("stamps", [[0.0, 1, 2, 3, 4], [0.0, 1, 3, 4, 7], [0.0, 0.7, 2.1, 2.9, 4.4]])
def test_stamps_have_a_gradient_whatever_their_values(stamps: list[float]) -> None:
    torch.manual_seed(0)
    layer, x = make_layer(), torch.randn(1, 2, len(stamps), dtype=torch.float64)
    weight = torch.randn(1, 3, len(stamps), dtype=torch.float64)

    def loss(times: Tensor) -> Tensor:
        return (layer(x, times=times) * weight).sum()

    times = torch.tensor([stamps], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(loss(times), times)
    step = 1e-6 * torch.eye(len(stamps), dtype=torch.float64)
    for index in range(1, len(stamps)):
        sides = [loss((times + sign * step[index]).detach().requires_grad_()) for sign in (1, -1)]
        assert gradient[0, index].item() == pytest.approx((sides[0] - sides[1]).item() / 2e-6, rel=1e-5, abs=1e-7)


def test_bad_options() -> None:
    with pytest.raises(ValueError, match="stamps must be one of auto, exact, got 'fast'"):
        make_layer(stamps="fast")
    with pytest.raises(ValueError, match=r"tolerance must lie in \(0, 1\)"):
        make_layer(tolerance=0.0)


def test_an_evenly_filled_band_needs_a_finer_grid() -> None:
    """Ramps and windows are so short because real kernels hold little of their highest frequencies."""
    frequencies = torch.linspace(0, 1.4, 40, dtype=torch.float64)[:, None]
    sigmas = []
    for amplitudes in (profile(frequencies / 1.4, 1e-5), torch.ones_like(frequencies)):

        def basis(lags: Tensor, amplitudes: Tensor = amplitudes) -> Tensor:
            return (amplitudes * torch.cos(frequencies * lags + frequencies.square())).sum(0).expand(2, 1, -1)

        sigmas.append(choose_sigma(basis, None, Memory(200), 1e-5))
    assert sigmas == [1.0, 4.0]


def test_the_window_has_no_later_side() -> None:
    """Up to the width of the window the discrete kernel of a causal layer is zero, not small."""
    chosen = window(1e-5)
    kernel = chosen.grid_kernel(torch.randn(3, 100, dtype=torch.float64), True)
    assert not kernel[:, : chosen.width + 1].any()
