"""The regressor."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sktime.regression.base import BaseRegressor

from ckcnn.sktime.classifier import small_settings
from ckcnn.sktime.estimator import TAGS, CKCNNEstimator


class CKCNNRegressor(CKCNNEstimator, BaseRegressor):  # type: ignore[misc]
    """A continuous-kernel CNN that predicts a number for each time series.

    It takes the same data and options as `CKCNNClassifier`, and averages what its networks predict. Targets are
    standardised for training.

    Attributes:
        n_channels_in_: channels of the series.
        networks_: the trained networks, each a `ckcnn.CKCNN`; they predict standardised targets.
        network_: the first of them.
        histories_: for each network the metrics of its epochs, such as ``train/loss``.
        target_mean_: of the targets in training.
        target_std_: their standard deviation.
        fit_time_: milliseconds that `fit` took.

    Example:
        >>> import numpy as np
        >>> from ckcnn.sktime import CKCNNRegressor
        >>> X, y = np.random.normal(size=(20, 1, 30)), np.linspace(0, 100, 20)
        >>> CKCNNRegressor(n_steps=20, hidden_channels=8, random_state=0).fit(X, y).predict(X).shape
        (20,)
    """

    _tags = TAGS
    task = "regression"

    def _fit(self, X: Any, y: NDArray[Any]) -> CKCNNRegressor:  # noqa: N803
        y = np.asarray(y, dtype=np.float64)
        if not np.isfinite(y).all():
            raise ValueError("y must hold finite numbers, got NaN or infinity")
        self.target_mean_, self.target_std_ = float(y.mean()), float(y.std()) or 1.0
        self.fit_networks(X, ((y - self.target_mean_) / self.target_std_).astype(np.float32)[:, None])
        return self

    def _predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        mean: NDArray[np.float64] = np.stack(self.answers(X)).astype(np.float64).mean(axis=0)[:, 0]
        return self.target_mean_ + self.target_std_ * mean

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return small settings, with which sktime tries the estimator."""
        return small_settings()
