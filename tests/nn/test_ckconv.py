"""CKConv equals the sum it stands for on every grid, and behaves like a PyTorch module."""

from __future__ import annotations

import copy
import math
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from ckcnn.nn import CKConv, FourierKernel, KernelFactory, KernelNet, MLPKernel, Siren
from tests.nn import direct

HORIZON = 12


def make_layer(horizon: int = HORIZON, omega_0: float = 8.0, **options: object) -> CKConv:
    layer = CKConv(3, 4, horizon, kernel=partial(Siren, omega_0=omega_0, init="reference"), **options).double()  # type: ignore[arg-type]
    if layer.bias is not None:
        nn.init.normal_(layer.bias)
    return layer


def signal(length: int, batch: int = 2) -> Tensor:
    return torch.randn(batch, 3, length, dtype=torch.float64)


def gradients(y: Tensor, x: Tensor, layer: CKConv) -> list[Tensor]:
    grad = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    return [y, *torch.autograd.grad(y, [x, *layer.parameters()], grad)]


@pytest.mark.parametrize("length", [1, 2, 3, 7, 11, HORIZON, 13, 30, 31])
@pytest.mark.parametrize("dt", [1.0, 2.0, 1.5, 3.7, 20.0])
def test_equals_direct_sum_with_all_gradients(length: int, dt: float) -> None:
    """With fewer and more samples than the horizon, at the training rate and below it."""
    layer, x = make_layer(), signal(length).requires_grad_()
    lags = [j * dt for j in range(length) if j * dt <= HORIZON - 1]
    expected = gradients(direct.convolve(x, dt * direct.kernel_at(layer, lags), layer.bias), x, layer)
    for ours, theirs in zip(gradients(layer(x, dt), x, layer), expected, strict=True):
        assert (ours - theirs).abs().max() <= 1e-10 * max(1, theirs.abs().max().item())


@pytest.mark.parametrize("length", [1, 2, 13, 40])
@pytest.mark.parametrize("dt", [0.5, 0.25, 1 / 3, 0.7])
def test_finer_grids_are_smoothed(length: int, dt: float) -> None:
    layer, x = make_layer(), signal(length)
    kernel = dt * direct.smoothed_kernel(layer, length, dt)
    assert (layer(x, dt) - direct.convolve(x, kernel, layer.bias)).abs().max() <= 1e-10


def test_smoothing_is_the_papers_gaussian() -> None:
    """Appx. E.3 at twice the rate: 5 taps with sigma 0.5, here summing to 1."""
    layer = make_layer(bias=False)
    raw = direct.kernel_at(layer, [j * 0.5 for j in range(2 * HORIZON - 1)])
    taps = torch.tensor([0.000264, 0.106451, 0.786571, 0.106451, 0.000264], dtype=torch.float64)
    expected = 0.5 * (raw[..., 8:13] * taps).sum(-1)
    assert (layer.kernel(30, 0.5)[..., 10] - expected).abs().max() < 1e-5


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", ["none", "layer"])
@pytest.mark.parametrize(("dt", "length"), [(2.0, 20), (1.5, 9), (3.7, 3), (40.0, 4)])
def test_an_interpolated_layer_sees_straight_lines(causal: bool, window: str, dt: float, length: int) -> None:
    layer = make_layer(causal=causal, window=window, coarse="interpolated")
    x = signal(length)
    lags = [float(u) for u in range(-math.floor(layer.memory.future), math.floor(layer.memory.past) + 1)]
    kernel = direct.kernel_at(layer, lags)
    if layer.window is not None:
        kernel = layer.window.crop(kernel, torch.tensor(lags, dtype=torch.float64))
    assert (layer(x, dt) - direct.between_samples(x, kernel, lags, dt, layer.bias)).abs().max() <= 1e-10
    assert torch.equal(layer(x), make_twin(layer, coarse="scaled", causal=causal, window=window)(x))


def make_twin(layer: CKConv, **options: object) -> CKConv:
    twin = make_layer(layer.horizon, **options)  # type: ignore[arg-type]
    twin.load_state_dict(layer.state_dict())
    return twin


@pytest.mark.parametrize("horizon", [11, 12])
@pytest.mark.parametrize("length", [1, 4, 11, 30])
@pytest.mark.parametrize("dt", [1.0, 2.0, 1.3])
def test_centred_looks_both_ways(horizon: int, length: int, dt: float) -> None:
    layer, x = make_layer(horizon, causal=False), signal(length)
    half = int((horizon - 1) / 2 / dt)
    kernel = dt * direct.kernel_at(layer, [dt * j for j in range(-half, half + 1)])
    assert (layer(x, dt) - direct.convolve(x, kernel, layer.bias, half)).abs().max() <= 1e-10


