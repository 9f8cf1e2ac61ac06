"""Streams of raw measurements through a trained network."""

# B batch, C channels, S sporadic channels, O outputs, T time

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ckcnn.datamodules.features import INT16
from ckcnn.datamodules.pipeline import Rows
from ckcnn.datamodules.preprocessing import Preprocessing
from ckcnn.datamodules.transforms import Statistics
from ckcnn.inference.intake import as_16_bits, as_tensor, check_step, describe_channels, is_bad, raw_channels, take
from ckcnn.inference.live_cepstra import LiveCepstra
from ckcnn.inference.preparation import Preparation
from ckcnn.nn import NetworkStream
from ckcnn.nn.streaming import check_state, numbers_of
from ckcnn.tasks import TASKS


class ModelStream:
    """Predicts raw samples as they arrive, with what training did to whole sequences done sample by sample.

    Args:
        net: a causal network.
        trained: what training did to raw sequences.
        batch: streams side by side.
        dt: sampling step, in steps of the training sequences; 2 is half their rate.

    Raises:
        ValueError: if the network looks ahead, or its preprocessing needs the whole sequence.
    """

    def __init__(self, net: nn.Module, trained: Preprocessing, batch: int = 1, dt: float = 1.0) -> None:
        _check(trained, dt)
        self.trained, self._text = trained, TASKS[trained.task].from_tokens
        self._prepare = Preparation.of(trained, None, dt)
        self.stream = NetworkStream(net, batch, self._prepare.dt)
        settings, rate = trained.features, trained.rate
        self._cepstra = None if settings is None or rate is None else LiveCepstra(settings, rate, batch)
        self._given = torch.zeros(batch, dtype=torch.int64)  # steps so far: raw samples, or frames of cepstra
        self._counts = torch.zeros(batch, trained.sporadic)  # observations so far
        self._last = torch.full((batch, trained.channels), math.nan)  # what stands for the steps after an early end

    @property
    def steps(self) -> Tensor:
        """How many steps each stream has processed since it started, ``(B,)``."""
        return self.stream.steps

    def push(self, samples: Any) -> Tensor:
        """Return the scores ``(B, O, T)`` after each new sample, on the device of the network.

        A network that was trained at a lower rate (``train_dt``) returns an output for every n-th sample only, so `T`
        may be 0. A network that takes cepstra returns an output after each frame.

        Args:
            samples: raw values ``(B, C, T)``, an array or a tensor, any number of new steps; of a single stream also
                ``(C, T)``. NaN where nothing was observed, if training had missing values. For text, a string or a
                list of strings of the same length, or tokens ``(B, T)``.

        Raises:
            ValueError: if they do not fit; the stream is then as it was.
        """
        if self._text:
            return self.stream.push(self._tokens(samples).to(self.stream.device))
        x = self._checked(as_tensor("samples", samples))
        if self._cepstra is None:
            return self._answers(x)
        self._statistics(self._cepstra.coming(x.shape[-1]))  # refuses what is too long
        return self._answers(self._cepstra.push(x[:, 0] / INT16))

    def finish(self) -> Tensor:
        """Return the scores ``(B, O, T)`` that only the end of a sequence gives, and start all streams anew.

        Together with those of `push` they are the scores of a call with the whole sequence. Most networks need no end,
        and `T` is 0. The last frame of cepstra mirrors the end of a recording, and a sequence that is shorter than
        those of training is padded where training did so.

        Raises:
            ValueError: if streams of different lengths would have to be padded; the streams are then as they were.
        """
        answers = self._answers(self._padding() if self._cepstra is None else self._cepstra.finish())
        self.reset()
        return answers

    def reset(self, rows: Sequence[int] | None = None) -> None:
        """Forget the past of all streams, or of those with the numbers `rows`.

        Raises:
            ValueError: if some streams would look at other samples than the rest.
        """
        stride, given = self._prepare.pipeline.stride, int(self._given[0])
        if rows is not None and self._cepstra is not None:
            raise ValueError("frames of cepstra begin at the same sample in all streams; reset all of them")
        if rows is not None and given % stride:
            raise ValueError(
                f"the network looks at every {stride}. sample, so some streams can restart only after a multiple of "
                f"{stride} samples, got {given}; reset all of them"
            )
        self.stream.reset(rows)
        chosen = numbers_of(rows, self.stream.batch)
        self._given[chosen], self._counts[chosen], self._last[chosen] = 0, 0, math.nan
        if self._cepstra is not None:
            self._cepstra.reset()

    def state_dict(self) -> dict[str, Tensor]:
        """Return what a checkpoint has to keep."""
        return self.stream.state_dict() | {name: value.clone() for name, value in self._memory().items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue where `state_dict` was taken.

        Raises:
            ValueError: if it is of another stream; this one is then as it was.
        """
        own = self._memory()
        check_state(self.state_dict(), state)
        self.stream.load_state_dict({name: value for name, value in state.items() if name not in own})
        for name, value in own.items():
            value.copy_(state[name])

    def _memory(self) -> dict[str, Tensor]:
        """What is remembered of raw samples, besides what the layers remember."""
        own = {"raw.given": self._given, "raw.counts": self._counts, "raw.last": self._last}
        if self._cepstra is not None:
            own |= {"raw.samples": self._cepstra.given, "raw.newest": self._cepstra.newest}
        return own

    def _answers(self, x: Tensor) -> Tensor:
        """Scores for new raw steps, or frames of cepstra, ``(B, C, T)``."""
        trained, pipeline = self.trained, self._prepare.pipeline
        prepare = replace(
            pipeline,
            gaps=trained.knows_missing,
            statistics=self._statistics(x.shape[-1]),
            first=-int(self._given[0]) % pipeline.stride,
            every_step=False,
        )
        steps = prepare(Rows(x, torch.zeros(len(x)))).x
        if trained.missing == "counts":
            steps[:, : trained.sporadic] += self._counts[..., None]
        if steps.shape[-1]:
            answers = self.stream.push(steps.to(self.stream.device))
            if (scale := trained.target_statistics) is not None:
                answers = scale.to(answers.device).undo(answers)
        else:
            answers = torch.empty(len(x), trained.out_channels, 0, device=self.stream.device)
        self._remember(x)
        return answers

    def _remember(self, x: Tensor) -> None:
        self._given += x.shape[-1]
        seen = x.eq(x)  # only NaN differs from itself
        self._counts += seen[:, : self.trained.sporadic].sum(-1)
        if x.shape[-1] and (self.trained.gaps or not self.trained.knows_missing):
            self._last.copy_(x[..., -1])
        elif x.shape[-1]:
            newest = torch.where(seen, torch.arange(x.shape[-1]), 0).amax(-1, keepdim=True)
            self._last.copy_(torch.where(seen.any(-1), x.gather(2, newest)[..., 0], self._last))

    def _statistics(self, new: int) -> Statistics | None:
        """With what `new` steps are standardised."""
        trained = self.trained
        known = trained.statistics
        if known is None or known.mean.shape[-1] == 1:
            return known
        places = (self._given[:, None] + torch.arange(new)) * int(self._prepare.step)  # (B, T)
        if new and int(places.max()) >= trained.length:
            raise ValueError(
                f"the model standardises each of {trained.length} time steps by itself, so a stream is at most as "
                "long; call finish or reset before a new sequence"
            )
        return Statistics(*(part[0][:, places].transpose(0, 1) for part in (known.mean, known.std)))

    def _padding(self) -> Tensor:
        """What training put after the end of a shorter sequence, ``(B, C, T)``."""
        trained = self.trained
        first, last = int(self._given.min()), int(self._given.max())
        if not first:
            raise ValueError("a sequence must have at least one sample before it ends; push some first")
        more = math.ceil(trained.length / self._prepare.step) - last
        if not trained.varying or trained.padding == "valid" or TASKS[trained.task].every_step or more <= 0:
            return self._last[..., None][..., :0]
        if first != last:
            raise ValueError(
                f"the streams have {first} ... {last} samples, and shorter sequences would be padded to "
                f"{last + more}; finish streams that have equally many"
            )
        x = self._last[..., None].repeat(1, 1, more)
        if trained.padding == "missing":
            x[:, : trained.sporadic] = math.nan
        return x

    def _tokens(self, samples: Any) -> Tensor:
        taken = take(self.trained, False, samples)
        if len(taken.x) != self.stream.batch or int(taken.lengths.min()) != taken.width:
            raise ValueError(
                f"text must come as {self.stream.batch} string{'s' * (self.stream.batch > 1)} of the same length, one "
                f"for each stream, got {len(taken.x)} of {sorted(set(taken.lengths.tolist()))} characters"
            )
        return taken.x

    def _checked(self, samples: Tensor) -> Tensor:
        """Samples as training stored them."""
        batch, channels = self.stream.batch, raw_channels(self.trained)
        x = samples[None] if samples.dim() == 1 and channels == 1 else samples
        x = x[None] if x.dim() == 2 and batch == 1 else x
        if x.dim() != 3 or x.shape[:2] != (batch, channels) or not x.shape[-1]:
            raise ValueError(
                f"samples must have shape ({batch}, {channels}, new steps): raw values of "
                f"{describe_channels(self.trained)}, got {tuple(samples.shape)}"
            )
        if self.trained.rate is not None:
            x = as_16_bits(x)
        if bool(is_bad(self.trained, x).any()):
            advice = "" if self.trained.knows_missing else "; the model was trained without missing values"
            raise ValueError(f"samples have NaN, infinity, or numbers beyond float32{advice}")
        return x


def _check(trained: Preprocessing, dt: float) -> None:
    """Refuse what cannot be done sample by sample."""
    check_step(dt)
    reasons = {
        "its samples come in another order (permuted data)": trained.order is not None,
        "it looks at every n-th sample, counted from the newest one (keep: last)": trained.keep == "last"
        and trained.train_dt > 1,
        "it filters the recording before it leaves samples out (antialias)": trained.antialias
        and trained.train_dt >= 2 * dt,
        "it forecasts, which it does anew for each window; use predict": trained.ahead > 0,
        "it takes time stamps": trained.missing == "times" or trained.stamped,
    }
    if found := [reason for reason, holds in reasons.items() if holds]:
        raise ValueError(f"the model cannot stream: {found[0]}")
    if dt != 1 and (trained.features is not None or TASKS[trained.task].from_tokens):
        what = "text" if trained.features is None else f"cepstral coefficients of sound at {trained.rate} Hz"
        raise ValueError(f"the model takes {what}, which has no other sampling step; leave dt at 1, got {dt:g}")
    if dt != int(dt) and trained.mean is not None and trained.mean.shape[-1] > 1:
        raise ValueError(
            f"the model standardises each time step by itself, so dt must be a whole number of them, got {dt:g}"
        )
