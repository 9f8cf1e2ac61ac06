"""Raw measurements become batches: checked, cut to parts of bounded size, and put through the pipeline of training."""

# B batch, C channels, T time

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ckcnn.datamodules.features import INT16, cepstra, frames, shortest
from ckcnn.datamodules.preprocessing import Preprocessing
from ckcnn.datamodules.sequences import SequenceBatch
from ckcnn.inference.preparation import Preparation
from ckcnn.tasks import TASKS

_STEPS = 1e-6, 1e6  # the finest and the coarsest sampling
_LOUDEST = 8.0  # a recording in [-1, 1] may overshoot; samples with 16 bits go to 32,768


class Part(NamedTuple):
    """Some of the sequences.

    Attributes:
        rows: which ones, ``(B,)``.
        batch: what the network gets; at every step its `y` holds the number of the raw step, or -100 for none.
        dt: sampling step, in training samples.
    """

    rows: Tensor
    batch: SequenceBatch
    dt: float


@dataclass(frozen=True)
class Intake:
    """Sequences that were checked.

    Attributes:
        trained: what training did to its sequences.
        x: raw values ``(B, C, T)``, or tokens ``(B, T)``.
        times: stamps ``(B, T)`` or None.
        lengths: number of valid steps ``(B,)``.
        dt: sampling step, in raw steps of training.
        single: whether one sequence was given without a batch axis.
    """

    trained: Preprocessing
    x: Tensor
    times: Tensor | None
    lengths: Tensor
    dt: float
    single: bool

    @property
    def width(self) -> int:
        """Raw steps of the widest sequence."""
        return self.x.shape[-1]

    def parts(self) -> Iterator[Part]:
        """Yield batches that are no larger than those of training."""
        if TASKS[self.trained.task].from_tokens:
            yield from self._texts()
            return
        for rows in self._groups():
            x, lengths = self.x[rows], self.lengths[rows]
            if self.trained.features is not None:
                x, lengths = self._features(x, lengths)
            if self.trained.ahead:  # all of a group are equally long; the end says what comes next
                end = int(lengths[0])
                x = x[..., max(0, end - self.trained.length) : end]
                lengths = lengths.clamp(max=self.trained.length)
            times = None if self.times is None else self.times[rows]
            yield self._part(rows, x, lengths, times)

    def _texts(self) -> Iterator[Part]:
        for rows in self._groups():
            tokens = self.x[rows][:, : int(self.lengths[rows[0]])].long()
            steps = torch.arange(tokens.shape[1]).expand_as(tokens)
            yield Part(rows, SequenceBatch(tokens, steps), 1.0)

    def _groups(self) -> Iterator[Tensor]:
        """Rows that go together: all where training had different lengths too, else only equally long ones."""
        together = [torch.arange(len(self.x))]
        if not self.trained.varying:
            together = [torch.nonzero(self.lengths == length)[:, 0] for length in torch.unique(self.lengths)]
        longest = max(self.trained.length, 1)
        for rows in together:
            ends = self.lengths[rows]
            width = int((ends if self.trained.features is None else frames(ends, self.trained.features)).max())
            size = self.trained.batch_size * min(1.0, longest / width)
            yield from torch.split(rows, max(1, int(size)))

    def _features(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        settings = self.trained.features or {}
        sound = x[:, 0, : int(lengths[0])]  # all of a group are equally long
        if self.trained.rate is None:
            raise ValueError("the checkpoint is damaged: it has features of sound without a sampling rate")
        return cepstra(settings, self.trained.rate)(sound / INT16), frames(lengths, settings)

    def _part(self, rows: Tensor, x: Tensor, lengths: Tensor, times: Tensor | None) -> Part:
        trained = self.trained
        prepare = Preparation.of(trained, int(lengths.max()), self.dt)
        x = x[..., : int(lengths.max())]
        stamped = times is not None or trained.missing == "times"
        if times is not None:
            times = times[:, : x.shape[-1]]
        elif stamped and self.dt != 1:
            times = (torch.arange(x.shape[-1]) * self.dt).expand(len(x), -1)
        every_step = TASKS[trained.task].every_step
        steps = torch.arange(prepare.width or 0).expand(len(x), -1) if every_step else torch.zeros(len(x)).long()
        return Part(rows, prepare(x, steps, lengths, times), 1.0 if stamped else prepare.dt)


def take(
    trained: Preprocessing, takes_times: bool, x: Any, times: Any = None, lengths: Any = None, dt: float = 1.0
) -> Intake:
    """Check what a user gives to a model.

    Raises:
        ValueError: if it does not fit what the model was trained on; the message says what was expected.
    """
    check_step(dt)
    dt = float(dt)
    if TASKS[trained.task].from_tokens:
        return _take_text(trained, x, times, dt)
    signals = as_tensor("x", x)
    single = signals.dim() < 3
    if signals.dim() == 1 and raw_channels(trained) == 1:
        signals = signals[None]
    signals = signals[None] if single else signals
    if signals.dim() != 3 or signals.shape[1] != raw_channels(trained) or 0 in signals.shape:
        raise ValueError(_shape_error(trained, tuple(np.shape(x))))
    ends = _check_lengths(lengths, signals, single)
    stamps = _check_times(trained, takes_times, times, signals, single, dt)
    if trained.features is not None and dt != 1:
        raise ValueError(
            f"the model computes cepstral coefficients of sound at {trained.rate} Hz; resample x instead of giving dt"
        )
    if trained.features is not None and int(ends.min()) < (least := shortest(trained.features)):
        raise ValueError(f"a recording must have at least {least} samples for its cepstra, got {int(ends.min())}")
    if trained.rate is not None:
        signals = as_16_bits(signals)
    _check_values(trained, signals, ends, single)
    return Intake(trained, signals, stamps, ends, dt, single)


def check_step(dt: float) -> None:
    """`dt` must be a step at which a signal can have been sampled.

    Raises:
        ValueError: if it is none.
    """
    low, high = _STEPS
    if isinstance(dt, bool) or not isinstance(dt, Real) or not low <= dt <= high:
        raise ValueError(
            f"dt must be a number from {low:g} to {high:g}, the sampling step in steps of training, got {dt!r}"
        )


def raw_channels(trained: Preprocessing) -> int:
    """Return how many channels a raw sequence has."""
    return trained.channels if trained.features is None else 1


def may_have_times(trained: Preprocessing) -> bool:
    """Return whether sequences may have time stamps: text, cepstra and permuted steps have none."""
    return not TASKS[trained.task].from_tokens and trained.features is None and trained.order is None


def describe_channels(trained: Preprocessing) -> str:
    """Return the channels of a raw sequence, in words."""
    count = raw_channels(trained)
    names = ("sound",) if trained.features is not None else trained.channel_names
    rate = f" at {trained.rate} Hz, int16 or float in [-1, 1]" if trained.rate is not None else ""
    meaning = f" ({', '.join(names)}{rate})" if names else ""
    return f"{count} channel{'s' * (count != 1)}{meaning}"


def _take_text(trained: Preprocessing, x: Any, times: Any, dt: float) -> Intake:
    if times is not None or dt != 1:
        raise ValueError("text has neither time stamps nor a sampling step; leave times and dt out")
    single = isinstance(x, str)
    if single or (isinstance(x, Sequence) and x and all(isinstance(text, str) for text in x)):
        encoded = [encode(text, trained.vocabulary, trained.spelling) for text in ([x] if single else x)]
        lengths = torch.tensor([len(text) for text in encoded])
        return Intake(trained, torch.nn.utils.rnn.pad_sequence(encoded, batch_first=True), None, lengths, 1.0, single)
    tokens = as_tensor("x", x)
    single = tokens.dim() == 1
    tokens = tokens[None] if single else tokens
    size = len(trained.vocabulary) or trained.out_channels
    if tokens.dim() != 2 or 0 in tokens.shape or tokens.is_floating_point() or tokens.min() < 0 or tokens.max() >= size:
        raise ValueError(
            f"x must be text, a list of texts, or tokens 0 ... {size - 1} of shape (batch, time), "
            f"got {tokens.dtype} {tuple(np.shape(x))}"
        )
    return Intake(trained, tokens, None, torch.full((len(tokens),), tokens.shape[1]), 1.0, single)


def encode(text: str, vocabulary: str, spelling: Mapping[str, str]) -> Tensor:
    """Return the tokens of a text ``(T,)``.

    Args:
        text: of at least one character.
        vocabulary: the character of each token.
        spelling: replacements for characters that the text of training spells differently.

    Raises:
        ValueError: if it is empty or has a character that the model never saw.
    """
    for character, spelled in spelling.items():
        text = text.replace(character, spelled)
    if not text:
        raise ValueError("the text is empty; give at least one character")
    if unknown := sorted(set(text) - set(vocabulary)):
        known = "".join(sorted(set(vocabulary) - set(spelling)))
        raise ValueError(f"the model has never seen the character {unknown[0]!r}; it knows {known!r}")
    return torch.tensor([vocabulary.index(character) for character in text])


def as_tensor(name: str, values: Any) -> Tensor:
    """Return numbers as a tensor on the CPU.

    Raises:
        ValueError: if they are none; the message begins with `name`.
    """
    if isinstance(values, Tensor):
        tensor = values.detach().to_dense().cpu()
    else:
        if isinstance(values, np.ma.MaskedArray) and values.mask.any():
            values = np.ma.filled(values.astype(np.float64), np.nan)  # masked is not observed
        try:
            array = np.asarray(values)
        except ValueError as error:
            raise ValueError(
                f"{name} must be an array of numbers; pad shorter sequences and give lengths ({error})"
            ) from None
        if array.dtype.kind not in "buif":
            raise ValueError(f"{name} must be real numbers, got {array.dtype}")
        array = np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")
        wide = {np.dtype("uint16"): np.int32, np.dtype("uint32"): np.int64, np.dtype("uint64"): np.float64}
        wide |= {np.dtype("longdouble"): np.float64}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")  # nobody writes
            tensor = torch.from_numpy(array.astype(wide.get(array.dtype, array.dtype), copy=False))
    if tensor.is_complex():
        raise ValueError(f"{name} must be real numbers, got {tensor.dtype}")
    return tensor


def _shape_error(trained: Preprocessing, shape: tuple[int, ...]) -> str:
    count = raw_channels(trained)
    hint = "; is time its last axis?" if len(shape) in (2, 3) and shape[-1] == count else ""
    return (
        f"x must have shape (batch, {count}, time) or ({count}, time): raw values of "
        f"{describe_channels(trained)}, got shape {shape}{hint}"
    )


def _check_lengths(lengths: Any, x: Tensor, single: bool) -> Tensor:
    count, time = len(x), x.shape[-1]
    if lengths is None:
        return torch.full((count,), time)
    ends = as_tensor("lengths", lengths)
    ends = ends.reshape(1) if single and ends.dim() == 0 else ends
    if tuple(ends.shape) != (count,) or ends.is_floating_point():
        raise ValueError(f"lengths must be {count} whole numbers, one a sequence, got {ends.dtype} {tuple(ends.shape)}")
    if int(ends.min()) < 1 or int(ends.max()) > time:
        raise ValueError(f"lengths must lie in 1 ... {time}, got {int(ends.min())} ... {int(ends.max())}")
    return ends.long()


def _check_times(
    trained: Preprocessing, takes_times: bool, times: Any, x: Tensor, single: bool, dt: float
) -> Tensor | None:
    shape = (len(x), x.shape[-1])
    if times is None:
        if trained.stamped:
            raise ValueError(f"the model was trained with time stamps; give times of shape {shape}")
        return None
    if not (takes_times and may_have_times(trained)):
        raise ValueError("the model takes no time stamps; give x on a regular grid, without times")
    if dt != 1:
        raise ValueError(f"times hold the sampling step already; leave dt out, got dt={dt:g}")
    stamps = as_tensor("times", times)
    stamps = stamps[None] if single and stamps.dim() == 1 else stamps
    if tuple(stamps.shape) != shape:
        raise ValueError(f"times must have shape {shape}, one stamp for each step, got {tuple(stamps.shape)}")
    stamps = stamps.double()  # Unix times in float32 are minutes apart
    return (stamps - stamps[:, :1]) / (trained.time_step or trained.time_unit)


def as_16_bits(x: Tensor) -> Tensor:
    """Return sound as training stored it: whole numbers are samples with 16 bits, others lie in [-1, 1]."""
    if not x.is_floating_point():
        return x
    loudest = float(x.nan_to_num(0.0).abs().max())
    if loudest > _LOUDEST:
        raise ValueError(
            f"x is sound, so floating-point values must lie in [-1, 1], got {loudest:g}; give int16 samples as integers"
        )
    return x.float() * INT16


def is_bad(trained: Preprocessing, x: Tensor) -> Tensor:
    """Where raw values are none: infinity, numbers beyond float32, and NaN unless values may be missing."""
    known = x.float()
    return known.isinf() if trained.knows_missing else ~known.isfinite()


def _check_values(trained: Preprocessing, x: Tensor, lengths: Tensor, single: bool) -> None:
    if not x.is_floating_point():
        return
    bad = is_bad(trained, x) & (torch.arange(x.shape[-1]) < lengths[:, None])[:, None]
    if bad.any():
        place = torch.nonzero(bad)[0].tolist()[1 if single else 0 :]
        many = int(bad.sum()) - 1
        more = f" and {many} more places" if many else ""
        advice = "" if trained.knows_missing else "; the model was trained without missing values"
        what = "NaN or infinity" if not x[bad].isfinite().any() else "a number beyond float32"
        raise ValueError(f"x must be finite, got {what} at {place}{more}{advice}")
