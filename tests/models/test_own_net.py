"""A network of your own is called with what it takes, made from the facts of the data, and never imported by a file."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ckcnn import OwnNet
from ckcnn.datamodules import SequenceBatch
from ckcnn.models.own_net import with_stored_arguments
from ckcnn.nn import CKConv, CKNet, NetworkStream
from ckcnn.nn.knows_less import KnowsLess

FACTS: dict[str, Any] = {"in_channels": 2, "out_channels": 3, "task": "classification", "horizon": 12}


class Pooled(nn.Module):
    def __init__(
        self, in_channels: int, out_channels: int, width: int = 4, activation: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv1d(in_channels, width, 3, padding=1), nn.Linear(width, out_channels)
        self.activation = activation or nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.activation(self.conv(x)).mean(-1))


class Timed(Pooled):
    def forward(self, x: Tensor, times: Tensor | None = None, dt: float = 1.0) -> Tensor:  # type: ignore[override]
        return super().forward(x) * dt + (0.0 if times is None else times.mean())


class EveryStep(Pooled):
    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.conv(x).mT).mT


def test_it_is_made_from_the_facts_that_it_has_arguments_for() -> None:
    model = OwnNet(**FACTS, net=partial(Pooled, width=7))
    assert model(torch.randn(5, 2, 12)).shape == (5, 3)
    assert model.network_name == "Pooled"
    assert model.described_net()["init_args"] == {"width": 7}
    assert "net" not in model.hparams
    made = OwnNet(**FACTS, net=lambda horizon: nn.Sequential(nn.Flatten(), nn.Linear(2 * horizon, 3)))
    assert made(torch.randn(5, 2, 12)).shape == (5, 3)
    own = Pooled(2, 3)
    assert OwnNet(**FACTS, net=own).own_parts()["net"] is own
    with pytest.raises(ValueError, match=r"net must make a torch\.nn\.Module"):
        OwnNet(**FACTS, net=lambda: 3)  # type: ignore[arg-type,misc,return-value]


def test_it_gets_what_it_takes_and_nothing_is_dropped_in_silence() -> None:
    x, stamps = torch.randn(5, 2, 12), torch.arange(12.0).repeat(5, 1)
    timed, plain = OwnNet(**FACTS, net=Timed), OwnNet(**FACTS, net=Pooled)
    assert torch.allclose(timed(x, dt=2.0), 2 * timed(x))
    assert torch.allclose(timed(x, times=stamps), timed(x) + 5.5)
    assert (timed.takes_times, plain.takes_times) == (True, False)
    with pytest.raises(
        ValueError, match="the data has times, and the forward of Pooled takes none; give it an argument"
    ):
        plain(x, times=stamps)
    with pytest.raises(ValueError, match="the data has lengths, and the forward of Timed takes none"):
        timed(x, lengths=torch.full((5,), 3))
    conv = partial(CKConv, horizon=12)
    whole = CKNet(2, 4, 3, conv)
    assert OwnNet(**FACTS, net=whole).net is whole, "nothing is between us and a network that takes everything"


@pytest.mark.parametrize(
    ("task", "net", "outputs", "answer"),
    [
        ("every_step", EveryStep, 3, (5, 3, 12)),
        ("forecasting", Pooled, 8, (5, 2, 4)),
        ("regression", Pooled, 1, (5, 1)),
    ],
)
def test_every_task_has_its_shape(task: str, net: Any, outputs: int, answer: tuple[int, ...]) -> None:
    facts = FACTS | {"task": task, "out_channels": outputs}
    assert OwnNet(**facts, net=net)(torch.randn(5, 2, 12)).shape == answer


def test_answers_of_another_shape_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"needs answers of shape \(5, 3\) for x of shape \(5, 2, 12\), EveryStep gave"
    ):
        OwnNet(**FACTS, net=EveryStep).answers(SequenceBatch(torch.randn(5, 2, 12), torch.zeros(5)))


def test_a_file_gives_the_arguments_and_the_user_the_class() -> None:
    model = OwnNet(**FACTS, net=partial(Pooled, width=7, activation=nn.GELU())).eval()
    content = model.artefact()
    assert content["net"]["objects"] == {"activation": "GELU(approximate='none')"}
    again = OwnNet.from_artefact(content, net=partial(Pooled, activation=nn.GELU()))  # type: ignore[arg-type]
    x = torch.randn(5, 2, 12)
    assert torch.equal(again(x), model(x))
    with pytest.raises(
        ValueError, match=r"test_own_net\.Pooled, which is not imported because a file names it; if you"
    ):
        OwnNet.from_artefact(content)
    whole = Pooled(2, 3)
    assert with_stored_arguments(whole, content["net"]) is whole  # type: ignore[arg-type]


def test_layers_of_ours_keep_their_rates_and_their_penalty() -> None:
    net = CKNet(2, 4, 3, partial(CKConv, horizon=12))
    model = OwnNet(**FACTS, net=net, kernel_rate=0.1, kernel_penalty=1.0, weight_decay=0.1)
    assert {group["lr"] for group in model.make_optimizer().param_groups} == {1e-3, 1e-4}
    assert torch.as_tensor(model.penalty()).detach() > 0


def test_it_streams_if_its_parts_do() -> None:
    conv = CKConv(2, 3, horizon=12)
    net = KnowsLess(nn.Sequential(conv, nn.ReLU())).eval()
    x = torch.randn(1, 2, 20)
    stream = NetworkStream(net, dt=2.0)  # a chain takes no dt, so it has none in a stream either
    answers = torch.cat([stream.push(x[..., :7]), stream.push(x[..., 7:])], -1)
    assert torch.allclose(answers, net(x, dt=2.0), atol=1e-5)
    with pytest.raises(ValueError, match="there is no streaming counterpart of Pooled"):
        NetworkStream(KnowsLess(Pooled(2, 3)).eval())
