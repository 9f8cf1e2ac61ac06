"""The whole networks of the family: sizes to the digit, overlays on any preset, optimiser groups."""

from __future__ import annotations

import pytest
import torch

from ckcnn import CKCNN, presets
from ckcnn.inference.export import with_constant_kernels
from ckcnn.models.baselines import count_parameters

NETWORKS = ["ccnn", "flexconv", "separable", "smpconv"]


def make_model(*names: str, channels: int = 1, horizon: int = 64, **changes: object) -> CKCNN:
    torch.manual_seed(0)
    content = presets.settings([f"{name}.yaml" for name in names], {})
    return CKCNN(channels, 10, "classification", horizon, **{**content["model"]["init_args"], **changes})


@pytest.mark.parametrize(
    ("names", "channels", "size"),
    [
        (("pmnist", "ccnn"), 1, 198_769),
        (("scifar10", "ccnn"), 3, 199_117),
        (("pmnist", "ccnn", "ccnn_large"), 1, 1_993_091),
        (("scifar10", "ccnn", "ccnn_large"), 3, 1_993_983),
        (("scifar10", "separable"), 3, 48_778),
    ],
)
def test_sizes_are_the_published_ones(names: tuple[str, ...], channels: int, size: int) -> None:
    assert count_parameters(make_model(*names, channels=channels).net) == size


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("preset", ["smnist", "character_trajectories", "speech_raw"])
def test_an_overlay_fits_every_preset(name: str, preset: str) -> None:
    model = make_model(preset, name, hidden_channels=6)
    x = torch.randn(3, 1, 64)
    answers = model.net(x)
    answers.square().sum().backward()
    assert answers.shape == model.net(x[..., ::2], dt=2).shape == (3, 10)
    unused = [name for name, value in model.net.named_parameters() if value.grad is None]
    assert unused == []


@pytest.mark.parametrize("name", NETWORKS)
def test_kernels_are_exported_as_constants(name: str) -> None:
    model = make_model("smnist", name, hidden_channels=6).eval()
    x = torch.randn(2, 1, 64)
    assert torch.allclose(with_constant_kernels(model.net, 64, 1.0)(x), model.net(x), atol=1e-5)


def test_kernels_and_windows_learn_at_their_own_rate_without_decay() -> None:
    model = make_model("smnist", "separable", hidden_channels=6)
    groups = model.parameter_groups(1e-2, 0.05)
    names = {id(value): name for name, value in model.named_parameters()}
    found = {(group["lr"], group["weight_decay"]): {names[id(p)] for p in group["params"]} for group in groups}
    assert found.keys() == {(2.5e-3, 0.0), (1e-2, 0.0), (1e-2, 0.05)}
    assert all("kernel_net" in name or "window" in name for name in found[2.5e-3, 0.0])
    assert not any("kernel_net" in name or "window" in name for name in found[1e-2, 0.0] | found[1e-2, 0.05])
    assert "net.head.weight" in found[1e-2, 0.05]
    assert "net.head.bias" in found[1e-2, 0.0]
    assert sum(map(len, found.values())) == len(names)


def test_the_papers_network_has_one_group_in_the_old_order() -> None:
    model = make_model("smnist")
    (group,) = model.parameter_groups(1e-3, 0.0)
    assert [id(p) for p in group["params"]] == [id(p) for p in model.parameters()]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"conv": "depthwise"}, "a depthwise convolution keeps the channels, got 1 and 30; use conv: separable"),
        ({"activation": "silu"}, "stem and activation are for pre-norm blocks"),
        ({"conv": "separable", "weight_dropout": 0.1}, "weight_dropout is for conv: dense, got conv: separable"),
        ({"kernel": "magnet", "init": "siren"}, "the magnet kernel has one way to start"),
        ({"kernel": "points", "window": "none"}, "got PointKernel"),
        ({"learn_omega_0": True, "omega_0": "auto"}, "learn_omega_0 is for the sine kernel with an omega_0"),
        ({"window": "channel"}, "window must be one of none, layer, got 'channel'"),
    ],
)
def test_what_does_not_go_together_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_model("smnist", **changes)
