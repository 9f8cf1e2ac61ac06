"""The estimators do what sktime and scikit-learn expect of theirs."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sktime.datasets import load_japanese_vowels, load_unit_test
from sktime.datatypes import convert_to
from sktime.utils.estimator_checks import check_estimator

from ckcnn.models.networks import convolutions
from ckcnn.nn import CKConv, DepthwiseCKConv
from ckcnn.sktime import CKCNNClassifier, CKCNNRegressor

SMALL: dict[str, Any] = {
    "hidden_channels": 6,
    "kernel_hidden": 8,
    "num_blocks": 1,
    "random_state": 0,
    "accelerator": "cpu",
    "n_networks": 1,
}


def waves(count: int = 24, length: int = 30, channels: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Slow and fast sines."""
    generator = np.random.default_rng(0)
    y = np.arange(count) % 2
    phase = generator.uniform(0, 2 * np.pi, (count, channels, 1))
    x = np.sin(np.arange(length) * (0.3 + 0.9 * y[:, None, None]) + phase)
    return x + generator.normal(0, 0.1, x.shape), np.array(["slow", "fast"])[y]


@pytest.mark.filterwarnings("ignore")  # sktime's own
@pytest.mark.parametrize("estimator", [CKCNNClassifier, CKCNNRegressor])
def test_all_checks_of_sktime_pass(estimator: type) -> None:
    results = check_estimator(estimator, verbose=0)
    assert len(results) > 100
    assert {name: result for name, result in results.items() if result != "PASSED"} == {}


def test_it_learns_and_gives_back_labels_as_they_came() -> None:
    x, y = waves()
    classifier = CKCNNClassifier(**SMALL, n_steps=60).fit(x, y)
    assert classifier.score(x, y) == 1.0
    assert classifier.classes_.tolist() == ["fast", "slow"]
    chances = classifier.predict_proba(x)
    np.testing.assert_allclose(chances.sum(1), 1, rtol=1e-12)
    assert (classifier.classes_[chances.argmax(1)] == classifier.predict(x)).all()


@pytest.mark.filterwarnings("ignore")  # of pandas within sktime
def test_all_kinds_of_panels_give_the_same() -> None:
    x, y = waves(12)
    expected = CKCNNClassifier(**SMALL, n_epochs=1).fit(x, y).predict_proba(x)
    for kind in ("nested_univ", "pd-multiindex", "df-list"):
        panel = convert_to(x, kind)
        found = CKCNNClassifier(**SMALL, n_epochs=1).fit(panel, y).predict_proba(panel)
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_series_of_very_different_sizes_are_told_apart_by_their_shape() -> None:
    x, y = waves()
    x = x * np.logspace(-4, 2, len(x))[:, None, None]
    assert CKCNNClassifier(**SMALL, n_steps=60).fit(x, y).score(x, y) > 0.9


def test_the_memory_is_at_most_that_of_the_longest_series() -> None:
    x, y = waves(12)
    for memory, horizon in ((64, 30), (20, 20), (None, 30)):
        fitted = CKCNNClassifier(**SMALL, memory=memory, n_epochs=1).fit(x, y)
        assert fitted.network_.hparams["horizon"] == horizon


def test_a_regressor_knows_the_scale_of_its_targets() -> None:
    x, y = waves()
    target = np.where(y == "slow", 1000.0, 1010.0)
    predicted = CKCNNRegressor(**SMALL, n_steps=150).fit(x, target).predict(x)
    assert np.abs(predicted - target).max() < 5
    with pytest.raises(ValueError, match="y must hold finite numbers"):
        CKCNNRegressor(**SMALL).fit(x, np.append(target[1:], np.nan))


@pytest.mark.filterwarnings("ignore")
def test_series_of_different_lengths_do_not_depend_on_their_companions() -> None:
    x, y = load_japanese_vowels(split="train", return_type="nested_univ")
    x, y = x.iloc[::10], y[::10]
    classifier = CKCNNClassifier(**SMALL, n_epochs=1).fit(x, y)
    together = classifier.predict_proba(x)
    alone = np.concatenate([classifier.predict_proba(x.iloc[[row]]) for row in range(5)])
    np.testing.assert_allclose(alone, together[:5], atol=1e-6)


@pytest.mark.parametrize("missing", ["mask", "counts", "times"])
def test_values_may_be_missing_in_training_and_later(missing: str) -> None:
    x, y = waves()
    holes = x.copy()
    holes[::2, :, 4:9] = np.nan
    classifier = CKCNNClassifier(**SMALL, n_steps=60, missing=missing).fit(holes, y)
    assert classifier.score(holes, y) > 0.9
    assert np.isfinite(CKCNNClassifier(**SMALL, n_epochs=1).fit(x, y).predict_proba(holes)).all()


