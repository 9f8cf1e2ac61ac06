"""Streams: the answers of the whole sequence, from bounded memory, whatever the chunks; who looks ahead is refused."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from itertools import cycle

import pytest
import torch
from torch import Tensor, nn

from ckcnn.nn import CKBackbone, CKBlock, CKConv, CKNet, CKTextNet, DepthwiseCKConv, FFTConv, NetworkStream, StepNorm
from ckcnn.nn.network import Readout
from ckcnn.nn.partition import Level, Partition, cheapest_partition
from ckcnn.nn.partitioned_conv import PartitionedConv
from ckcnn.nn.positions import Coarse
from ckcnn.reference.convolution import ReferenceConv

CHUNKS = [(1,), (64,), (1024,), (7, 1, 333), (5000,)]


def make_net(
    horizon: int = 300, readout: Readout = "every_step", coarse: Coarse = "scaled", **options: object
) -> CKNet:
    settings = {"norm": "step", "readout": readout} | options
    return CKNet(2, 6, 3, partial(CKConv, horizon=horizon, coarse=coarse), **settings).eval()  # type: ignore[arg-type]


def pieces(x: Tensor, sizes: tuple[int, ...]) -> Iterator[Tensor]:
    start = 0
    for size in cycle(sizes):
        if start >= x.shape[-1]:
            return
        yield x[..., start : start + size]
        start += size


def answers(stream: NetworkStream, x: Tensor, sizes: tuple[int, ...] = (100,)) -> Tensor:
    return torch.cat([stream.push(piece) for piece in pieces(x, sizes)], dim=-1)


@torch.no_grad()
def difference(net: nn.Module, x: Tensor, sizes: tuple[int, ...] = (100,), dt: float = 1.0) -> float:
    whole = net(x, dt) if dt != 1.0 else net(x)
    return (answers(NetworkStream(net, len(x), dt), x, sizes) - whole).abs().max().item()


@pytest.mark.parametrize("sizes", CHUNKS, ids=str)
@pytest.mark.parametrize("horizon", [2, 24, 300, 1500])
def test_answers_are_those_of_the_whole_sequence(horizon: int, sizes: tuple[int, ...]) -> None:
    x = torch.randn(2, 2, 300 if sizes == (1,) else 1100, dtype=torch.float64)
    assert difference(make_net(horizon).double(), x, sizes) < 1e-10


@pytest.mark.parametrize("sizes", CHUNKS, ids=str)
def test_answers_in_single_precision(sizes: tuple[int, ...]) -> None:
    net, x = make_net(), torch.randn(2, 2, 400 if sizes == (1,) else 1100)
    assert difference(net, x, sizes) < 1e-5


@pytest.mark.parametrize("horizon", [300, 4000])
@torch.no_grad()
def test_rounding_does_not_grow_with_the_horizon(horizon: int) -> None:
    """Unlike that of one long FFT, which spreads the rounding of loud steps over quiet ones."""
    net, x = make_net(horizon), torch.randn(1, 2, 5000)
    exact = copy.deepcopy(net).double()(x.double())
    assert (answers(NetworkStream(net), x) - exact).abs().max() < 1e-5


@pytest.mark.parametrize("dt", [0.5, 0.3, 2.0, 2.5])
def test_other_sampling_rates(dt: float) -> None:
    x = torch.randn(1, 2, 1200, dtype=torch.float64)  # longer than the memory on every one of these grids
    assert difference(make_net().double(), x, (64, 5), dt) < 1e-10
    assert difference(make_net(coarse="interpolated").double(), x, (64, 5), dt) < 1e-10


@torch.no_grad()
def test_last_step_and_mean_are_read_at_every_step() -> None:
    x = torch.randn(2, 2, 60, dtype=torch.float64)
    for readout in ("last", "mean", "last_valid"):
        net = make_net(40, readout).double()  # type: ignore[arg-type]
        expected = [net(x[..., :n], lengths=torch.full((2,), n)) for n in range(1, 61)]
        streamed = answers(NetworkStream(net, 2), x, (7, 1, 30))
        assert (streamed - torch.stack(expected, dim=-1)).abs().max() < 1e-10


def test_parts_of_a_network_stream_too() -> None:
    conv = partial(CKConv, horizon=150)
    own = nn.Sequential(
        FFTConv(2, 4, 130), nn.BatchNorm1d(4), nn.ReLU(), nn.Conv1d(4, 3, 1), CKConv(3, 3, 90, bias=False)
    )
    own[1].running_mean.uniform_()
    nets = [CKConv(2, 3, 150), CKBlock(2, 3, conv, norm="step"), CKBackbone([2, 2, 4], conv, norm="step"), own]
    for net in nets:
        assert difference(net.double().eval(), torch.randn(2, 2, 400, dtype=torch.float64), (9, 150)) < 1e-10


def test_tokens() -> None:
    net = CKTextNet(11, 4, 6, partial(CKConv, horizon=90)).double().eval()
    assert difference(net, torch.randint(11, (2, 300)), (1, 40)) < 1e-10


@pytest.mark.parametrize(
    "partition",
    [
        Partition(5, ()),
        Partition(16, (Level(16, 16, 90),)),
        Partition(2, (Level(2, 2, 8), Level(8, 8, 64), Level(64, 64, 90))),
        None,
    ],
)
def test_a_convolution_does_not_depend_on_how_its_kernel_is_cut(partition: Partition | None) -> None:
    lags = partition.direct if partition and not partition.levels else 90
    kernel, bias = torch.randn(3, 2, lags, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    x = torch.randn(2, 2, 1100, dtype=torch.float64)
    expected = nn.functional.conv1d(nn.functional.pad(x, (lags - 1, 0)), kernel.flip(-1), bias)
    for sizes in [(1, 3, 70), (1100,)]:
        conv = PartitionedConv(kernel, bias, 2, partition)
        streamed = torch.cat([conv(piece) for piece in pieces(x, sizes)], dim=-1)
        assert (streamed - expected).abs().max() < 1e-10


@pytest.mark.parametrize("lags", [1, 15, 17, 784, 16_000, 1_000_000])
def test_a_partition_has_every_lag_once_and_never_waits_for_samples(lags: int) -> None:
    partition = cheapest_partition(lags, 30, 30, 1)
    stop = partition.direct
    for level in partition.levels:
        assert level.start == stop >= level.size
        stop = level.stop
    assert stop == lags


def test_memory_is_bounded() -> None:
    stream = NetworkStream(make_net(40))
    tensors = lambda: sum(t.numel() for t in stream.stage.buffers())  # noqa: E731
    before = tensors()
    for _ in range(3):
        stream.push(torch.randn(1, 2, 20_000))
    assert tensors() == before
    assert max(value.shape[-1] for value in stream.state_dict().values()) < 40


@pytest.mark.parametrize("readout", ["last", "mean"])
def test_a_saved_state_continues(readout: Readout) -> None:
    net, x = make_net(200, readout).double(), torch.randn(2, 2, 900, dtype=torch.float64)
    expected = answers(NetworkStream(net, 2), x)
    stream = NetworkStream(net, 2)
    stream.push(x[..., :333])
    state = stream.state_dict()
    stream.push(x[..., 333:500])  # which must not change the state
    other = NetworkStream(net, 2)
    other.load_state_dict(state)
    assert other.steps.tolist() == [333, 333]
    assert (answers(other, x[..., 333:]) - expected[..., 333:]).abs().max() < 1e-10


def test_the_state_of_another_stream_is_refused() -> None:
    stream = NetworkStream(make_net(200))
    with pytest.raises(ValueError, match="a different network, batch size or dt"):
        stream.load_state_dict(NetworkStream(make_net(201)).state_dict())
    with pytest.raises(ValueError, match=r"steps is torch.int64 \(1,\) here and torch.float32 \(1,\) there"):
        stream.load_state_dict(stream.state_dict() | {"steps": torch.ones(1)})
    for state in (None, [1], {"steps": 3}):
        with pytest.raises(ValueError, match="must be what state_dict returned, tensors by name, got"):
            stream.load_state_dict(state)  # type: ignore[arg-type]


def test_streams_that_do_not_fit_into_memory_are_refused() -> None:
    with pytest.raises(ValueError, match=r"a layer of 1,000,000,000,000 streams would take .* use fewer streams"):
        NetworkStream(make_net(), batch=10**12)
    for conv in (CKConv(2, 3, 20), DepthwiseCKConv(3, 20)):
        with pytest.raises(ValueError, match=r"a kernel of 19,000,\d+,\d+ lags, dt=1e-09 apart, .* give a larger dt"):
            NetworkStream(conv.eval(), dt=1e-9)


def test_reset_starts_all_streams_or_some_of_them_anew() -> None:
    net, x = make_net(200, "mean").double(), torch.randn(2, 2, 700, dtype=torch.float64)
    fresh = answers(NetworkStream(net, 2), x)
    stream = NetworkStream(net, 2)
    stream.push(x[..., :77])
    stream.reset([1])
    assert stream.steps.tolist() == [77, 0]
    mixed = answers(stream, torch.stack([x[0, :, 77:], x[1, :, :-77]]))
    assert (mixed[0] - fresh[0, :, 77:]).abs().max() < 1e-10
    assert (mixed[1] - fresh[1, :, :-77]).abs().max() < 1e-10
    stream.reset()
    assert (answers(stream, x) - fresh).abs().max() < 1e-10
    with pytest.raises(ValueError, match=r"0 \.\.\. 1"):
        stream.reset([2])
    for rows in (0, "a", [0.5]):
        with pytest.raises(ValueError, match=r"rows must be a list of numbers of streams, such as \[0\], got"):
            stream.reset(rows)  # type: ignore[arg-type]


def test_a_copy_goes_on_by_itself_and_shares_the_kernels() -> None:
    net, x = make_net(200).double(), torch.randn(1, 2, 600, dtype=torch.float64)
    stream = NetworkStream(net)
    first = stream.push(x[..., :250])
    other = stream.copy()
    other.push(torch.randn(1, 2, 90, dtype=torch.float64))
    rest = stream.push(x[..., 250:])
    assert (torch.cat([first, rest], dim=-1) - net(x)).abs().max() < 1e-10
    own, copied = (s.stage[0][0].conv2.direct.weight for s in (stream, other))  # type: ignore[index]
    assert own.data_ptr() == copied.data_ptr()


def test_a_stream_keeps_the_weights_it_was_made_with() -> None:
    net, x = make_net(), torch.randn(1, 2, 50)
    stream, expected = NetworkStream(net), net(x)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.zero_()
    assert (stream.push(x) - expected).abs().max() < 1e-5


def test_a_stream_moves_to_another_device() -> None:
    stream = NetworkStream(make_net()).to("meta")  # a device without arithmetic: it is there on every machine
    assert stream.push(torch.empty(1, 2, 70, device="meta")).device.type == "meta"
    with pytest.raises(ValueError, match=r"device of the stream, meta, got cpu.*stream\.to"):
        stream.push(torch.randn(1, 2, 5))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_answers_on_a_gpu() -> None:
    net, x = make_net().cuda(), torch.randn(1, 2, 900).cuda()
    assert difference(net, x, (64,)) < 1e-5


def test_a_stream_made_in_inference_mode_is_used_outside() -> None:
    net, x = make_net(), torch.randn(1, 2, 50)
    with torch.inference_mode():
        stream = NetworkStream(net)
        stream.push(x)
    stream.push(x)


@pytest.mark.parametrize(
    ("net", "words"),
    [
        (make_net(norm="global"), r'norm="global".*norm="step"'),
        (CKConv(2, 3, 20, causal=False).eval(), "causal=False.*causal=True"),
        (FFTConv(2, 3, 20, causal=False).eval(), "causal=False.*causal=True"),
        (nn.Sequential(nn.BatchNorm1d(2, track_running_stats=False)).eval(), "track_running_stats"),
        (nn.Sequential(nn.Conv1d(2, 3, 5)).eval(), "kernel size 1 only"),
        (nn.LSTM(2, 3).eval(), "no streaming counterpart of LSTM; there is one of BatchNorm1d, CKBackbone"),
        (ReferenceConv(2, 3, 20).eval(), "no streaming counterpart of ReferenceConv"),
        (make_net().train(), r"net\.eval\(\)"),
    ],
    ids=str,
)
def test_who_cannot_stream_is_told_why(net: nn.Module, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        NetworkStream(net)


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        (torch.randn(2, 50), r"\(1, 2, time\), got \(2, 50\)"),
        (torch.randn(2, 2, 50), r"\(1, 2, time\), got \(2, 2, 50\)"),
        (torch.randn(1, 2, 0), "at least one new step"),
        (torch.randn(1, 3, 50), r"\(1, 2, time\), got \(1, 3, 50\)"),
        (torch.ones(1, 2, 5, dtype=torch.int64), "float"),
        (torch.ones(1, 2, 5, dtype=torch.float64), r"x\.float\(\)"),
    ],
)
def test_samples_that_do_not_fit_change_nothing(samples: Tensor, words: str) -> None:
    stream = NetworkStream(make_net())
    with pytest.raises(ValueError, match=words):
        stream.push(samples)
    assert stream.steps.tolist() == [0]


def test_norms_that_look_at_one_step_are_causal() -> None:
    assert difference(nn.Sequential(StepNorm(2)).eval(), torch.randn(1, 2, 9)) == 0
