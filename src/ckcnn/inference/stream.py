"""Streams of raw measurements through a trained network."""

# B batch, C channels, O outputs, T time

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ckcnn.datamodules.pipeline import Rows
from ckcnn.datamodules.preprocessing import Preprocessing
from ckcnn.inference.intake import as_16_bits, as_tensor, describe_channels
from ckcnn.nn import NetworkStream


class ModelStream:
    """Answers raw samples as they arrive, with what training did to whole sequences done sample by sample.

    Args:
        net: a causal network.
        trained: what training did to raw sequences.
        batch: streams side by side.

    Raises:
        ValueError: if the network looks ahead, or its preprocessing needs the whole sequence.
    """

    def __init__(self, net: nn.Module, trained: Preprocessing, batch: int = 1) -> None:
        _check(trained)
        self.trained = trained
        self.stream = NetworkStream(net, batch)
        self._pipeline = replace(trained.pipeline(), gaps=trained.knows_missing)
        self._given = 0  # raw samples so far; some networks look at every n-th of them only

    @property
    def steps(self) -> Tensor:
        """How many steps each stream has answered since it started, ``(B,)``."""
        return self.stream.steps

    def push(self, samples: Any) -> Tensor:
        """Return the scores ``(B, O, T)`` after each new sample, on the device of the network.

        A network that was trained at a lower rate (``train_dt``) looks at every n-th sample and answers it; the others
        have no answer, so `T` may be 0.

        Args:
            samples: raw values ``(B, C, T)``, an array or a tensor, any number of new steps; of a single stream also
                ``(C, T)``. NaN where nothing was observed, if training had missing values.

        Raises:
            ValueError: if they do not fit; the stream is then as it was.
        """
        x = self._checked(as_tensor("samples", samples))
        first = -self._given % self._pipeline.stride
        prepare = replace(self._pipeline, first=first, every_step=False)
        batch = prepare(Rows(x, torch.zeros(len(x))))
        if batch.x.shape[-1]:
            answers = self.stream.push(batch.x.to(self.stream.device))
        else:
            answers = torch.empty(len(x), self.trained.out_channels, 0, device=self.stream.device)
        self._given += x.shape[-1]
        return answers

    def reset(self, rows: Sequence[int] | None = None) -> None:
        """Forget the past of all streams, or of those with the numbers `rows`.

        Raises:
            ValueError: if some streams would look at other samples than the rest.
        """
        stride = self._pipeline.stride
        if rows is not None and self._given % stride:
            raise ValueError(
                f"the network looks at every {stride}. sample, so some streams can start anew only after a multiple of "
                f"{stride} samples, got {self._given}; reset all of them"
            )
        self.stream.reset(rows)
        self._given = 0 if rows is None else self._given

    def state_dict(self) -> dict[str, Tensor]:
        """Return what a checkpoint has to keep."""
        return {**self.stream.state_dict(), "given": torch.tensor(self._given)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue where `state_dict` was taken.

        Raises:
            ValueError: if it is of another stream; this one is then as it was.
        """
        own = {name: value for name, value in state.items() if name != "given"}
        self.stream.load_state_dict(own)
        self._given = int(state.get("given", self.stream.steps.max()))

    def _checked(self, samples: Tensor) -> Tensor:
        """Samples as training stored them."""
        single = samples.dim() == 2 and self.stream.batch == 1
        x = samples[None] if single else samples
        if x.dim() != 3 or x.shape[:2] != (self.stream.batch, self.trained.channels) or not x.shape[-1]:
            raise ValueError(
                f"samples must have shape ({self.stream.batch}, {self.trained.channels}, new steps): raw values of "
                f"{describe_channels(self.trained)}, got {tuple(samples.shape)}"
            )
        if self.trained.rate is not None:
            x = as_16_bits(x)
        if x.is_floating_point() and bool(x.isinf().any() if self.trained.knows_missing else (~x.isfinite()).any()):
            advice = "" if self.trained.knows_missing else "; the model was trained without missing values"
            raise ValueError(f"samples have NaN or infinity{advice}")
        return x


def _check(trained: Preprocessing) -> None:
    """Refuse what cannot be done sample by sample."""
    reasons = {
        "its samples come in another order (permuted data)": trained.order is not None,
        "its statistics differ from step to step (standardise: step)": trained.mean is not None
        and trained.mean.shape[-1] > 1,
        "it takes cepstra of a whole recording": trained.features is not None,
        "it takes counts of observations": trained.missing == "counts",
        "it looks at every n-th sample, counted from the newest one (keep: last)": trained.keep == "last"
        and trained.train_dt > 1,
        "it takes time stamps": trained.missing == "times" or trained.stamped,
        "it reads text; use ckcnn generate": bool(trained.vocabulary),
    }
    if found := [reason for reason, holds in reasons.items() if holds]:
        raise ValueError(f"the model cannot answer a stream: {found[0]}")