def test_bad_series_and_labels_are_refused_in_one_sentence() -> None:
    x, y = waves()
    classifier = CKCNNClassifier(**SMALL, n_epochs=1).fit(x, y)
    with pytest.raises(ValueError, match="X must have 2 channels, as in fit, got 1"):
        classifier.predict(x[:, :1])
    with pytest.raises(ValueError, match="series of at least 2 steps, the longest one has 1"):
        classifier.fit(x[:, :, :1], y)
    frames = [pd.DataFrame(x[0].T), pd.DataFrame(x[1, :1].T)]
    with pytest.raises(ValueError, match="same channels, but number 1 has 1 and number 0 has 2"):
        classifier.fit(frames, y[:2])
    for missing in (None, np.nan):
        with pytest.raises(ValueError, match="y must have a label for every series, got None or NaN"):
            classifier.fit(x, np.array([missing, *y[1:]], dtype=object))
    for large in (np.inf, 1e300):
        x[0, 0, 0] = large
        with pytest.raises(ValueError, match=r"X must hold numbers below 3\.4e38 in size, or NaN"):
            CKCNNClassifier(**SMALL).fit(x, y)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *[("n_epochs", 0), ("n_networks", 0), ("memory", 1), ("differences", "yes"), ("normalised", 1)],
        *[("causal", None), ("validation_fraction", 1.0), ("validation_fraction", 0.01)],
    ],
)
def test_bad_options_are_refused_in_fit(option: str, value: Any) -> None:
    with pytest.raises(ValueError, match=option):
        CKCNNClassifier(**{**SMALL, option: value}).fit(*waves(8))


def test_the_seed_decides_and_the_callers_random_numbers_are_untouched() -> None:
    x, y = waves(12)
    state = torch.get_rng_state()
    first, second, other = (
        CKCNNClassifier(**{**SMALL, "random_state": seed}, n_epochs=1, dropout=0.2).fit(x, y).predict_proba(x)
        for seed in (1, 1, 2)
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert (first == second).all()
    assert (first != other).any()


def test_training_stops_early_and_keeps_the_best_epoch() -> None:
    x, y = waves()
    noise = np.random.default_rng(0).permutation(y)
    classifier = CKCNNClassifier(**SMALL, n_epochs=50, validation_fraction=0.25, patience=2).fit(x, noise)
    losses = [epoch["val/accuracy"] for epoch in classifier.histories_[0]]
    assert 3 <= len(losses) < 50
    assert max(losses[-2:]) <= max(losses[:-2])


def test_networks_of_an_ensemble_are_averaged() -> None:
    x, y = waves(12)
    classifier = CKCNNClassifier(**{**SMALL, "n_networks": 3}, n_epochs=1).fit(x, y)
    assert len(classifier.networks_) == len(classifier.histories_) == 3
    np.testing.assert_allclose(np.mean(classifier.answers(x), axis=0), classifier.predict_proba(x), atol=1e-6)


def test_it_can_be_pickled_and_saved(tmp_path: Path) -> None:
    x, y = waves(12)
    classifier = CKCNNClassifier(**SMALL, n_epochs=1).fit(x, y)
    expected = classifier.predict_proba(x)
    assert (pickle.loads(pickle.dumps(classifier)).predict_proba(x) == expected).all()
    classifier.save(tmp_path / "saved")
    loaded = CKCNNClassifier.load_from_path(tmp_path / "saved.zip")
    assert (loaded.predict_proba(x) == expected).all()
    assert loaded.network_.preprocessing.classes == ("fast", "slow")


def test_it_works_within_scikit_learn() -> None:
    x, y = waves()
    classifier = CKCNNClassifier(**SMALL, n_steps=30)
    assert clone(classifier).get_params() == classifier.get_params()
    assert cross_val_score(classifier, x, y, cv=2).mean() > 0.7
    search = GridSearchCV(classifier, {"n_steps": np.array([1, 30]), "causal": np.array([True])}, cv=2).fit(x, y)
    assert search.best_params_ == {"n_steps": 30, "causal": True}
    assert make_pipeline(FunctionTransformer(np.tanh), classifier).fit(x, y).score(x, y) > 0.9


def test_the_networks_of_the_family_are_a_matter_of_options() -> None:
    network: dict[str, Any] = {"block": "paper", "conv": "dense", "window": "none", "norm": "global"}
    training: dict[str, Any] = {"weight_decay": 0.0, "label_smoothing": 0.0, "kernel_rate": 1.0, "window_rate": 1.0}
    x, y = waves(12)
    for options, kind in (({}, DepthwiseCKConv), (network | training, CKConv)):
        fitted = CKCNNClassifier(**SMALL, **options, n_epochs=1).fit(x, y)
        assert {type(layer) for layer in convolutions(fitted.network_.net).values()} == {kind}
        assert {name: fitted.network_.hparams[name] for name in options} == options


def test_verbose_shows_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    x, y = waves(8)
    CKCNNClassifier(**SMALL, n_epochs=1).fit(x, y)
    assert capsys.readouterr() == ("", "")
    CKCNNClassifier(**SMALL, n_epochs=1, verbose=True).fit(x, y)
    assert "Epoch 0" in "".join(capsys.readouterr())


def test_the_import_is_light() -> None:
    """Neither the command line nor what only it needs."""
    code = "import sys, ckcnn.sktime; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "ckcnn.models.ckcnn" in loaded
    assert loaded & {"optuna", "tensorboard", "jsonargparse", "ckcnn.cli", "ckcnn.search"} == set()


def test_labels_may_be_a_series_of_pandas() -> None:
    x, y = load_unit_test(split="train", return_type="pd-multiindex")
    assert isinstance(x, pd.DataFrame)
    labels = pd.Series(y)
    assert set(CKCNNClassifier(**SMALL, n_epochs=1).fit(x, labels).predict(x)) <= {"1", "2"}
