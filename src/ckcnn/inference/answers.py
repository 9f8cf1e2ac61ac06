"""Answers to the sequences of files: read, asked and written in parts, so that memory stays bounded."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ckcnn.datamodules.sequence_files import Recording
from ckcnn.files import replacing
from ckcnn.inference.intake import check_step, describe_channels, raw_channels
from ckcnn.inference.model import TrainedModel

_BATCHES = 16  # asked together
_VALUES = 1 << 24  # of raw values that are kept together
_GRID = 1e-6  # how much the steps of a regular grid may differ
_RATE = 1e-3  # how much a sampling step may differ from what it should be


def write_answers(
    model: TrainedModel,
    recordings: Iterable[Recording],
    path: Path,
    dt: float = 1.0,
    advance: Callable[[int], object] = lambda done: None,
) -> int:
    """Write one line for each prediction and return the number of sequences.

    The columns are ``sequence``, ``step`` (if every step has a prediction), ``prediction`` (the name of the class,
    the names of the labels with ``|`` between them, or the value) and the probability of each class or label, such as
    ``p(yes)``. A forecast has one line for each step ``ahead``, from 1, and a column for each channel.

    Args:
        model: the model that predicts.
        recordings: raw sequences.
        path: of the CSV file; it holds the old content or the whole new one, whatever happens.
        dt: sampling step, in steps of training.
        advance: called with the number of sequences that were predicted.

    Raises:
        ValueError: if a sequence does not fit the model; the message names it.
    """
    check_step(dt)
    total = 0
    with replacing(path) as file:
        file.write(_lines([_header(model)]))
        for group in _groups(model, recordings, dt):
            file.write(_lines(_rows(model, group, dt)))
            total += len(group)
            advance(len(group))
        if not total:
            raise ValueError("there is no sequence to predict")
    return total


def _groups(model: TrainedModel, recordings: Iterable[Recording], dt: float) -> Iterator[list[Recording]]:
    most = _BATCHES * model.preprocessing.batch_size
    group: list[Recording] = []
    longest = 0
    for recording in recordings:
        _check(model, recording, dt)
        longest = max(longest, recording.x.shape[1])
        if group and (len(group) == most or (len(group) + 1) * recording.x.shape[0] * longest > _VALUES):
            yield group
            group, longest = [], recording.x.shape[1]
        group.append(recording)
    if group:
        yield group


def _check(model: TrainedModel, recording: Recording, dt: float) -> None:
    """Every sequence by itself, so that the message can name it."""
    trained = model.preprocessing
    if recording.x.shape[0] != raw_channels(trained):
        expected = describe_channels(trained)
        raise ValueError(f"sequence {recording.name} must have {expected}, got {recording.x.shape[0]}")
    if recording.times is None or trained.stamped:
        return
    steps = np.diff(recording.times)
    if not len(steps):
        return
    if not (steps[0] > 0 and np.ptp(steps) <= _GRID * steps[0]):
        raise ValueError(
            f"sequence {recording.name} was measured at irregular times, and the model was trained on a regular grid "
            "without time stamps; resample the sequence, or train with time stamps"
        )
    if trained.time_step is None:
        return
    ratio = float(np.median(steps)) / trained.time_step
    if abs(ratio - dt) > _RATE * dt:
        raise ValueError(
            f"sequence {recording.name} has a sample every {np.median(steps):g}, the model was trained on one every "
            f"{trained.time_step:g}; give --dt {ratio:g}"
        )


def _rows(model: TrainedModel, group: Sequence[Recording], dt: float) -> Iterator[list[Any]]:
    lengths = np.array([recording.x.shape[1] for recording in group])
    kind = np.result_type(*{recording.x.dtype for recording in group})
    x = np.zeros((len(group), group[0].x.shape[0], lengths.max()), dtype=kind)
    for row, recording in zip(x, group, strict=True):
        row[:, : recording.x.shape[1]] = recording.x
    times = _stamps(group, x.shape[2]) if model.preprocessing.stamped else None
    try:
        answers, chances = model.answer(x, times, lengths, dt)
    except ValueError as error:
        first, last = group[0].name, group[-1].name
        where = f"sequence {first}" if len(group) == 1 else f"sequences {first} ... {last}"
        raise ValueError(f"{where}: {error}") from None
    for number, recording in enumerate(group):
        chance = None if chances is None else chances[number]
        for line in _lines_of(model, answers[number], chance):
            yield [recording.name, *line]


def _lines_of(model: TrainedModel, answer: NDArray[Any], chances: NDArray[Any] | None) -> Iterator[list[Any]]:
    """What comes after the name of a sequence, in one line or several."""
    names, task = model.classes, model.task
    if task.ahead:  # (C, ahead)
        yield from ([step, *map(_text, values)] for step, values in enumerate(answer.T.tolist(), 1))
    elif not task.every_step:
        yield [*_words(model, answer), *map(_text, [] if chances is None else chances.tolist())]
    elif chances is None:  # values (O, T)
        for step in np.flatnonzero(~np.isnan(answer[0])).tolist():
            yield [step, *map(_text, answer[:, step].tolist())]
    else:
        for step in np.flatnonzero(answer >= 0).tolist():
            yield [step, names[answer[step]], *map(_text, chances[:, step].tolist())]


def _words(model: TrainedModel, answer: NDArray[Any]) -> list[str]:
    """The one prediction for a sequence: a class, all labels that it has, or values."""
    names = model.classes
    if model.task.many_labels:
        return ["|".join(name for name, there in zip(names, answer.tolist(), strict=True) if there)]
    return [names[answer]] if names else [_text(value) for value in answer.tolist()]


def _stamps(group: Sequence[Recording], width: int) -> NDArray[np.float64] | None:
    """Stamps of all; after the end of a sequence its last one."""
    if any(recording.times is None for recording in group):
        return None  # the model says that it needs them
    stamps = [recording.times for recording in group if recording.times is not None]
    return np.stack([np.concatenate([times, np.full(width - len(times), times[-1])]) for times in stamps])


def _header(model: TrainedModel) -> list[str]:
    step = ["step"] if model.task.every_step else []
    if names := model.classes:
        return ["sequence", *step, "prediction", *(f"p({name})" for name in names)]
    trained = model.preprocessing
    if model.task.ahead:
        return ["sequence", "ahead", *(trained.channel_names or (f"channel {n}" for n in range(trained.channels)))]
    outputs = trained.out_channels
    values = ["prediction"] if outputs == 1 else [f"prediction {number}" for number in range(outputs)]
    return ["sequence", *step, *values]


def _text(value: float) -> str:
    return f"{value:.9g}"  # nine digits give a float32 back to the last bit


def _lines(rows: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
