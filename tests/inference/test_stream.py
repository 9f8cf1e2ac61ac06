"""A stream of raw samples gives the answers that the whole sequence gives."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from ckcnn import CKCNN
from ckcnn.datamodules.preprocessing import Preprocessing
from ckcnn.inference import TrainedModel
from ckcnn.inference.stream import ModelStream

FACTS: dict[str, Any] = {"data": "Arrays", "task": "every_step", "channels": 2, "length": 40, "out_channels": 3}
FACTS |= {"batch_size": 4, "sporadic": 2}
FACTS |= {"mean": torch.tensor([[[3.0], [-1.0]]]), "std": torch.tensor([[[2.0], [0.5]]])}


def network(channels: int, norm: str = "step") -> torch.nn.Module:
    return CKCNN(channels, 3, "every_step", 40, hidden_channels=5, norm=norm).net.eval()  # type: ignore[arg-type]


@pytest.mark.parametrize("missing", [None, "mask"])
@torch.no_grad()
def test_pieces_of_a_raw_sequence_are_answered_like_the_whole(missing: str | None) -> None:
    trained = Preprocessing(**FACTS, missing=missing)  # type: ignore[arg-type]
    net = network(trained.in_channels)
    x = 5 * torch.randn(2, 2, 40)
    if missing:
        x[:, :, 7], x[0, 1, 11] = torch.nan, torch.nan
    model = TrainedModel(copy.deepcopy(net).double(), "every_step", trained)
    stream = ModelStream(net, trained, batch=2)
    pieces = [stream.push(part) for part in x.split([1, 16, 23], dim=-1)]
    (whole,) = model.take(x).parts()
    exact = model.net(whole.batch.x.double())  # one long float32 FFT rounds more than a stream does
    torch.testing.assert_close(torch.cat(pieces, dim=-1).double(), exact, rtol=1e-5, atol=1e-5)
    assert stream.steps.tolist() == [40, 40]


@torch.no_grad()
def test_a_network_of_a_lower_rate_takes_samples_at_the_full_rate() -> None:
    facts = FACTS | {
        "task": "classification",
        "train_dt": 4,
        "channels": 1,
        "sporadic": 1,
        "rate": 8000,
        "unit": (2**15,),
    }
    trained = Preprocessing(**facts | {"mean": None, "std": None})
    net = CKCNN(1, 3, "classification", 10, hidden_channels=5, norm="step").net.eval()
    model, stream = TrainedModel(net, "classification", trained), ModelStream(net, trained)
    x = torch.randint(-9999, 9999, (1, 1, 30)).short()
    state, scores = {}, []
    for number, piece in enumerate(x.split([3, 1, 1, 6, 2, 17], dim=-1)):
        given = piece if number % 2 else piece[0].numpy() / 2**15  # sound is given with 16 bits, or in [-1, 1]
        if number == 3:
            state, stream = stream.state_dict(), ModelStream(net, trained)
            stream.load_state_dict(state)
        scores.append(stream.push(given))
    assert [one.shape[-1] for one in scores] == [1, 0, 1, 1, 1, 4]
    for end, answer in zip((1, 5, 9, 30), (0, 1, 2, 7), strict=True):
        expected = model.predict_proba(x[..., :end])
        torch.testing.assert_close(torch.cat(scores, dim=-1).softmax(1)[..., answer], expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match=r"every 4\. sample.*reset all"):
        stream.reset([0])
    stream.reset()
    torch.testing.assert_close(stream.push(x[..., :1]), scores[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": torch.arange(40)}, "another order"),
        ({"mean": torch.zeros(1, 2, 40), "std": torch.ones(1, 2, 40)}, "differ from step to step"),
        ({"missing": "counts"}, "counts of observations"),
        ({"missing": "times"}, "time stamps"),
        ({"train_dt": 2, "keep": "last"}, "counted from the newest"),
    ],
)
def test_what_needs_the_whole_sequence_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"cannot answer a stream: .*{message}"):
        ModelStream(network(2), Preprocessing(**FACTS | change))


def test_bad_samples_are_refused() -> None:
    stream = ModelStream(network(2), Preprocessing(**FACTS))
    with pytest.raises(ValueError, match=r"shape \(1, 2, new steps\): raw values of 2 channels, got \(1, 3, 5\)"):
        stream.push(torch.zeros(1, 3, 5))
    with pytest.raises(ValueError, match="trained without missing values"):
        stream.push(torch.full((1, 2, 5), torch.nan))
