"""Blocks and whole networks: the paper's sizes, causality, read-outs, what bad input gets."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from ckcnn.nn import CKBlock, CKConv, CKNet, CKTextNet, MLPKernel, StepNorm
from ckcnn.nn.lengths import last_valid, mean_of_valid
from ckcnn.nn.network import Readout

HORIZON = 24
conv = partial(CKConv, horizon=HORIZON)


def make_net(**options: object) -> CKNet:
    return CKNet(**({"in_channels": 2, "hidden_channels": 6, "out_channels": 5, "conv": conv} | options))  # type: ignore[arg-type]


def count(net: nn.Module) -> int:
    return sum(parameter.numel() for parameter in net.parameters())


@pytest.mark.parametrize(
    ("channels", "size"),
    [
        ((1, 30, 10), 98_286),  # sMNIST, pMNIST, SC_raw
        ((1, 100, 10), 1_030_546),
        ((3, 30, 10), 100_386),  # sCIFAR10
        ((3, 100, 10), 1_037_546),
        ((3, 30, 20), 100_696),  # CharacterTrajectories
        ((4, 30, 20), 101_746),  # with mask
        ((20, 30, 10), 118_236),  # SC, MFCC
        ((2, 30, 10), 99_336),  # SC_raw with mask
        ((75, 30, 1), 175_707),  # PhysioNet
        ((1, 10, 10), 15_526),  # copy memory
        ((2, 25, 1), 70_587),  # adding problem
    ],
)
def test_parameter_counts_are_the_papers(channels: tuple[int, int, int], size: int) -> None:
    assert count(CKNet(*channels, conv)) == size


def test_parameter_count_of_the_language_model() -> None:
    assert count(CKTextNet(vocabulary=50, embedding_channels=100, hidden_channels=128, conv=conv)) == 1_804_438


def test_block_is_the_papers() -> None:
    block = CKBlock(3, 4, conv).double()
    x = torch.randn(2, 3, HORIZON, dtype=torch.float64)

    def norm(y: Tensor) -> Tensor:  # at the start: over channels and time, no scale, no shift
        return (y - y.mean((1, 2), keepdim=True)) / y.var((1, 2), correction=0, keepdim=True).sqrt()

    y = torch.relu(norm(block.conv1(x)))
    y = torch.relu(norm(block.conv2(y)))
    assert torch.allclose(block(x), torch.relu(y + block.shortcut(x)), atol=1e-10)
    assert isinstance(CKBlock(4, 4, conv).shortcut, nn.Identity)


def test_shortcut_is_a_1x1_convolution() -> None:
    shortcut, x = CKBlock(3, 4, conv).double().shortcut, torch.randn(2, 3, 7, dtype=torch.float64)
    assert torch.allclose(shortcut(x), nn.functional.conv1d(x, shortcut.weight, shortcut.bias), atol=1e-12)


def test_step_norm_is_layer_norm_over_channels() -> None:
    norm, x = StepNorm(5).double(), torch.randn(2, 5, 7, dtype=torch.float64)
    with torch.no_grad():
        norm.weight.normal_()
        norm.bias.normal_()
    expected = nn.functional.layer_norm(x.mT, [5], norm.weight, norm.bias).mT
    assert torch.allclose(norm(x), expected, atol=1e-12)
    assert norm(torch.zeros(1, 5, 1, dtype=torch.float64)).isfinite().all()


def influence(net: nn.Module, x: Tensor, **options: object) -> Tensor:
    """How much each input step changes each output step, ``(T, T)``."""
    jacobian = torch.autograd.functional.jacobian(lambda x: net(x, **options), x)  # (1, out, T, 1, in, T)
    return jacobian.abs().amax((0, 1, 3, 4))


@pytest.mark.parametrize("dt", [1.0, 2.0, 0.5])
def test_whole_network_is_causal_with_step_norm(dt: float) -> None:
    net = make_net(norm="step", readout="every_step").double()
    seen = influence(net, torch.randn(1, 2, 20, dtype=torch.float64), dt=dt)
    assert seen.triu(1).max() < 1e-12
    assert seen[-1].min() > 1e-12  # and the last step sees them all


def test_whole_network_is_causal_on_time_stamps() -> None:
    net = make_net(norm="step", readout="every_step").double()
    times = (torch.rand(1, 12, dtype=torch.float64) + 0.1).cumsum(1)
    assert influence(net, torch.randn(1, 2, 12, dtype=torch.float64), times=times).triu(1).max() < 1e-12


def test_global_norm_is_not_causal() -> None:
    net = make_net(norm="global", readout="every_step").double()
    assert influence(net, torch.randn(1, 2, 20, dtype=torch.float64)).triu(1).max() > 1e-9


LENGTHS = torch.tensor([20, 7, 1])


def with_every_step(readout: Readout, x: Tensor) -> tuple[CKNet, Tensor]:
    """A network with this read-out, and what it would read at every step."""
    every = make_net(norm="step", readout="every_step").double().eval()
    net = make_net(norm="step", readout=readout).double().eval()
    net.load_state_dict(every.state_dict())
    return net, every(x)


def sequences() -> Tensor:
    return torch.randn(3, 2, 20, dtype=torch.float64)


def test_readout_last() -> None:
    x = sequences()
    net, every = with_every_step("last", x)
    assert torch.allclose(net(x), every[..., -1], atol=1e-12)


@pytest.mark.parametrize("readout", ["last", "last_valid"])
def test_readout_of_the_last_valid_step(readout: str) -> None:
    x = sequences()
    net, every = with_every_step(readout, x)
    expected = torch.stack([every[i, :, n - 1] for i, n in enumerate(LENGTHS)])
    assert torch.allclose(net(x, lengths=LENGTHS), expected, atol=1e-12)


def test_readout_last_valid_insists_on_lengths() -> None:
    x = sequences()
    net, _ = with_every_step("last_valid", x)
    with pytest.raises(ValueError, match='readout "last_valid" needs lengths'):
        net(x)


def test_readout_mean() -> None:
    x = sequences()
    net, every = with_every_step("mean", x)
    assert torch.allclose(net(x), every.mean(-1), atol=1e-12)
    expected = torch.stack([every[i, :, :n].mean(-1) for i, n in enumerate(LENGTHS)])
    assert torch.allclose(net(x, lengths=LENGTHS), expected, atol=1e-12)


def test_readout_last_valid_ignores_padding() -> None:
    x = sequences()
    net, _ = with_every_step("last_valid", x)
    padded = x.clone()
    padded[1, :, 7:] = 100.0
    padded[2, :, 1:] = -100.0
    assert torch.allclose(net(padded, lengths=LENGTHS), net(x, lengths=LENGTHS), atol=1e-10)


def test_dropouts_act_only_in_training() -> None:
    for options in ({"dropout": 0.5}, {"input_dropout": 0.5}):
        net, x = make_net(**options), torch.randn(3, 2, 20)
        nn.init.normal_(net.head.weight)
        assert not torch.equal(net(x), net(x))
        assert torch.equal(net.eval()(x), net(x))


def test_input_dropout_is_element_wise() -> None:
    net = make_net(input_dropout=0.3)
    seen: list[Tensor] = []
    net.backbone.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    net(torch.ones(50, 2, 20))
    assert (seen[0] == 0).double().mean().item() == pytest.approx(0.3, abs=0.03)
    assert seen[0].max().item() == pytest.approx(1 / 0.7)


def test_text_net_ties_embedding_and_read_out() -> None:
    net = CKTextNet(11, 8, 6, conv, embedding_dropout=0.5)
    tokens = torch.randint(11, (3, 20))
    assert net(tokens).shape == (3, 11, 20)
    assert net.head.weight is net.embedding.weight
    assert copy.deepcopy(net).head.weight is not net.embedding.weight
    assert not torch.equal(net(tokens), net(tokens))
    net(tokens).square().sum().backward()
    assert net.embedding.weight.grad is not None


def test_text_net_never_looks_ahead() -> None:
    net = CKTextNet(11, 8, 6, conv).eval()
    tokens = torch.randint(11, (2, 20))
    changed = tokens.clone()
    changed[:, 12:] = (changed[:, 12:] + 1) % 11
    assert torch.allclose(net(tokens)[..., :12], net(changed)[..., :12], atol=1e-6)


def test_initial_read_out_is_near_zero() -> None:
    net = make_net(hidden_channels=50, out_channels=100)
    assert net.head.weight.std().item() == pytest.approx(0.01, rel=0.1)
    assert net.head.bias.eq(0).all()


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # dynamo looks at it
def test_network_compiles_and_copies() -> None:
    net, x = make_net(dropout=0.1).eval(), torch.randn(2, 2, 20)
    expected = net(x)
    assert torch.allclose(torch.compile(net, backend="aot_eager")(x), expected, atol=1e-6)
    assert torch.equal(copy.deepcopy(net)(x), expected)


def test_other_kernels_and_more_blocks_learn() -> None:
    """A few steps of Adam bring the loss down, whatever the kernel: nothing is cut off from the gradient."""
    x, y = torch.randn(8, 2, 20), torch.randint(5, (8,))
    for kernel in (CKConv.__init__.__defaults__[0], MLPKernel):  # type: ignore[index]
        net = make_net(conv=partial(conv, kernel=kernel), num_blocks=3)
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
        losses = []
        for _ in range(30):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < 0.2 * losses[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm": "layer"}, "norm must be one of global, step, batch, got 'layer'"),
        ({"readout": "first"}, "readout must be one of last, last_valid, mean, every_step, got 'first'"),
        ({"dropout": 1.0}, r"dropout must lie in \[0, 1\), got 1.0"),
        ({"input_dropout": -0.1}, r"input_dropout must lie in \[0, 1\), got -0.1"),
        ({"num_blocks": 0}, "num_blocks must be a whole number of at least 1, got 0"),
        ({"hidden_channels": 0}, "hidden_channels must be a whole number of at least 1, got 0"),
    ],
)
def test_bad_arguments(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_net(**options)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        (torch.tensor([1, 2]), r"shape \(3,\), got torch.int64 \(2,\)"),
        (torch.tensor([1.0, 2.0, 3.0]), "got torch.float32"),
        (torch.tensor([1, 2, 0]), r"lengths must lie in 1 ... 20, got 0 ... 2"),
        (torch.tensor([1, 2, 21]), r"lengths must lie in 1 ... 20, got 1 ... 21"),
    ],
)
def test_bad_lengths(lengths: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_net()(torch.randn(3, 2, 20), lengths=lengths)


@pytest.mark.parametrize("read", [last_valid, mean_of_valid])
def test_wrong_lengths_that_nobody_may_look_at_give_nan(read: Callable[[Tensor, Tensor], Tensor]) -> None:
    """On an accelerator: the last step would answer for length 0, and a mean would be over too many steps."""
    y = torch.randn(5, 2, 20)
    answers = read(y, torch.tensor([0, 1, 20, 21, -3]))
    assert answers.isnan().tolist() == [[wrong] * 2 for wrong in (True, False, False, True, True)]
    assert torch.equal(answers[1], y[1, :, 0])
    assert torch.allclose(answers[2], y[2, :, -1] if read is last_valid else y[2].mean(-1))


@pytest.mark.parametrize("tokens", [torch.zeros(2, 3), torch.zeros(2, 0, dtype=torch.int64), torch.tensor([1, 2])])
def test_bad_tokens(tokens: Tensor) -> None:
    with pytest.raises(ValueError, match=r"tokens must be whole numbers \(batch, time\), int64, got"):
        CKTextNet(11, 8, 6, conv)(tokens)
