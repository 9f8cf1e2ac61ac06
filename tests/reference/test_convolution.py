"""The authors' convolution: their grid, their smoothing, their odd lengths."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from ckcnn.nn import CKConv, Siren
from ckcnn.reference import convolution as reference
from ckcnn.reference.convolution import ReferenceConv, grid_step, newest_position, smooth_inside
from tests.reference.published import convolve

# training length, length, dt, the authors' step and the coordinate of now, as their code computes them
GRIDS = [
    (182, 182, 1, 1, 1.0),
    (182, 91, 2, 2, 0.988950),
    (182, 46, 4, 4, 0.988950),
    (182, 23, 8, 8, 0.944751),
    (182, 12, 16, 15, 0.988950),  # 182 / 12 is rounded to 15
    (91, 182, 1 / 2, 1 / 2, 1.011111),
    (91, 12, 8, 8, 0.955556),
    (46, 182, 1 / 4, 1 / 4, 1.011111),
    (46, 91, 1 / 2, 1 / 2, 1.0),
    (23, 182, 1 / 8, 1 / 8, 1.056818),
    (161, 161, 1, 1, 1.0),
    (16_000, 8_000, 2, 2, 0.999875),
    (16_000, 4_000, 4, 4, 0.999625),
    (16_000, 2_000, 8, 8, 0.999125),
    (8_000, 16_000, 1 / 2, 1 / 2, 1.000125),
    (2_000, 16_000, 1 / 8, 1 / 8, 1.000875),
]


def layer(kind: type[CKConv], horizon: int, **options: float) -> CKConv:
    torch.manual_seed(1)
    made = kind(2, 3, horizon, kernel=partial(Siren, omega_0=20.0), **options).double()
    torch.nn.init.normal_(made.bias)
    return made


@pytest.mark.parametrize(("horizon", "length", "dt", "step", "newest"), GRIDS)
def test_grid(horizon: int, length: int, dt: float, step: float, newest: float) -> None:
    assert grid_step(length, horizon, dt) == step
    assert newest_position(length, horizon, step) == pytest.approx(newest, abs=1e-6)


def test_inverse_steps_may_be_rounded() -> None:
    assert 1 / (1 / 49) != 49
    assert [grid_step(2 * n, 2, 1 / n) for n in range(1, 100)] == [1 / n for n in range(1, 100)]


def test_smoothing_is_not_normalised_and_spares_the_ends() -> None:
    impulse = torch.zeros(1, 11, dtype=torch.float64)
    impulse[0, [0, 5]] = 1
    smooth = smooth_inside(impulse, 2)[0]
    taps = [0.000268, 0.107982, 0.797885, 0.107982, 0.000268]
    assert smooth[3:8].tolist() == pytest.approx(taps, abs=1e-6)
    assert smooth[:3].tolist() == pytest.approx([1, 0, taps[0]], abs=1e-6)
    assert float(smooth_inside(torch.ones(1, 11, dtype=torch.float64), 2)[0, 5]) == pytest.approx(1.0144, abs=1e-4)


@pytest.mark.parametrize(("horizon", "length", "dt", "step", "newest"), [grid for grid in GRIDS if max(grid) < 200])
def test_convolution(horizon: int, length: int, dt: float, step: float, newest: float) -> None:
    conv, x = layer(ReferenceConv, horizon), torch.randn(2, 2, length, dtype=torch.float64)
    expected = convolve(conv, x, step, newest_position(length, horizon, step))
    assert torch.allclose(conv(x, dt), expected, atol=1e-10)


@pytest.mark.parametrize("length", [182, 161])
def test_only_odd_lengths_differ_from_the_ordinary_layer(length: int) -> None:
    x = torch.randn(2, 2, length, dtype=torch.float64)
    theirs, ours = (layer(kind, length)(x).detach() for kind in (ReferenceConv, CKConv))
    difference = float((theirs - ours).abs().max() / ours.std())
    assert difference > 0.1 if length % 2 else difference < 1e-10


def test_kernel_is_ours_on_the_training_grid() -> None:
    theirs, ours = layer(ReferenceConv, 91), layer(CKConv, 91)
    assert torch.allclose(theirs.kernel(91), ours.kernel(91), atol=1e-12)
    assert torch.allclose(theirs.kernel_norm(), ours.kernel_norm())


def test_long_odd_lengths_are_warped_by_transforms(monkeypatch: pytest.MonkeyPatch) -> None:
    conv, x = layer(ReferenceConv, 23), torch.randn(2, 2, 23, dtype=torch.float64)
    by_matrix = conv(x)
    monkeypatch.setattr(reference, "_LONG", 0)
    assert torch.allclose(conv(x), by_matrix, atol=1e-12)


@pytest.mark.parametrize(("horizon", "length", "dt"), [(9, 9, 1), (5, 9, 0.5), (9, 5, 2), (8, 8, 1)])
def test_gradients(horizon: int, length: int, dt: float) -> None:
    conv = layer(ReferenceConv, horizon)
    x = torch.randn(2, 2, length, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, *_: conv(x, dt), (x, *conv.parameters()), fast_mode=True)


@pytest.mark.parametrize("length", [22, 23])
def test_weight_dropout_in_training_only(length: int) -> None:
    conv, x = layer(ReferenceConv, length, weight_dropout=0.5), torch.randn(1, 2, length, dtype=torch.float64)
    plain = layer(ReferenceConv, length)(x)
    assert not torch.allclose(conv(x), plain)
    assert torch.allclose(conv.eval()(x), plain)


@pytest.mark.parametrize("parameters", [torch.float32, torch.bfloat16])
def test_half_precision_stays_half(parameters: torch.dtype) -> None:
    conv, x = ReferenceConv(2, 3, 23).to(parameters), torch.randn(1, 2, 23, dtype=torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        assert conv(x).dtype == torch.bfloat16


@pytest.mark.parametrize(("length", "dt"), [(200, 1.0), (91, 1.0), (182, 2.0), (146, 1.25), (227, 0.8)])
def test_other_lengths_would_be_stretched_and_are_refused(length: int, dt: float) -> None:
    message = rf"know sequences of 182 training samples.*got {length} samples at dt {dt:g}"
    with pytest.raises(ValueError, match=message):
        layer(ReferenceConv, 182)(torch.randn(1, 2, length, dtype=torch.float64), dt)


def test_bad_input_is_refused_at_odd_lengths_too() -> None:
    conv = ReferenceConv(2, 3, 23)
    with pytest.raises(ValueError, match="must have 2 channels"):
        conv(torch.randn(1, 3, 23))
    with pytest.raises(ValueError, match="dt must be a positive number"):
        conv(torch.randn(1, 2, 23), dt=-1)
    with pytest.raises(ValueError, match="take no time stamps"):
        conv(torch.randn(1, 2, 23), times=torch.arange(23.0)[None])
