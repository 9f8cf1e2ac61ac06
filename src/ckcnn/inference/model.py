"""A trained model that takes raw measurements."""

# B batch, O outputs, T time

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ckcnn.datamodules.preprocessing import Preprocessing
from ckcnn.inference.intake import Intake, describe_channels, may_have_times, take
from ckcnn.inference.stream import ModelStream
from ckcnn.tasks import TASKS

_Decide = Callable[[Tensor], Tensor]


class Scores(NamedTuple):
    """What the network returns for some sequences.

    Attributes:
        rows: which ones, ``(B,)``.
        values: ``(B, O)``, or ``(B, O, T)`` at every step.
        steps: the raw step of each output, ``(B, T)``, -100 for none; None if there is one output per sequence.
    """

    rows: Tensor
    values: Tensor
    steps: Tensor | None


class TrainedModel:
    """A trained network together with what training did to its raw sequences.

    `ckcnn.load` makes it. Values are given as they were measured: standardising, masking, permuting and computing
    cepstra are the model's work.

    Args:
        net: maps ``(x, dt, times, lengths)`` to the output of the task.
        task: kind of problem, a key of `ckcnn.tasks.TASKS`.
        preprocessing: what was done to raw sequences; None for a checkpoint that does not hold it.
        takes_times: whether `net` knows what to do with time stamps.
        content: of the checkpoint or the exported folder.
        source: where that was read from.
    """

    def __init__(
        self,
        net: nn.Module,
        task: str,
        preprocessing: Preprocessing | None,
        takes_times: bool = True,
        content: Mapping[str, Any] | None = None,
        source: Path | None = None,
    ) -> None:
        self.net, self.task, self.takes_times = net, TASKS[task], takes_times
        self.content, self.source = content or {}, source
        self.trained = preprocessing

    @property
    def preprocessing(self) -> Preprocessing:
        """What training did to raw sequences.

        Raises:
            ValueError: if the checkpoint does not hold it.
        """
        if self.trained is None:
            raise ValueError(
                f"{self.source} lacks what was done to raw values (statistics, channels, classes). If it was written "
                "by an earlier version, pass the data module of the training, ckcnn.load(path, data=...); if it was "
                "trained on a data module of your own, use ckcnn predict without --input, or model.net(x)"
            )
        return self.trained

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return next(self.net.parameters()).device

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes (of text, the characters) in the order of their numbers; empty for values."""
        if self.task.target == "value":
            return ()
        trained = self.preprocessing
        if self.task.from_tokens:
            return tuple(trained.vocabulary)
        count = trained.out_channels if self.task.many_labels else self.task.classes(trained.out_channels)
        return trained.classes or tuple(map(str, range(count)))

    def stream(self, batch: int = 1, dt: float = 1.0) -> ModelStream:
        """Return a stream, which predicts raw samples as they arrive.

        Args:
            batch: streams side by side.
            dt: sampling step, in steps of the training sequences; 2 is half their rate.

        Raises:
            ValueError: if the network looks ahead, or its preprocessing needs the whole sequence.
        """
        return ModelStream(self.net, self.preprocessing, batch, dt)

    def predict(self, x: Any, times: Any = None, lengths: Any = None, dt: float = 1.0) -> Any:
        """Return the predictions: numbers of classes, which `classes` names, or values.

        Args:
            x: raw values ``(batch, channels, time)`` or ``(channels, time)``, a NumPy array or a tensor; NaN where
                nothing was observed, if training had missing values. For text, a string or a list of strings.
            times: stamps ``(batch, time)`` or ``(time,)``, in the unit of training.
            lengths: number of valid steps of each sequence, if they differ; the rest is padding.
            dt: sampling step, in steps of the training sequences; 2 is half their rate.

        Returns:
            ``(batch,)`` for classes, ``(batch, labels)`` of 0 and 1 for labels, ``(batch, outputs)`` for values,
            ``(batch, channels, ahead)`` for a forecast in the units of `x`, which looks at the end of a longer `x`. At
            every step, ``(batch, time)`` for classes, with -100 where there is no prediction (padding, steps that were
            not observed or that training leaves out), and ``(batch, outputs, time)`` for values, with NaN there.
            Without the first axis for a single sequence; a tensor if `x` is one, else a NumPy array.

        Raises:
            ValueError: if the input does not fit; the message says what was expected.
        """
        (answers,) = self._answers(x, times, lengths, dt, (self._decided, self.task.ignored))
        return answers

    def predict_proba(self, x: Any, times: Any = None, lengths: Any = None, dt: float = 1.0) -> Any:
        """Return the probability of every class, or of every label.

        Args:
            x: see `predict`, as the other arguments.
            times: stamps.
            lengths: valid steps.
            dt: sampling step.

        Returns:
            ``(batch, classes)``, or ``(batch, classes, time)`` at every step, with NaN where there is no prediction.

        Raises:
            ValueError: if the input does not fit, or the model predicts values.
        """
        if self.task.target == "value":
            raise ValueError("the model predicts values, which have no probabilities; use predict")
        (chances,) = self._answers(x, times, lengths, dt, (self._probabilities, math.nan))
        return chances

    def answer(self, x: Any, times: Any = None, lengths: Any = None, dt: float = 1.0) -> tuple[Any, Any]:
        """Return what `predict` and `predict_proba` return, computed once; None instead of probabilities of values."""
        if self.task.target == "value":
            return self.predict(x, times, lengths, dt), None
        both = (self._decided, self.task.ignored), (self._probabilities, math.nan)
        answers, chances = self._answers(x, times, lengths, dt, *both)
        return answers, chances

    def scores(self, taken: Intake) -> Iterator[Scores]:
        """Yield what the network answers, part by part, on the CPU; memory is bounded by the batches of training."""
        move = self.device
        for part in taken.parts():
            x, steps, times, lengths = part.batch
            given = {} if lengths is None else {"lengths": lengths.to(move)}
            with torch.inference_mode():
                values = self.net(x.to(move), dt=part.dt, times=None if times is None else times.to(move), **given)
            values, scale = values.cpu(), self.preprocessing.target_statistics
            values = values if scale is None else scale.undo(values)
            yield Scores(part.rows, values, steps if self.task.every_step else None)

    def take(self, x: Any, times: Any = None, lengths: Any = None, dt: float = 1.0) -> Intake:
        """Check raw input, for `scores`; see `predict`."""
        return take(self.preprocessing, self.takes_times, x, times, lengths, dt)

    def describe(self) -> str:
        """Return what the model takes and answers, in a few lines."""
        content, trained = self.content, self.preprocessing
        made = content.get("made_by") or {}
        name = (content.get("net") or {}).get("class_path") or content.get("model_class", type(self.net).__name__)
        size = sum(parameter.numel() for parameter in self.net.parameters())
        times = self.takes_times and may_have_times(trained)
        names = [*self.classes[:10], *(["..."] if len(self.classes) > 10 else [])]
        lines = {
            "model": f"{name} with {size:,} parameters",
            "preset": f"{made.get('preset') or '-'}, trained with ckcnn {made.get('ckcnn') or 'of an earlier version'}",
            "data": f"{trained.data}, {trained.task}",
            "takes": "text" if self.task.from_tokens else describe_channels(trained),
            "length": _describe_length(trained),
            "missing": f"as NaN, encoded as {trained.missing or 'zeros'}" if trained.knows_missing else "none",
            "times": "needed" if trained.stamped else "possible" if times else "not possible",
            "answers": self._describe_answers(names),
        }
        return "\n".join(f"{name:8} {text}" for name, text in lines.items())

    def _describe_answers(self, names: Sequence[str]) -> str:
        trained = self.preprocessing
        if self.classes:
            what = "labels, each there or not" if self.task.many_labels else "classes"
            return f"{len(self.classes)} {what}: {', '.join(map(repr, names))}"
        if self.task.ahead:
            return f"the next {trained.ahead} steps of {describe_channels(trained)}"
        each = " at every step" if self.task.every_step else ""
        return f"{trained.out_channels} value{'s' * (trained.out_channels != 1)}{each}"

    def __repr__(self) -> str:
        return f"TrainedModel({str(self.source)!r})"

    def _answers(self, x: Any, times: Any, lengths: Any, dt: float, *wanted: tuple[_Decide, float]) -> list[Any]:
        """What functions make of the scores, each with the value for steps without a prediction."""
        taken = self.take(x, times, lengths, dt)
        found: list[Tensor] = []
        for part in self.scores(taken):
            decided = [decide(part.values) for decide, _ in wanted]
            if not found:
                steps = 0 if part.steps is None else 1
                shapes = [(len(taken.x), *one.shape[1 : one.dim() - steps], *[taken.width] * steps) for one in decided]
                nothing = [value for _, value in wanted]
                found = [
                    torch.full(shape, value, dtype=one.dtype)
                    for shape, value, one in zip(shapes, nothing, decided, strict=True)
                ]
            for answers, one in zip(found, decided, strict=True):
                if part.steps is None:
                    answers[part.rows] = one
                else:
                    _scatter(answers, one, part.rows, part.steps, taken.lengths[part.rows])
        whole = [answers[0] if taken.single else answers for answers in found]
        return whole if isinstance(x, Tensor) else [answers.numpy() for answers in whole]

    def _decided(self, scores: Tensor) -> Tensor:
        answer = self.task.answer(scores)
        return (answer > 0.5).long() if self.task.one_logit or self.task.many_labels else answer

    def _probabilities(self, scores: Tensor) -> Tensor:
        if self.task.many_labels:
            return self.task.answer(scores)
        if self.task.one_logit:
            second = self.task.answer(scores)
            return torch.stack([1 - second, second], dim=1)
        return scores.softmax(1)


def _describe_length(trained: Preprocessing) -> str:
    step = "" if trained.time_step is None else f", one every {trained.time_step:g}"
    used = f", every {trained.train_dt}. of them used" if trained.train_dt > 1 else ""
    return f"{trained.length} steps in training{step}{used}"


def _scatter(answers: Tensor, decided: Tensor, rows: Tensor, steps: Tensor, lengths: Tensor) -> None:
    """Put the predictions of every step to their raw steps; what lies in padding is left out."""
    for row, values, places, length in zip(rows.tolist(), decided, steps, lengths.tolist(), strict=True):
        real = (places >= 0) & (places < length)
        answers[row][..., places[real]] = values[..., real]
