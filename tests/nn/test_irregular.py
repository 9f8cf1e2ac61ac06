"""Real time stamps: regular ones are the regular path, all others the weighted sum over pairs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ckcnn.nn import CKConv
from ckcnn.nn.positions import cell_widths, newest_widths
from tests.nn import direct
from tests.nn.test_ckconv import HORIZON, make_layer, signal


def whole_stamps(length: int, span: int) -> Tensor:
    """Stamps on the training grid with gaps, different in each of two sequences."""
    rows = [torch.randperm(span)[:length].sort().values for _ in range(2)]
    return torch.stack(rows).double()


def fractional_stamps(length: int) -> Tensor:
    return (torch.rand(2, length, dtype=torch.float64) * 2 + 0.01).cumsum(1) + 100


@pytest.mark.parametrize("dt", [1.0, 2.0, 0.5, 0.3, 1.7])
@pytest.mark.parametrize("start", [0.0, -3.0, 1000.5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("causal", [True, False])
def test_a_regular_grid_is_the_regular_path(dt: float, start: float, dtype: torch.dtype, causal: bool) -> None:
    layer, x = make_layer(causal=causal), signal(20)
    times = (start + dt * torch.arange(20, dtype=torch.float64)).to(dtype).expand(2, 20)
    assert (layer(x, times=times) - layer(x, dt)).abs().max() <= (1e-10 if dtype == torch.float64 else 1e-3)


def test_whole_numbers_may_be_integers() -> None:
    layer, x = make_layer(), signal(8)
    times = whole_stamps(8, 20)
    assert torch.equal(layer(x, times=times.long()), layer(x, times=times))


@pytest.mark.parametrize("length", [1, 2, 3, 9, 20])
@pytest.mark.parametrize("stamps", ["whole", "fractional"])
def test_equals_the_weighted_sum(length: int, stamps: str) -> None:
    """Samples dropped from the training grid (by FFT) and arbitrary stamps (pair by pair), some beyond the horizon."""
    layer, x = make_layer(), signal(length)
    times = whole_stamps(length, 30) if stamps == "whole" else fractional_stamps(length)
    assert (layer(x, times=times) - direct.convolve_stamped(layer, x, times)).abs().max() <= 1e-10


def by_pairs(layer: CKConv, x: Tensor, times: Tensor, monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    with monkeypatch.context() as patch:
        patch.setattr("ckcnn.nn.irregular.GRID_FACTOR", 0)
        patch.setattr(layer, "stamps", "exact")
        return outcome(layer, x, times)


def outcome(layer: CKConv, x: Tensor, times: Tensor) -> list[Tensor]:
    y = layer(x, times=times)
    return [y, *torch.autograd.grad(y.square().sum(), [x, *layer.parameters()])]


@pytest.mark.parametrize("causal", [True, False])
def test_both_ways_agree_with_all_gradients(causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x, times = make_layer(causal=causal), signal(20).requires_grad_(), whole_stamps(20, 60)
    for a, b in zip(outcome(layer, x, times), by_pairs(layer, x, times, monkeypatch), strict=True):
        assert (a - b).abs().max() <= 1e-10 * max(1, b.abs().max().item())


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x, times = make_layer(), signal(20).requires_grad_(), fractional_stamps(20)
    whole = outcome(layer, x, times)
    monkeypatch.setattr("ckcnn.nn.irregular._BLOCK_ELEMENTS", 3 * 2 * 20 * 33)
    for a, b in zip(outcome(layer, x, times), whole, strict=True):
        assert (a - b).abs().max() <= 1e-10 * max(1, b.abs().max().item())


def test_stamps_far_apart_do_not_make_a_huge_grid() -> None:
    layer, x = make_layer(), signal(3)
    times = torch.tensor([[0, 1, 10**12], [0, 2, 3]])
    y = layer(x, times=times)
    alone = layer(x[:1, :, 2:])
    assert (y[0, :, 0] - layer(x[:1, :, :1])[0, :, 0]).abs().max() < 1e-10
    forgotten = (y[0, :, 2] - layer.bias) / (alone[0, :, 0] - layer.bias)  # type: ignore[operator]
    assert torch.allclose(forgotten, torch.tensor(1e12 - 1, dtype=torch.float64), rtol=1e-9)


def test_no_output_depends_on_a_later_sample_or_stamp() -> None:
    layer, x, times = make_layer(), signal(10), fractional_stamps(10)
    later_x, later_times = x.clone(), times.clone()
    later_x[..., 6:] += 1
    later_times[:, 6:] += 3.3
    for a, b in ((x, later_times), (later_x, times)):
        difference = (layer(a, times=b) - layer(x, times=times)).abs().amax((0, 1))
        assert difference[:6].max() < 1e-12
        assert difference[6:].min() > 1e-8
    first = layer(x, times=times)[..., 0]
    times[:, 1:] += 5
    assert torch.allclose(layer(x, times=times)[..., 0], first, atol=1e-12)


def test_equal_stamps_keep_their_order() -> None:
    layer, x = make_layer(), signal(4)
    times = torch.tensor([[0.0, 1.0, 1.0, 2.5]] * 2, dtype=torch.float64)
    assert (layer(x, times=times) - direct.convolve_stamped(layer, x, times)).abs().max() <= 1e-10


def test_padding_with_the_last_stamp_leaves_the_rest_alone() -> None:
    layer, x, times = make_layer(), signal(10), fractional_stamps(10)
    padded = torch.cat([x, torch.zeros(2, 3, 4, dtype=torch.float64)], dim=-1)
    stamps = torch.cat([times, times[:, -1:].expand(-1, 4)], dim=1)
    assert torch.allclose(layer(padded, times=stamps)[..., :10], layer(x, times=times), atol=1e-12)


def test_weights_undo_uneven_density() -> None:
    """The integral of a signal observed densely in one place and sparsely elsewhere is right; a bare sum is not."""
    layer = CKConv(1, 4, 300, bias=False).double()
    with torch.no_grad():
        layer.kernel_net.read_out.weight = 0 * layer.kernel_net.read_out.weight + 1e-9
        layer.kernel_net.read_out.bias.fill_(1.0)  # an integral of the past
    t = torch.arange(300, dtype=torch.float64)
    signal = (torch.sin(t / 40) ** 2)[None, None]
    keep = torch.cat([torch.arange(0, 100, 10), torch.arange(100, 200), torch.arange(200, 300, 7)])
    full = layer(signal)[..., keep]
    ours = layer(signal[..., keep], times=t[keep][None])
    bare = signal[..., keep].cumsum(-1)
    assert (ours - full).abs().max() < 0.04 * full.abs().max()
    assert (bare - full).abs().max() > 0.3 * full.abs().max()


def test_cell_widths() -> None:
    times = torch.tensor([[0.0, 1.0, 4.0, 5.0]])
    assert cell_widths(times).tolist() == [[1.0, 2.0, 2.0, 1.0]]
    assert newest_widths(times).tolist() == [[1.0, 1.0, 3.0, 1.0]]
    assert cell_widths(times[:, :1]).tolist() == newest_widths(times[:, :1]).tolist() == [[1.0]]
    assert cell_widths(times).sum() == 5 + 1


class TestWeightDropout:
    def test_on_the_grid(self) -> None:
        layer, x, times = make_layer(weight_dropout=0.5), signal(8), whole_stamps(8, 20)
        torch.manual_seed(1)
        dropped = layer(x, times=times)
        assert not torch.allclose(dropped, layer.eval()(x, times=times))
        # the newest sample meets the same dropped kernel value in both parts of its weight
        layer.train()
        only = torch.zeros_like(x)
        only[..., 3] = x[..., 3]
        torch.manual_seed(1)
        now = (layer(only, times=times) - layer.bias[:, None])[..., 3]  # type: ignore[index]
        width = newest_widths(times)[:, 3:4]
        torch.manual_seed(1)
        kernel = nn_dropout(layer, int((times[:, -1] - times[:, 0]).max()) + 1)
        assert torch.allclose(now, width * (x[..., 3] @ kernel.T), atol=1e-10)

    def test_elsewhere_is_refused(self) -> None:
        layer = make_layer(weight_dropout=0.5)
        with pytest.raises(ValueError, match="weight_dropout needs times on the training grid; round them or set"):
            layer(signal(8), times=fractional_stamps(8))
        layer.eval()(signal(8), times=fractional_stamps(8))


def nn_dropout(layer: CKConv, length: int) -> Tensor:
    """The kernel at lag 0 after the dropout that the current seed draws."""
    kernel = layer.kernel(min(length, HORIZON))
    return torch.nn.functional.dropout(kernel, layer.weight_dropout)[..., 0]


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([0.0, 1.0, 2.0], r"times must be a tensor with one stamp per sample, .* got a list; convert it with torch"),
        (
            torch.tensor([[0.0, 1.0, 0.5], [0.0, 1.0, 2.0]]),
            "must not go backwards, got 1 then 0.5 at steps 1 and 2 of seq",
        ),
        (torch.tensor([0.0, 1.0, 2.0]), r"shape \(2, 3\) for this x, got \(3,\)"),
        (torch.zeros(1, 3), r"shape \(2, 3\) for this x, got \(1, 3\)"),
        (torch.zeros(2, 4), r"shape \(2, 3\) for this x, got \(2, 4\)"),
        (torch.tensor([[0.0, 1.0, torch.nan]] * 2), "times must be finite, got NaN, infinity or more"),
        (torch.tensor([[0.0, 1.0, torch.inf]] * 2), "times must be finite, got NaN, infinity or more"),
        (torch.zeros(2, 3, dtype=torch.bool), "times must be real numbers in training samples, got torch.bool"),
    ],
)
def test_bad_times(times: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_layer()(signal(3), times=times)


def test_times_and_dt_are_one_thing() -> None:
    with pytest.raises(ValueError, match=r"leave dt at 1\.0"):
        make_layer()(signal(8), dt=2.0, times=whole_stamps(8, 20))
