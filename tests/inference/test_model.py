"""A loaded model answers raw measurements as `ckcnn test` does, to the last bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

import ckcnn
from ckcnn.datamodules import Arrays, SequenceDataModule
from ckcnn.datamodules.datasets import SequenceDataset
from ckcnn.datamodules.transforms import repeat_last
from ckcnn.inference import TrainedModel
from tests.datamodules import cases, official


def artefact(module: SequenceDataModule, path: Path, model: str = "CKCNN", **options: Any) -> TrainedModel:
    """An untrained network on prepared data, saved and loaded as after training."""
    torch.manual_seed(1)
    options = {"hidden_channels": 6, **options}
    net = getattr(ckcnn, model)(**module.facts._asdict(), **options)
    for parameter in net.parameters():  # the last layer starts near zero
        torch.nn.init.normal_(parameter, std=0.3) if parameter.dim() == 2 else None
    net.preprocessing = module.preprocessing
    net.save_pretrained(path / "model")
    return ckcnn.load(path / "model")


def expected(module: SequenceDataModule, model: TrainedModel) -> torch.Tensor:
    """What `ckcnn predict` computes: the scores of the test batches."""
    scores = []
    for batch in module.test_dataloader():
        lengths = {} if batch.lengths is None else {"lengths": batch.lengths}
        with torch.inference_mode():
            scores.append(model.net(batch.x, dt=module.dt["test"], times=batch.times, **lengths))
    return torch.cat(scores)


def raw(module: SequenceDataModule, dropped: bool = True) -> dict[str, Any]:
    """The raw test sequences as a user has them: NaN where nothing was observed."""
    dataset = module.dataset("test")
    assert isinstance(dataset, SequenceDataset)
    rows = dataset.store.rows(dataset.index)
    x = rows.x
    if rows.kept is not None:
        x = x.float() if rows.lengths is None else repeat_last(x.float(), rows.lengths)
        x = x.masked_fill(~rows.kept[:, None], torch.nan)
        return {"x": x}
    given = {"x": x, "lengths": rows.lengths, "times": rows.times}
    return {name: value for name, value in given.items() if value is not None}


CASES = [
    ("digits", {}),
    ("digits", {"train_dt": 2}),
    ("digits", {"train_dt": 4, "keep": "last"}),
    ("digits", {"drop_rate": 0.3}),
    ("digits", {"drop_rate": 0.3, "missing": "times"}),
    ("digits", {"drop_rate": 0.3, "missing": "counts"}),
    ("trajectories", {}),
    ("trajectories", {"standardise": "step"}),
    ("trajectories", {"pad": "valid"}),
    ("trajectories", {"drop_rate": 0.5}),
    ("trajectories", {"drop_rate": 0.5, "missing": "times"}),
    ("trajectories", {"drop_rate": 0.5, "missing": "counts"}),
    ("pmnist", {}),
    ("cifar10", {}),
    ("physionet", {}),
    ("adding", {"sizes": (60, 20, 20)}),
    ("copy", {"sizes": (60, 20, 20)}),
    ("copy", {"sizes": (60, 20, 20), "train_dt": 2}),
    ("arrays", {}),
    ("arrays", {"pad": "valid"}),
    ("speech_raw", {"words": ("yes", "no"), "train_dt": 16}),
]


def test_cepstra_are_computed_from_raw_sound(tmp_path: Path) -> None:
    official.write_speech(tmp_path, ("yes", "no"), per_word=16)
    module = cases.ready("speech_mfcc", tmp_path, words=("yes", "no"))
    model = artefact(module, tmp_path)
    clips = [
        soundfile.read(path, dtype="int16")[0]
        for word in ("yes", "no")
        for path in sorted((tmp_path / official.SPEECH / word).glob("*.wav"))
    ]
    full = np.stack([clip for clip in clips if len(clip) == 16_000])[:, None]
    x = full[module.splits["test"]]
    scores = expected(module, model)
    assert torch.equal(torch.cat([part.values for part in model.scores(model.take(x))]), scores)
    as_float = x / 2.0**15  # what soundfile and torchaudio read by default
    assert np.array_equal(model.predict_proba(as_float), model.predict_proba(x))
    assert model.predict_proba(x[0]).shape == (2,)
    lengths = np.full(len(x), 12_000)
    assert np.array_equal(model.predict_proba(x, lengths=lengths), model.predict_proba(x[..., :12_000]))
    with pytest.raises(ValueError, match=r"must lie in \[-1, 1\]"):
        model.predict(x.astype(float))
    with pytest.raises(ValueError, match="resample x"):
        model.predict(x, dt=2)


@pytest.mark.parametrize(("case", "options"), CASES, ids=str)
def test_answers_are_those_of_the_test_split(
    case: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, write, _ = cases.CASES[case]
    write(tmp_path / "data")
    options = dict(options)
    if "sizes" in options:
        monkeypatch.setattr(getattr(cases.datamodules, name), "sizes", options.pop("sizes"))
    module = cases.ready(case, tmp_path / "data", **options)
    model = artefact(module, tmp_path)
    scores, given = expected(module, model), raw(module)
    parts = list(model.scores(model.take(**given)))
    assert torch.equal(torch.cat([part.values for part in parts]), scores)
    answers = model.predict(**given)
    if model.task.every_step:
        seen = (answers != -100).all(0)
        assert torch.equal(answers[:, seen], scores.argmax(1))
        assert int(seen.sum()) == scores.shape[-1]
    elif model.task.target == "value":
        assert torch.equal(answers, scores)
    elif model.task.one_logit:
        assert torch.equal(model.predict_proba(**given)[:, 1], scores[:, 0].sigmoid())
    else:
        assert torch.equal(answers, scores.argmax(1))
        assert torch.equal(model.predict_proba(**given), scores.softmax(1))
        assert scores.std(0).min() > 0  # the sequences matter


@pytest.fixture
def letters(tmp_path: Path) -> TrainedModel:
    official.write_trajectories(tmp_path, per_class=4)
    return artefact(cases.ready("trajectories", tmp_path), tmp_path)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"x": np.zeros((2, 4, 50))},
            r"\(batch, 3, time\) or \(3, time\).*x velocity, y velocity, pen force.*\(2, 4, 5",
        ),
        ({"x": np.zeros((50, 3))}, "is time its last axis"),
        ({"x": np.zeros((0, 3, 50))}, r"got shape \(0, 3, 50\)"),
        ({"x": np.full((2, 3, 50), "a")}, "x must be real numbers"),
        ({"x": np.full((3, 50), np.nan)}, r"NaN or infinity at \[0, 0\].*without missing values"),
        ({"x": np.zeros((2, 3, 50)), "lengths": [3, 51]}, r"lengths must lie in 1 \.\.\. 50, got 3 \.\.\. 51"),
        ({"x": np.zeros((2, 3, 50)), "lengths": [3.5, 5]}, "2 whole numbers"),
        ({"x": np.zeros((2, 3, 50)), "times": np.zeros((2, 49))}, r"times must have shape \(2, 50\)"),
        ({"x": np.zeros((2, 3, 50)), "times": np.zeros((2, 50)), "dt": 2.0}, "leave dt out"),
        ({"x": np.full((3, 50), 1e300)}, r"a number beyond float32 at \[0, 0\] and 149 more places"),
        ({"x": np.ma.masked_equal(np.eye(3, 50), 1)}, r"NaN or infinity at \[0, 0\] and 2 more places"),
        ({"x": 3.0}, r"got shape \(\)"),
        ({"x": np.zeros((2, 3, 50)), "dt": 0}, "dt must be a number from"),
    ],
)
def test_bad_input_gets_one_sentence(given: dict[str, Any], message: str, letters: TrainedModel) -> None:
    with pytest.raises(ValueError, match=message):
        letters.predict(**given)


def test_one_sequence_or_many(letters: TrainedModel) -> None:
    x = np.random.default_rng(0).normal(size=(200, 3, 150))
    many = letters.predict_proba(x)
    assert many.shape == (200, 20)
    assert np.allclose(letters.predict_proba(x[7]), many[7], atol=1e-6)
    assert isinstance(letters.predict(torch.from_numpy(x[:2])), torch.Tensor)
    assert np.array_equal(letters.predict(x.astype(np.float32)), letters.predict(x.astype(">f4")))
    for same in (torch.from_numpy(x[:2]).to_sparse(), x[:2].astype(np.longdouble), np.ma.masked_array(x[:2])):
        assert np.allclose(letters.predict_proba(same, dt=np.int64(1)), many[:2], atol=1e-6)
    stamps = np.broadcast_to(np.arange(150.0), (200, 150))
    padded = letters.predict_proba(x[:4], times=stamps[:4])
    assert padded.shape == (4, 20)


@pytest.mark.parametrize("missing", ["mask", "times", "counts"])
def test_complete_sequences_are_answered_after_training_with_missing_values(missing: str, tmp_path: Path) -> None:
    model = artefact(cases.ready("digits", tmp_path, drop_rate=0.3, missing=missing), tmp_path)
    x = np.random.default_rng(0).integers(0, 17, (3, 1, 64))
    few = np.where(np.arange(64) == 5, np.nan, x)
    assert np.array_equal(model.predict_proba(x), model.predict_proba(x.astype(float)))
    assert np.abs(model.predict_proba(x) - model.predict_proba(few)).max() > 0


def test_permuted_steps_must_all_be_there(tmp_path: Path) -> None:
    official.write_mnist(tmp_path)
    model = artefact(cases.ready("pmnist", tmp_path), tmp_path)
    with pytest.raises(ValueError, match="permutes the 784 steps"):
        model.predict(np.zeros((1, 700)))
    with pytest.raises(ValueError, match="takes no time stamps"):
        model.predict(np.zeros((1, 784)), times=np.arange(784))
    assert "times    not possible" in model.describe()


def test_text(tmp_path: Path) -> None:
    official.write_ptb(tmp_path)
    model = artefact(cases.ready("ptb", tmp_path), tmp_path, embedding_channels=8)
    answers = model.predict("the end\n")
    assert answers.shape == (len("the end<eos>"),)
    both = model.predict_proba(["the end", "the"])
    assert both.shape == (2, 50, 7)
    assert np.isnan(both[1, :, 3:]).all()
    assert np.allclose(both[0, :, :7].sum(0), 1)
    with pytest.raises(ValueError, match="never seen the character 'Z'"):
        model.predict("Z")
    assert "times    not possible" in model.describe()


def test_stamped_models_need_stamps(tmp_path: Path) -> None:
    arrays = official.user_arrays()
    times = np.cumsum(np.random.default_rng(1).random((60, 32)) + 0.5, axis=1)
    np.savez(tmp_path / "mine.npz", **arrays, times=times)
    module = Arrays(tmp_path / "mine.npz", root=tmp_path, batch_size=16, pad="valid")
    module.prepare_data()
    module.setup()
    model = artefact(module, tmp_path)
    given = raw(module)
    scores = expected(module, model)
    assert torch.equal(torch.cat([part.values for part in model.scores(model.take(**given))]), scores)
    with pytest.raises(ValueError, match="trained with time stamps"):
        model.predict(given["x"])


def test_baselines_and_own_subclasses(tmp_path: Path) -> None:
    module = cases.ready("digits", tmp_path)
    model = artefact(module, tmp_path, "GRU")
    assert torch.equal(model.predict(**raw(module)), expected(module, model).argmax(1))
    with pytest.raises(ValueError, match="takes no time stamps"):
        model.predict(np.zeros((1, 64)), times=np.arange(64))

    class Mine(ckcnn.CKCNN):
        """Somebody's own."""

    mine = Mine(**module.facts._asdict(), hidden_channels=4)
    mine.preprocessing = module.preprocessing
    mine.save_pretrained(tmp_path / "mine")
    given = raw(module)
    own = ckcnn.load(tmp_path / "mine", model_class=Mine).predict_proba(**given)
    assert torch.equal(ckcnn.load(tmp_path / "mine").predict_proba(**given), own)


@pytest.mark.parametrize("options", [{}, {"missing": "times"}, {"standardise": "step"}])
def test_another_rate_is_that_of_the_test_split(options: dict[str, Any], tmp_path: Path) -> None:
    module = cases.ready("digits", tmp_path, test_dt=2, **options)
    model = artefact(module, tmp_path)
    x = raw(module)["x"][..., ::2]
    parts = model.scores(model.take(x, dt=2.0))
    assert torch.equal(torch.cat([part.values for part in parts]), expected(module, model))
