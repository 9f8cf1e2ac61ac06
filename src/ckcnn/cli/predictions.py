"""What `ckcnn predict` writes: one line for each prediction in a CSV file, or arrays in an NPZ file."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ckcnn.files import replacing
from ckcnn.tasks import Task


def write(path: Path, batches: Sequence[tuple[Tensor, Tensor]], task: Task, labelled: bool = True) -> str:
    """Write predictions and targets, and say so.

    An NPZ file holds the arrays ``predictions`` and ``targets``, filled up with what does not count where sequences are
    shorter. A CSV file has a line for each number: the columns ``sequence``, those of `Task.axes`, such as ``step``,
    ``target`` and ``prediction``; what does not count is left out. Without labels there are no targets.
    """
    predictions, targets = (_stack([batch[part] for batch in batches], task) for part in (0, 1))
    with replacing(path) as file:
        if path.suffix == ".npz":
            arrays: dict[str, Any] = {"predictions": predictions.numpy()}
            arrays |= {"targets": targets.numpy()} if labelled else {}
            np.savez_compressed(file, **arrays)
        else:
            file.write(_table(predictions, targets, task, labelled).encode())
    return f"predictions for {len(targets):,} sequences written to {path}"


def _stack(batches: list[Tensor], task: Task) -> Tensor:
    """One array of all batches, whose last axis may have different lengths."""
    longest = max(batch.shape[-1] for batch in batches) if batches[0].dim() > 1 else 0
    pad = torch.nn.functional.pad
    return torch.cat([pad(b, (0, longest - b.shape[-1]), value=task.ignored) if longest else b for b in batches]).cpu()


def _table(predictions: Tensor, targets: Tensor, task: Task, labelled: bool) -> str:
    index = task.counted(targets).nonzero() if task.axes else torch.arange(len(targets))[:, None]
    chosen = [part[tuple(index.T)].tolist() for part in ((targets, predictions) if labelled else (predictions,))]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["sequence", *task.axes, *(["target"] if labelled else []), "prediction"])
    writer.writerows([*where, *values] for where, *values in zip(index.tolist(), *chosen, strict=True))
    return text.getvalue()
