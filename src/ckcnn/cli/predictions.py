"""What `ckcnn predict` writes: one line for each answer in a CSV file, or arrays in an NPZ file."""

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
from ckcnn.tasks import IGNORED


def write(path: Path, batches: Sequence[tuple[Tensor, Tensor]], labelled: bool = True) -> str:
    """Writes predictions and targets, and says so.

    An NPZ file holds the arrays ``predictions`` and ``targets``, filled up with -100 where sequences are shorter. A CSV
    file has the columns ``sequence``, ``step`` (or ``output``, if one value is predicted at a time), ``target`` and
    ``prediction``; steps whose target does not count are left out. Without labels there are no targets.
    """
    predictions, targets = (_stack([batch[part] for batch in batches]) for part in (0, 1))
    with replacing(path) as file:
        if path.suffix == ".npz":
            arrays: dict[str, Any] = {"predictions": predictions.numpy()}
            arrays |= {"targets": targets.numpy()} if labelled else {}
            np.savez_compressed(file, **arrays)
        else:
            file.write(_table(predictions, targets, labelled).encode())
    return f"predictions for {len(targets):,} sequences written to {path}"


def _stack(batches: list[Tensor]) -> Tensor:
    """One array of all batches, whose last axis may have different lengths."""
    longest = max(batch.shape[-1] for batch in batches) if batches[0].dim() > 1 else 0
    pad = torch.nn.functional.pad
    return torch.cat([pad(b, (0, longest - b.shape[-1]), value=IGNORED) if longest else b for b in batches]).cpu()


def _table(predictions: Tensor, targets: Tensor, labelled: bool) -> str:
    place = [] if targets.dim() == 1 else ["output" if targets.is_floating_point() else "step"]
    index = (targets != IGNORED).nonzero() if place else torch.arange(len(targets))[:, None]
    chosen = [part[tuple(index.T)].tolist() for part in ((targets, predictions) if labelled else (predictions,))]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["sequence", *place, *(["target"] if labelled else []), "prediction"])
    writer.writerows([*where, *values] for where, *values in zip(index.tolist(), *chosen, strict=True))
    return text.getvalue()
