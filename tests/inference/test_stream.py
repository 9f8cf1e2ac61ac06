"""A stream of raw samples gives the answers that the whole sequence gives."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from ckcnn import CKCNN
from ckcnn.datamodules.preprocessing import Preprocessing
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
        x[:, :, 7] = torch.nan
    prepared = (x - trained.mean) / (trained.std + 1e-5)  # type: ignore[operator]
    observed = ~x.isnan()
    whole = torch.where(observed, prepared, 0.0)
    if missing:
        whole = torch.cat([whole, observed.any(1, keepdim=True).float()], dim=1)
    stream = ModelStream(net, trained, batch=2)
    pieces = [stream.push(part) for part in x.split([1, 16, 23], dim=-1)]
    exact = copy.deepcopy(net).double()(whole.double())  # one long float32 FFT rounds more than a stream does
    torch.testing.assert_close(torch.cat(pieces, dim=-1).double(), exact, rtol=1e-5, atol=1e-5)
    assert stream.steps.tolist() == [40, 40]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": torch.arange(40)}, "another order"),
        ({"mean": torch.zeros(1, 2, 40), "std": torch.ones(1, 2, 40)}, "differ from step to step"),
        ({"missing": "counts"}, "counts of observations"),
        ({"missing": "times"}, "time stamps"),
    ],
)
def test_what_needs_the_whole_sequence_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"cannot answer a stream: .*{message}"):
        ModelStream(network(2), Preprocessing(**FACTS | change))


def test_bad_samples_are_refused() -> None:
    stream = ModelStream(network(2), Preprocessing(**FACTS))
    with pytest.raises(ValueError, match="with 2 channels, got"):
        stream.push(torch.zeros(1, 3, 5))
    with pytest.raises(ValueError, match="trained without missing values"):
        stream.push(torch.full((1, 2, 5), torch.nan))
