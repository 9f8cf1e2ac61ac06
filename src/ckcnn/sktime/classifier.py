"""The classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sktime.classification.base import BaseClassifier

from ckcnn.sktime.estimator import TAGS, CKCNNEstimator


class CKCNNClassifier(CKCNNEstimator, BaseClassifier):  # type: ignore[misc]
    """A continuous-kernel CNN that classifies time series of any length, with any number of channels.

    It is an sktime classifier, and works in scikit-learn's model selection and pipelines. Series may differ in length
    and lack values (NaN), labels may be of any type, and `X` of any of sktime's panel types (`numpy3D`,
    `pd-multiindex`, `nested_univ`, `df-list`). Training is that of `ckcnn fit`: `ckcnn.CKCNN` and Lightning's Trainer.

    By default the network is that of ``separable.yaml`` with 32 channels: depthwise convolutions whose frequencies and
    windows follow from the length of the series, and a mean over time.

    Args:
        n_epochs: epochs of training; by default as many as take `n_steps`.
        n_steps: steps of training, one batch each; a small training set needs more epochs than a large one, but about
            as many steps.
        batch_size: series in a batch.
        learning_rate: of Adam; for ``"one_cycle"`` the highest one.
        schedule: of the learning rate: ``"one_cycle"``, ``"plateau"`` or ``"constant"``.
        warm_up: fraction of a one-cycle schedule in which the learning rate rises.
        block: the ``"paper"``'s residual block, or that of CCNN and S4: ``"pre_norm"``, ``"pre_norm_gated"``.
        conv: ``"dense"`` mixes all channels in each convolution, ``"depthwise"`` none, ``"separable"`` is a depthwise
            and a 1x1 convolution.
        hidden_channels: channels of the residual blocks.
        num_blocks: residual blocks.
        memory: length of the kernels in samples, at most that of the longest series; None for all of it. A stack of
            layers sees several times as far.
        omega_0: prior on how fast the kernels oscillate; ``"auto"`` gives them all frequencies that they can hold.
        kernel: non-linearity of the kernel net.
        kernel_hidden: width of the kernel net.
        window: what kernels are multiplied by: ``"none"``, or a Gaussian with a learned width for each ``"layer"`` or
            ``"channel"``.
        causal: whether each step sees only what came before it; otherwise half of the memory lies in the future.
        norm: ``"global"``, over channels and time, ``"step"``, over channels alone, or ``"batch"``.
        readout: ``"last"`` step, or the ``"mean"`` over time, which does not know when something happened.
        dropout: fraction of the activations that training sets to zero.
        input_dropout: fraction of the input values that training sets to zero.
        weight_dropout: fraction of the kernel values that training sets to zero; for ``conv="dense"``.
        kernel_penalty: weight of the norms of the kernels in the loss.
        weight_decay: of AdamW; 0 is Adam.
        label_smoothing: of the training loss of a classifier.
        kernel_rate: learning rate of the kernel nets, as a multiple of `learning_rate`.
        window_rate: the same for the windows.
        standardise: ``"channel"``, ``"step"`` (one mean for every time index) or ``"none"``.
        differences: whether the network also sees how much each channel has changed since the step before.
        normalised: whether it also sees each series with mean 0 and standard deviation 1, which shows the shape of
            series whose sizes differ much.
        missing: how the network knows of missing values: ``"mask"`` (a channel says where), ``"counts"`` (one for each
            channel), or ``"times"`` (steps without any value are left out, the others keep their time stamps).
        n_networks: networks with seeds of their own whose probabilities are averaged.
        validation_fraction: of the series that is held out to find the best epoch; 0 keeps the last epoch.
        patience: epochs without a better one after which training stops, if there is validation.
        random_state: seed; with the same one, training gives the same network.
        verbose: whether to show a progress bar.
        accelerator: where to train, as Lightning calls it: ``"auto"``, ``"cpu"``, ``"gpu"``.

    Attributes:
        classes_: the labels, sorted.
        n_classes_: their number.
        n_channels_in_: channels of the series.
        networks_: the trained networks, each a `ckcnn.CKCNN`.
        network_: the first of them.
        histories_: for each network the metrics of its epochs, such as ``train/loss``.
        fit_time_: milliseconds that `fit` took.

    Example:
        >>> from ckcnn.sktime import CKCNNClassifier
        >>> from sktime.datasets import load_unit_test
        >>> X, y = load_unit_test(split="train")
        >>> classifier = CKCNNClassifier(n_steps=20, hidden_channels=8, random_state=0).fit(X, y)
        >>> classifier.predict_proba(X).shape
        (20, 2)
    """

    _tags = {**TAGS, "capability:predict_proba": True}  # noqa: RUF012 (sktime reads it so)
    task = "classification"

    def fit(self, X: Any, y: Any) -> CKCNNClassifier:  # noqa: N803
        """Train on panel `X` and its labels `y`.

        Args:
            X: one series for each label, any of sktime's panel types.
            y: labels of any type, ``(N,)``.

        Raises:
            ValueError: if a label is missing, or the options or the data make no sense; the message says what.
        """
        if pd.isna(np.asarray(y, dtype=object)).any():
            raise ValueError("y must have a label for every series, got None or NaN")
        super().fit(X, y)
        return self

    def _fit(self, X: Any, y: NDArray[Any]) -> CKCNNClassifier:  # noqa: N803
        numbers = np.searchsorted(self.classes_, y).astype(np.int64)
        self.fit_networks(X, numbers, [str(label) for label in self.classes_])
        return self

    def _predict_proba(self, X: Any) -> NDArray[Any]:  # noqa: N803
        mean = np.mean(self.answers(X), axis=0, dtype=np.float64)
        return mean / mean.sum(axis=1, keepdims=True)

    def _predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        return self.classes_[self._predict_proba(X).argmax(axis=1)]

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return small settings, with which sktime tries the estimator."""
        return small_settings()


def small_settings() -> list[dict[str, Any]]:
    """Return settings that train in a moment."""
    small = {"n_epochs": 1, "hidden_channels": 4, "kernel_hidden": 8, "num_blocks": 1, "accelerator": "cpu"}
    return [small, {**small, "n_epochs": 2, "n_networks": 2, "validation_fraction": 0.3, "readout": "mean"}]