@pytest.mark.parametrize("options", [{}, {"causal": False}, {"bias": False}])
@pytest.mark.parametrize("kernel", [Siren, partial(MLPKernel, activation="swish"), FourierKernel])
def test_gradcheck(kernel: KernelFactory, options: dict[str, bool]) -> None:
    layer = CKConv(2, 2, 6, kernel=partial(kernel, hidden=4), **options).double()  # type: ignore[call-arg]
    x = torch.randn(1, 2, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, *_: layer(x), (x, *layer.parameters()))


def test_causal_layer_never_sees_the_future() -> None:
    layer, x = make_layer(), signal(20, batch=1)
    for dt in (1.0, 0.5, 2.0):
        jacobian = torch.autograd.functional.jacobian(partial(layer, dt=dt), x)  # (1, O, T, 1, I, T)
        influence = jacobian.abs().amax((0, 1, 3, 4))
        assert influence.triu(1).max() < 1e-12
        assert influence.diagonal().min() > 1e-6


def test_nothing_older_than_the_horizon_is_remembered() -> None:
    layer, x = make_layer(), signal(40)
    changed = x.clone()
    changed[..., :10] += 1
    difference = (layer(x) - layer(changed)).abs().amax((0, 1))
    assert difference[9 + HORIZON :].max() < 1e-12
    assert difference[9 + HORIZON - 1] > 1e-6


