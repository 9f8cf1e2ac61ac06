"""A loaded model answers raw measurements as `ckcnn test` does, to the last bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

import ckcnn
from ckcnn.datamodules import SequenceDataModule
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
