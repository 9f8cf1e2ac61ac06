"""Depthwise and separable layers: their definition in float64, every case of time, windows, streams, exact sizes."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from ckcnn.nn import (
    CKConv,
    CKNet,
    DepthwiseCKConv,
    MAGNet,
    MultiscaleSiren,
    NetworkStream,
    PointKernel,
    PreNormBackbone,
    SeparableCKConv,
    Siren,
    irregular,
    kernel_penalty,
)
from ckcnn.nn.depthwise_operator import depthwise_conv
from ckcnn.nn.kernel_window import NEGLIGIBLE, GaussianWindow
from tests.nn import direct

HORIZON = 60
KERNELS = {
    "siren": partial(Siren, omega_0=8.0),
    "multiscale": partial(MultiscaleSiren, horizon=HORIZON),
    "magnet": partial(MAGNet, horizon=HORIZON),
    "points": partial(PointKernel, radius=0.3),
}


def make_layer(kernel: str = "siren", **options: object) -> DepthwiseCKConv:
    torch.manual_seed(2)
    layer = DepthwiseCKConv(3, HORIZON, kernel=KERNELS[kernel], **options).double()  # type: ignore[arg-type]
    for parameter in (layer.bias, layer.skip):
        if parameter is not None:
            nn.init.normal_(parameter)
    return layer


def kernel_at(layer: DepthwiseCKConv, lags: list[float]) -> Tensor:
    """The kernels ``(C, L)`` at lags, from the kernel net and the widths alone."""
    now = 1.0 if layer.memory.causal else 0.0
    p = torch.tensor([now - 2 * u / (layer.horizon - 1) for u in lags], dtype=torch.float64)
    values = layer.kernel_net(p)
    if layer.window is None:
        return values
    widths = layer.window.log_width.exp()[:, None]
    return values * torch.exp(-(torch.tensor(lags, dtype=torch.float64) ** 2) / (2 * widths**2))


def in_full(layer: DepthwiseCKConv, kernel: Tensor, x: Tensor, advance: int = 0) -> Tensor:
    """The sum of the definition with a dense kernel whose channels do not mix."""
    y = direct.convolve(x, torch.diag_embed(kernel.T).permute(1, 2, 0), layer.bias, advance)
    return y if layer.skip is None else y + layer.skip[:, None] * x


@pytest.mark.parametrize(("length", "lags", "advance"), [(7, 7, 0), (9, 5, 2), (6, 11, 5), (1, 1, 0), (12, 30, 3)])
def test_the_operator_is_the_direct_sum_with_derivatives_of_both_orders(length: int, lags: int, advance: int) -> None:
    x, kernel = torch.randn(2, 3, length).double(), torch.randn(3, lags).double()
    bias = torch.randn(3).double()
    expected = direct.convolve(x, torch.diag_embed(kernel.T).permute(1, 2, 0), bias, advance)
    inputs = [part.requires_grad_() for part in (x, kernel, bias)]
    conv = partial(depthwise_conv, advance=advance)
    assert torch.allclose(conv(*inputs), expected, atol=1e-12)
    assert torch.autograd.gradcheck(conv, inputs)
    assert torch.autograd.gradgradcheck(conv, inputs)
    assert torch.allclose(torch.func.vmap(partial(conv, kernel=kernel, bias=bias))(x[:, None])[:, 0], expected)


def test_the_operators_fit_their_fakes() -> None:
    x, kernel = torch.randn(2, 3, 20, requires_grad=True), torch.randn(3, 20, requires_grad=True)
    torch.library.opcheck(torch.ops.ckcnn.depthwise.default, (x, kernel, None, 0, [3, 9, 20], True))
    y, kept = torch.ops.ckcnn.depthwise(x, kernel, None, 0, [3, 9, 20], True)
    arguments = (torch.randn_like(y).requires_grad_(), x, kernel, kept, 0, [3, 9, 20], [True, True, True])
    torch.library.opcheck(torch.ops.ckcnn.depthwise_backward.default, arguments)


@pytest.mark.parametrize("window", ["none", "layer", "channel"])
@pytest.mark.parametrize("causal", [True, False])
def test_a_layer_is_its_definition(window: str, causal: bool) -> None:
    layer = make_layer(window=window, causal=causal, skip=True, sigma_0=0.4)
    x = torch.randn(2, 3, 40).double()
    lags = training_lags(layer)
    expected = in_full(layer, cropped_kernel(layer, lags), x, -int(lags[0]))
    assert (layer(x) - expected).abs().max() <= 1e-10


@pytest.mark.parametrize("window", ["none", "layer", "channel"])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("dt", "length"), [(2.0, 40), (1.5, 40), (7.3, 12), (4.0, 3), (100.0, 4)])
def test_a_lower_rate_is_a_signal_of_straight_lines(window: str, causal: bool, dt: float, length: int) -> None:
    layer = make_layer(window=window, causal=causal, skip=True, sigma_0=0.4)
    x = torch.randn(2, 3, length).double()
    lags = training_lags(layer)
    kernel = torch.diag_embed(cropped_kernel(layer, lags).T).permute(1, 2, 0)  # dense, channels do not mix
    expected = direct.between_samples(x, kernel, lags, dt, layer.bias) + layer.skip[:, None] * x
    assert (layer(x, dt) - expected).abs().max() <= 1e-10


def training_lags(layer: DepthwiseCKConv) -> list[float]:
    """The lags of the memory on the training grid."""
    return [float(u) for u in range(-math.floor(layer.memory.future), math.floor(layer.memory.past) + 1)]


def cropped_kernel(layer: DepthwiseCKConv, lags: list[float]) -> Tensor:
    """`kernel_at`, and zero where the window is negligible."""
    kernel = kernel_at(layer, lags).detach()
    if layer.window is None:
        return kernel
    return kernel * (layer.window(torch.tensor(lags, dtype=torch.float64)) >= NEGLIGIBLE)


@pytest.mark.parametrize("kernel", list(KERNELS))
def test_gradients_reach_every_parameter(kernel: str) -> None:
    layer = make_layer(kernel, window="channel", skip=True)
    x = torch.randn(2, 3, 20, dtype=torch.float64, requires_grad=True)
    parameters = dict(layer.named_parameters())

    def run(x: Tensor, *values: Tensor) -> Tensor:
        return torch.func.functional_call(layer, dict(zip(parameters, values, strict=True)), (x,))

    assert torch.autograd.gradcheck(run, (x, *parameters.values()), atol=1e-4, fast_mode=True)


@pytest.mark.parametrize("window", ["none", "channel"])
def test_stamps_on_the_grid_between_it_and_pair_by_pair_agree(window: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = make_layer("multiscale", window=window, skip=True)
    exact = make_layer("multiscale", window=window, skip=True, stamps="exact")
    x = torch.randn(2, 3, 90).double()
    whole = torch.stack([torch.randperm(150)[:90].sort().values for _ in range(2)]).double()
    between = torch.rand(2, 90).double().cumsum(1) * 2
    calls = []
    original = irregular.spread_conv
    monkeypatch.setattr(irregular, "spread_conv", lambda *args: (calls.append(1), original(*args))[1])
    for times in (whole, between):
        y = stamped_sum(layer, x, times)
        assert torch.allclose(layer(x, times=times), y, atol=3e-4 * float(y.detach().abs().max()))
        assert torch.allclose(exact(x, times=times), y, atol=1e-10)
    regular = 2.0 * torch.arange(90).expand(2, -1)
    assert torch.allclose(layer(x, times=regular), layer(x, dt=2.0))
    assert window == "channel" or calls


def stamped_sum(layer: DepthwiseCKConv, x: Tensor, times: Tensor) -> Tensor:
    """Every pair of samples by itself, causal, each with the stretch of time known when it is used."""
    y = torch.zeros_like(x)
    for b, stamps in enumerate(times.tolist()):
        for i, now in enumerate(stamps):
            lags = [now - stamp for stamp in stamps[: i + 1]]
            widths = torch.tensor([direct.stretch(stamps[: i + 1], j) for j in range(i + 1)], dtype=torch.float64)
            seen = torch.tensor([lag <= layer.horizon - 1 + 1e-9 for lag in lags])
            y[b, :, i] = (kernel_at(layer, lags) * x[b, :, : i + 1] * (widths * seen)).sum(1)
    return y + layer.bias[:, None] + layer.skip[:, None] * x  # type: ignore[index]


def test_longer_signals_keep_the_memory_and_nothing_looks_ahead() -> None:
    layer = make_layer("multiscale", window="channel")
    x = torch.randn(1, 3, 200).double()
    late = x.clone()
    late[..., : 200 - HORIZON] = 0
    assert torch.allclose(layer(x)[..., -1], layer(late)[..., -1])
    cut = x.clone()
    cut[..., 100:] = 0
    assert torch.allclose(layer(x)[..., :100], layer(cut)[..., :100])


def test_every_kernel_starts_with_energy_one() -> None:
    for name in KERNELS:
        for window in ("none", "channel"):
            layer = DepthwiseCKConv(8, HORIZON, kernel=KERNELS[name], window=window)  # type: ignore[arg-type]
            norms = layer.kernel(HORIZON).norm(dim=1)
            assert norms.max() < 1.01
            assert norms.min() > (0.99 if name != "points" else 0.05)


def test_widths_are_in_training_samples() -> None:
    layer = make_layer(window="channel")
    assert layer.window is not None
    assert torch.allclose(layer.window.widths(), torch.tensor([1.0, HORIZON**0.5, HORIZON]).double())
    fine, coarse = layer.kernel(HORIZON), layer.kernel(HORIZON // 2 + 1, dt=2.0)
    assert torch.allclose(coarse.sum(1), fine.sum(1))  # a constant stays the same constant, however narrow the window
    shared = DepthwiseCKConv(3, 785, window="layer", sigma_0=0.075)
    assert shared.window is not None
    assert shared.window.widths().tolist() == pytest.approx([0.075 * 392])


def test_cropping_is_bounded_and_shortens_the_kernel() -> None:
    window = GaussianWindow(torch.tensor([2.0, 50.0], dtype=torch.float64))
    lags = torch.arange(1000.0, dtype=torch.float64)
    cropped = window.crop(torch.ones(2, 1000, dtype=torch.float64), lags)
    lost = (window(lags) - cropped).sum(1)
    assert (lost <= 2e-5 * 50 * math.sqrt(math.pi / 2) + 1e-12).all()
    reaches = window.reaches(1.0)
    assert reaches == [9, 215]
    for row, reach in zip(cropped, reaches, strict=True):
        assert row[reach + 1 :].abs().max() == 0
    layer = DepthwiseCKConv(4, 4000, window="layer", sigma_0=0.01)
    assert layer.sampled(4000, 1.0)[0].shape == (4, math.ceil(4.292 * 0.01 * 3999 / 2) + 1)
    layer = make_layer(window="channel")
    kernel, _ = layer.sampled_kernel(60, 1.0)
    x = torch.randn(2, 3, 60).double()
    assert torch.allclose(layer(x), depthwise_conv(x, kernel, layer.bias), atol=1e-12)  # what is cropped is zero


def test_a_dense_layer_has_a_window_too() -> None:
    torch.manual_seed(0)
    layer = CKConv(2, 3, HORIZON, window="layer", sigma_0=0.3).double()
    assert layer.window is not None
    plain = direct.kernel_at(layer, [float(u) for u in range(HORIZON)])
    expected = plain * layer.window(torch.arange(HORIZON).double())
    assert (layer.kernel(HORIZON) - expected).abs().max() <= NEGLIGIBLE * plain.abs().max()
    x, times = torch.randn(1, 2, 70).double(), torch.rand(1, 70).double().cumsum(1) * 2
    exact = CKConv(2, 3, HORIZON, window="layer", sigma_0=0.3, stamps="exact").double()
    exact.load_state_dict(layer.state_dict())
    assert torch.allclose(layer(x, times=times), exact(x, times=times), rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match="window must be one of none, layer, got 'channel'"):
        CKConv(2, 3, HORIZON, window="channel")  # type: ignore[arg-type]


def make_net(norm: str = "batch", **options: object) -> CKNet:
    torch.manual_seed(0)
    conv = partial(SeparableCKConv, horizon=HORIZON, window="channel", kernel=KERNELS["multiscale"])
    backbone = partial(PreNormBackbone, stem="conv", gated=True)
    settings: dict[str, object] = {"readout": "every_step", "num_blocks": 2, "backbone": backbone} | options
    net = CKNet(2, 6, 3, conv, norm=norm, **settings).double()  # type: ignore[arg-type]
    net(torch.randn(8, 2, 100).double())  # running statistics
    return net.eval()


@pytest.mark.parametrize("norm", ["batch", "step"])
@pytest.mark.parametrize("dt", [1.0, 2.0])
def test_streams_answer_as_the_whole_sequence_does(norm: str, dt: float) -> None:
    net, x = make_net(norm), torch.randn(2, 2, 300).double()
    stream = NetworkStream(net, batch=2, dt=dt)
    answers = torch.cat([stream.push(piece) for piece in x.split([1, 150, 1, 7, 141], dim=-1)], dim=-1)
    assert torch.allclose(answers, net(x, dt), atol=1e-10)


def test_streams_refuse_what_looks_ahead() -> None:
    with pytest.raises(ValueError, match="causal=False lets a convolution see later samples"):
        NetworkStream(make_layer(causal=False).eval())
    with pytest.raises(ValueError, match='norm="global" normalises over all time steps'):
        NetworkStream(make_net("global"))


def test_batch_norm_networks_are_causal_in_evaluation() -> None:
    net, x = make_net(), torch.randn(1, 2, 80).double()
    other = x.clone()
    other[..., 50:] += 1
    assert torch.equal(net(x)[..., :50].round(decimals=9), net(other)[..., :50].round(decimals=9))


def test_a_network_compiles_into_one_graph_with_all_gradients() -> None:
    torch._dynamo.reset()
    net = make_net(readout="mean", num_blocks=1).requires_grad_()
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager", dynamic=True)
    for batch, length in ((2, 64), (3, 41)):
        x, results = torch.randn(batch, 2, length).double(), []
        for run in (compiled, net):
            y = run(x)
            results.append([y, *torch.autograd.grad(y.square().sum(), list(net.parameters()), allow_unused=True)])
        for ours, expected in zip(*results, strict=True):
            assert (ours is None and expected is None) or torch.allclose(ours, expected, atol=1e-9)


def test_a_network_is_exported_for_any_batch_and_length() -> None:
    net = make_net(readout="mean")
    shapes = {"x": {0: torch.export.Dim("batch", min=2, max=64), 2: torch.export.Dim("time", min=2, max=4096)}}
    exported = torch.export.export(net, (torch.randn(3, 2, 40).double(),), dynamic_shapes=shapes)
    for batch, length in ((2, 7), (5, 90)):
        x = torch.randn(batch, 2, length).double()
        assert torch.allclose(exported.module()(x), net(x), atol=1e-9)


def test_the_penalty_counts_depthwise_layers() -> None:
    layer = make_layer(window="channel")
    expected = layer.kernel(HORIZON).norm() + layer.bias.norm()  # type: ignore[union-attr]
    assert torch.allclose(kernel_penalty(layer), expected)


def test_magnet_is_its_formula_and_starts_within_the_band() -> None:
    torch.manual_seed(0)
    net, p = MAGNet(5, horizon=101, hidden=8).double(), torch.linspace(-1, 1, 31).double()
    gabor = [
        torch.exp(-0.5 * (g[:, None] * (p - m[:, None])) ** 2) * torch.sin(a[:, None] * p + c[:, None])
        for g, m, a, c in zip(net.gamma, net.centre, net.frequency, net.phase, strict=True)
    ]
    h = gabor[0]
    for layer, factor in zip(net.mix, gabor[1:], strict=True):
        h = factor * (layer.weight @ h + layer.bias[:, None])  # type: ignore[operator, index]
    assert torch.allclose(net(p), net.read_out.weight @ h + net.read_out.bias[:, None])
    assert net.frequency.abs().sum(0).max() <= math.pi * 100 / 2 + 1e-3  # of the grid, when all four add up
    theirs = MAGNet(5, omega_0=2976.0)
    assert theirs.frequency.abs().max() > math.pi * 783 / 2  # beyond it
    assert (theirs.centre <= 1).all()
    assert (theirs.centre >= 1 - 0.126).all()
    with pytest.raises(ValueError, match="either omega_0 or horizon"):
        MAGNet(5)


def test_a_point_kernel_is_its_formula() -> None:
    torch.manual_seed(0)
    net, p = PointKernel(2, radius=0.2, points=4).double(), torch.linspace(-1, 1, 41).double()
    for c in range(2):
        for j, place in enumerate(p):
            heights = (1 - (place - net.place[c]).abs() / net.radii[c]).relu()
            expected = (net.weight[c] * heights).sum() / max(1, int((heights > 0).sum()))
            assert torch.allclose(net(p)[c, j], expected)
    with pytest.raises(ValueError, match="kernel must make a KernelNet for a number of outputs, got PointKernel"):
        CKConv(2, 3, HORIZON, kernel=PointKernel)  # type: ignore[arg-type]


def test_omega_0_can_be_learned() -> None:
    torch.manual_seed(0)
    fixed = Siren(4, omega_0=20.0)
    learned = Siren(4, omega_0=20.0, learn_omega_0=True)
    learned.load_state_dict(fixed.state_dict(), strict=False)
    p = torch.linspace(-1, 1, 30)
    assert torch.allclose(learned(p), fixed(p), atol=1e-4)
    learned(p).square().sum().backward()
    assert learned.log_omega_0 is not None
    assert learned.log_omega_0.grad is not None
    assert learned.log_omega_0.grad != 0
