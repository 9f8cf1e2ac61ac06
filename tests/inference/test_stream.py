"""A stream of raw samples gives the answers that the whole sequence gives."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from ckcnn import CKCNN
from ckcnn.datamodules.preprocessing import Preprocessing
from ckcnn.inference import TrainedModel
from ckcnn.inference.stream import ModelStream
from tests.datamodules import cases, official
from tests.inference.test_model import artefact, raw

FACTS: dict[str, Any] = {"data": "Arrays", "task": "every_step", "channels": 2, "length": 40, "out_channels": 3}
FACTS |= {"batch_size": 4, "sporadic": 2}
FACTS |= {"mean": torch.tensor([[[3.0], [-1.0]]]), "std": torch.tensor([[[2.0], [0.5]]])}


def network(channels: int, norm: str = "step") -> torch.nn.Module:
    return CKCNN(channels, 3, "every_step", 40, hidden_channels=5, norm=norm).net.eval()  # type: ignore[arg-type]


# What training may do to raw sequences, the sampling step of the stream, and the norm.
CASES = [
    ("digits", {"drop_rate": 0.3}, 1.0, "step"),
    ("digits", {"drop_rate": 0.3, "missing": "counts", "train_dt": 2}, 1.0, "step"),
    ("trajectories", {"standardise": "step"}, 2.0, "step"),
    ("trajectories", {"drop_rate": 0.5}, 1.0, "step"),
    ("trajectories", {"pad": "valid"}, 1.0, "step"),
    ("physionet", {}, 1.0, "step"),
    ("copy", {"sizes": (60, 20, 20)}, 1.0, "step"),
    ("speech_raw", {"words": ("yes", "no"), "train_dt": 16}, 1.0, "step"),
    ("speech_mfcc", {"words": ("yes", "no")}, 1.0, "step"),
    ("speech_mfcc", {"words": ("yes", "no"), "standardise": "step"}, 1.0, "batch"),
]


@pytest.mark.parametrize(("case", "options", "dt", "norm"), CASES, ids=str)
@torch.no_grad()
def test_pieces_of_a_raw_sequence_are_answered_like_the_whole(
    case: str, options: dict[str, Any], dt: float, norm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, write, _ = cases.CASES[case]
    write(tmp_path / "data")
    options = dict(options)
    if "sizes" in options:
        monkeypatch.setattr(getattr(cases.datamodules, name), "sizes", options.pop("sizes"))
    module = cases.ready(case, tmp_path / "data", **options)
    model = artefact(module, tmp_path, norm=norm)
    given = raw(module) if case != "speech_mfcc" else {"x": torch.randint(-9999, 9999, (2, 1, 16_000)).short()}
    x = given["x"][:2, :, :: int(dt)]
    length = x.shape[-1]
    if "lengths" in given:  # streams of one batch are equally long
        length = int(given["lengths"][:2].min()) // int(dt)
        x = x[..., :length]
    stream = model.stream(batch=2, dt=dt)
    parts = x.tensor_split([1, 11, 12, max(13, length // 2)], dim=-1)
    scores = torch.cat([*map(stream.push, parts), stream.finish()], dim=-1)
    (whole,) = model.take(x, dt=dt).parts()
    lengths = {} if whole.batch.lengths is None else {"lengths": whole.batch.lengths}
    # One long float32 FFT rounds more than a stream does.
    exact = copy.deepcopy(model.net).double()(whole.batch.x.double(), dt=whole.dt, **lengths)
    assert scores.shape[-1] == (whole.batch.x.shape[-1] if whole.batch.lengths is None else whole.batch.lengths.max())
    last = scores if model.task.every_step else scores[..., -1]
    torch.testing.assert_close(last.double(), exact, rtol=1e-5, atol=1e-5)
    assert float(exact.std()) > 0.01
    assert stream.steps.tolist() == [0, 0]


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
        ({"missing": "times"}, "time stamps"),
        ({"train_dt": 2, "keep": "last"}, "counted from the newest"),
        ({"train_dt": 2, "antialias": True}, "filters the recording"),
    ],
)
def test_what_needs_the_whole_sequence_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"cannot stream: .*{message}"):
        ModelStream(network(2), Preprocessing(**FACTS | change))


@torch.no_grad()
def test_text_is_answered_character_by_character(tmp_path: Path) -> None:
    official.write_ptb(tmp_path)
    model = artefact(cases.ready("ptb", tmp_path), tmp_path, embedding_channels=8, norm="step")
    stream = model.stream()
    scores = torch.cat([stream.push("the e"), stream.push("n"), stream.push(torch.tensor([[3]]))], dim=-1)
    tokens = torch.cat([model.take("the en").x, torch.tensor([[3]])], dim=1)
    torch.testing.assert_close(scores, model.net(tokens), rtol=1e-5, atol=1e-5)
    pair = model.stream(batch=2)
    assert pair.push(["the", "end"]).shape == (2, 50, 3)
    with pytest.raises(ValueError, match=r"2 strings of the same length.*got 2 of \[2, 3\] characters"):
        pair.push(["the", "en"])
    with pytest.raises(ValueError, match="leave dt at 1, got 2"):
        model.stream(dt=2)


@torch.no_grad()
def test_a_stream_of_cepstra_is_kept_and_ended(tmp_path: Path) -> None:
    official.write_speech(tmp_path, ("yes", "no"), per_word=16)
    options = {"words": ("yes", "no"), "standardise": "step"}
    model = artefact(cases.ready("speech_mfcc", tmp_path, **options), tmp_path, norm="step")
    sound = torch.rand(40_000) - 0.5
    stream = model.stream()
    assert stream.push(sound[:100]).shape == (1, 2, 0)  # the first frame mirrors 100 samples and sees one more
    assert stream.push(sound[100:350]).shape == (1, 2, 3)
    resumed = model.stream()
    resumed.load_state_dict(stream.state_dict())
    assert torch.equal(resumed.push(sound[350:1000]), stream.push(sound[350:1000]))
    with pytest.raises(ValueError, match=r"standardises each of 161 time steps.*reset before a new sequence"):
        stream.push(sound)  # and is as it was
    torch.testing.assert_close(stream.finish(), resumed.finish())
    with pytest.raises(ValueError, match="at least 101 samples for its cepstra, got 0"):
        stream.finish()
    both = model.stream(batch=2)
    with pytest.raises(ValueError, match="reset all of them"):
        both.reset([1])
    with pytest.raises(
        ValueError, match=r"batch size or dt: .* is torch.float32 \(2, .* here and torch.float32 \(1, .* there"
    ):
        both.load_state_dict(stream.state_dict())


@torch.no_grad()
def test_streams_that_start_anew_count_their_own_steps() -> None:
    steps = {"mean": torch.arange(80.0).view(1, 2, 40), "std": torch.ones(1, 2, 40)}
    trained = Preprocessing(**FACTS | steps, missing="counts", varying=True)
    net, x = network(4), torch.randn(2, 2, 12)
    stream, again = ModelStream(net, trained, batch=2), ModelStream(net, trained)
    x[0, 1, 3] = torch.nan
    stream.push(x[..., :5])
    stream.reset([1])
    later = stream.push(x[..., 5:])
    torch.testing.assert_close(later[1:], again.push(x[1:, :, 5:]))
    (whole,) = TrainedModel(net, "every_step", trained).take(x[:1]).parts()
    torch.testing.assert_close(later[:1], net(whole.batch.x)[..., 5:12], rtol=1e-5, atol=1e-5)


def test_bad_samples_are_refused() -> None:
    stream = ModelStream(network(2), Preprocessing(**FACTS))
    with pytest.raises(ValueError, match=r"shape \(1, 2, new steps\): raw values of 2 channels, got \(1, 3, 5\)"):
        stream.push(torch.zeros(1, 3, 5))
    with pytest.raises(ValueError, match="trained without missing values"):
        stream.push(torch.full((1, 2, 5), torch.nan))
    with pytest.raises(ValueError, match=r"dt must be a number from 1e-06 .* got 1000000000"):
        ModelStream(network(2), Preprocessing(**FACTS), dt=1e9)