class TestKernel:
    def test_index_is_lag_and_weight_is_included(self) -> None:
        layer = make_layer()
        for dt in (1.0, 2.0, 2.5):
            lags = [j * dt for j in range(30) if j * dt <= HORIZON - 1]
            kernel = layer.kernel(30, dt)
            assert kernel.shape == (4, 3, 30)
            assert torch.allclose(kernel[..., : len(lags)], dt * direct.kernel_at(layer, lags), atol=1e-12)
            assert kernel[..., len(lags) :].eq(0).all()

    def test_half_the_rate_is_every_second_lag(self) -> None:
        layer = make_layer()
        assert torch.allclose(layer.kernel(6, 2.0), 2 * layer.kernel(12)[..., ::2], atol=1e-12)

    def test_a_finer_kernel_can_be_seen_without_smoothing(self) -> None:
        layer = make_layer()
        fine = layer.kernel(40, 1 / 4, smoothed=False)
        assert torch.allclose(fine, direct.kernel_at(layer, [j / 4 for j in range(40)]) / 4, atol=1e-12)
        assert torch.allclose(4 * fine[..., ::4], layer.kernel(10), atol=1e-12), "the training grid is part of it"
        assert not torch.allclose(fine, layer.kernel(40, 1 / 4), atol=1e-3)

    @pytest.mark.parametrize("length", [1, 2, 5, 8, 30, 31])
    def test_centred_has_now_in_the_middle(self, length: int) -> None:
        layer = make_layer(11, causal=False)
        lags = [j - length // 2 for j in range(length)]
        expected = direct.kernel_at(layer, lags) * torch.tensor([abs(u) <= 5 for u in lags])
        assert torch.allclose(layer.kernel(length), expected, atol=1e-12)

    def test_is_differentiable(self) -> None:
        make_layer().kernel(12).square().sum().backward()

    def test_memory_has_a_length(self) -> None:
        assert make_layer(17).horizon == 17

    def test_impulse_response(self) -> None:
        layer = make_layer(bias=False)
        impulse = torch.zeros(3, 3, 20, dtype=torch.float64)
        impulse[torch.arange(3), torch.arange(3), 0] = 1  # one input channel in each sequence
        assert torch.allclose(layer(impulse).transpose(0, 1), layer.kernel(20), atol=1e-12)


class Exponential(KernelNet):
    """The kernel ``W^u U`` of a linear recurrent unit (Appx. A.3), for a symmetric W with positive eigenvalues."""

    def __init__(self, recurrent: Tensor, in_weight: Tensor, horizon: int) -> None:
        eigenvalues, vectors = torch.linalg.eigh(recurrent)
        read_out = nn.Linear(len(eigenvalues), in_weight.numel()).double()
        with torch.no_grad():  # W^u U = sum over k of  eigenvalue_k^u  v_k (v_k . U)
            read_out.weight.copy_(torch.einsum("ok,hk,hi->oik", vectors, vectors, in_weight).flatten(0, 1))
            read_out.bias.zero_()
        super().__init__(read_out)
        self.log_eigenvalues, self.horizon = eigenvalues.log(), horizon

    def basis(self, p: Tensor) -> Tensor:
        lags = (1 - p) * (self.horizon - 1) / 2
        return torch.exp(self.log_eigenvalues[:, None] * lags)


def test_a_linear_recurrent_unit_is_a_ckconv() -> None:
    length, hidden = 50, 4
    factor = torch.randn(hidden, hidden, dtype=torch.float64)
    recurrent = 0.9 * torch.linalg.qr(factor).Q.T @ torch.diag(torch.rand(hidden).double() * 0.9 + 0.1)
    recurrent = recurrent @ torch.linalg.qr(factor).Q
    in_weight = torch.randn(hidden, 3, dtype=torch.float64)
    layer = CKConv(3, hidden, length, kernel=lambda _: Exponential(recurrent, in_weight, length), bias=False)
    x = signal(length)
    state, states = torch.zeros(2, hidden, dtype=torch.float64), []
    for t in range(length):
        state = state @ recurrent.T + x[..., t] @ in_weight.T
        states.append(state)
    assert (layer(x) - torch.stack(states, dim=-1)).abs().max() <= 1e-10


def test_rates_agree_on_a_smooth_signal() -> None:
    """Eq. of sampling rates: half and double rate give the original at common times, to 3 % of its size.

    The signal and the kernel hardly change within a sample, and fade in, so that the Riemann sums agree.
    """
    horizon = 401
    layer = CKConv(1, 4, horizon, kernel=partial(Siren, omega_0=3.0), bias=False).double()

    def sample(dt: float) -> Tensor:
        t = torch.arange(0, horizon, dt, dtype=torch.float64)[None, None]
        return torch.sin(2 * math.pi * t / 100) * torch.exp(-(((t - 200) / 70) ** 2))

    original = layer(sample(1.0))
    size = original.abs().max()
    assert (layer(sample(2.0), dt=2.0) - original[..., ::2]).abs().max() <= 0.03 * size
    assert (layer(sample(0.5), dt=0.5)[..., ::2] - original).abs().max() <= 0.03 * size
    assert (layer(sample(1.3), dt=1.3)[..., ::10] - original[..., ::13]).abs().max() <= 0.03 * size
    assert (layer(sample(2.0)) - original[..., ::2][..., :201]).abs().max() > 0.3 * size  # dt does the work


def test_alternating_lengths_and_rates_equal_fresh_layers() -> None:
    layer = make_layer()
    state = copy.deepcopy(layer.state_dict())
    for length, dt in [(12, 1.0), (30, 1.0), (5, 2.0), (24, 0.5), (12, 1.0), (1, 3.0), (7, 1.7)]:
        x = signal(length)
        fresh = make_layer()
        fresh.load_state_dict(state)
        assert torch.equal(layer(x, dt), fresh(x, dt))
    assert all(torch.equal(value, state[name]) for name, value in layer.state_dict().items())


class TestWeightDropout:
    def test_only_in_training(self) -> None:
        layer, plain = make_layer(weight_dropout=0.5), make_layer()
        plain.load_state_dict(layer.state_dict())
        x = signal(20)
        assert torch.equal(layer.eval()(x), plain(x))
        assert not torch.allclose(layer.train()(x), plain(x))

    def test_drops_sampled_values_and_keeps_the_mean(self) -> None:
        layer = CKConv(3, 4, 400, weight_dropout=0.25, bias=False).double()
        impulse = torch.zeros(3, 3, 400, dtype=torch.float64)
        impulse[torch.arange(3), torch.arange(3), 0] = 1
        ratio = layer(impulse).transpose(0, 1) / layer.kernel(400)
        dropped = ratio.abs() < 1e-6
        assert dropped.double().mean().item() == pytest.approx(0.25, abs=0.03)
        assert torch.allclose(ratio[~dropped], torch.tensor(1 / 0.75, dtype=torch.float64), atol=1e-6)


class TestEcosystem:
    def test_state_dict_round_trip_and_deepcopy(self) -> None:
        layer, x = make_layer(), signal(12)
        other = make_layer()
        assert not torch.allclose(layer(x), other(x))
        assert not other.load_state_dict(layer.state_dict()).missing_keys
        assert torch.equal(layer(x), other(x))
        assert torch.equal(layer(x), copy.deepcopy(layer)(x))

    def test_autocast_keeps_the_fft_and_the_kernel_in_float32(self) -> None:
        layer = make_layer(784, omega_0=43.0).float()
        x = torch.randn(4, 3, 784, requires_grad=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = layer(x)  # torch wants the backward pass outside of autocast
        for ours, theirs in zip(gradients(y, x, layer), gradients(layer(x), x, layer), strict=True):
            assert ours.dtype == torch.float32
            assert torch.equal(ours, theirs)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert layer(x.bfloat16()).dtype == torch.bfloat16
            kernel, norm = layer.kernel(784), layer.kernel_norm()
        assert torch.equal(kernel, layer.kernel(784))
        assert torch.equal(norm, layer.kernel_norm())
        stamps = torch.rand(4, 784).cumsum(1)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            stamped = layer(x[..., :20], times=stamps[:, :20])
        assert torch.equal(stamped, layer(x[..., :20], times=stamps[:, :20]))

    @pytest.mark.filterwarnings("ignore:The .grad attribute")  # dynamo looks at it
    @pytest.mark.parametrize("options", [{}, {"causal": False}, {"weight_dropout": 0.1}])
    def test_compiles(self, options: dict[str, float]) -> None:
        layer, x = make_layer(**options).eval(), signal(12).requires_grad_()
        compiled = torch.compile(layer, backend="aot_eager")
        for ours, theirs in zip(gradients(compiled(x), x, layer), gradients(layer(x), x, layer), strict=True):
            assert torch.allclose(ours, theirs, atol=1e-12)

    def test_parameters_in_bfloat16_still_run(self) -> None:
        y = make_layer().bfloat16()(torch.randn(2, 3, 12).bfloat16())
        assert y.dtype == torch.bfloat16
        assert y.isfinite().all()

    def test_inference_mode_and_frozen_parameters(self) -> None:
        layer, x = make_layer(), signal(12)
        with torch.inference_mode():
            y = layer(x)
        assert torch.equal(y, layer(x))
        (expected,) = torch.autograd.grad(layer(x.requires_grad_()).sum(), x)
        layer.requires_grad_(False)
        assert not layer(x.detach()).requires_grad
        (grad,) = torch.autograd.grad(layer(x).sum(), x)
        assert torch.allclose(grad, expected, rtol=0, atol=1e-12)
        assert grad.abs().max() > 0

    def test_meta_device_has_no_device_name_in_its_way(self) -> None:
        """No tensor is made on a device of its own: the whole layer runs where its input is."""
        layer = make_layer().to("meta")
        y = layer(signal(20).to("meta"), dt=0.5)
        assert y.shape == (2, 4, 20)
        assert y.device.type == "meta"


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda _: nn.Linear(1, 12), "kernel must make a KernelNet for a number of outputs, got Linear"),
        (lambda _: Siren(11), r"must read out 12 values \(out x in channels\) with a bias, got 11 with a bias"),
        (lambda n: KernelNet(nn.Linear(4, n, bias=False)), "must read out 12 values .* got 12 without a bias"),
        ("sine", r"what makes a kernel net .* got 'sine'; names are for ckcnn\.CKCNN\(kernel=\.\.\.\)"),
        (Siren(12), "such as partial.Siren, omega_0=30.0., got a Siren itself; give its class"),
    ],
)
def test_bad_kernel_net(kernel: KernelFactory, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CKConv(3, 4, 12, kernel=kernel)


def bad(**changes: object) -> dict[str, object]:
    return {"in_channels": 3, "out_channels": 4, "horizon": 12} | changes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (bad(horizon=1), "horizon must be a whole number of at least 2, .* got 1"),
        (bad(horizon=12.0), r"horizon must be a whole number of at least 2, .* got 12\.0"),
        (bad(in_channels=0), "in_channels must be a whole number of at least 1, got 0"),
        (bad(out_channels=-3), "out_channels must be a whole number of at least 1, got -3"),
        (bad(weight_dropout=30), r"weight_dropout must lie in \[0, 1\), got 30; .* write 0.3 for 30 %"),
    ],
)
def test_bad_arguments(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CKConv(**arguments)


@pytest.mark.parametrize("dt", [0.0, -1.0, math.nan, math.inf, "2", True, None])
def test_bad_dt(dt: float) -> None:
    for call in (lambda: make_layer()(signal(12), dt), lambda: make_layer().kernel(12, dt)):
        with pytest.raises(ValueError, match=f"dt must be a positive number up to 1e30, .* got {dt!r}"):
            call()


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(2, 4, 12), r"x must have 3 channels .* got 4 in \(2, 4, 12\)"),
        (torch.zeros(3, 12), r"x must have shape \(batch, 3, time\), got \(3, 12\)"),
        (torch.zeros(2, 3, 0), r"at least one sample, got shape \(2, 3, 0\)"),
        (torch.zeros(0, 3, 5), r"at least one sequence .* got shape \(0, 3, 5\)"),
        ([[[0.0]]], r"x must be a tensor \(batch, 3, time\), got a list; use torch\.tensor\(x\)"),
        (torch.zeros(2, 3, 12, dtype=torch.int64), r"torch.int64; convert it with x.float\(\)"),
    ],
)
def test_bad_signal(x: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_layer()(x)
    with pytest.raises(ValueError, match=r"float64 but the parameters are torch\.float32"):
        make_layer().float()(signal(12))
