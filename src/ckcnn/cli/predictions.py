"""What `ckcnn predict` writes: one line for each answer in a CSV file, or arrays in an NPZ file."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ckcnn.files import replacing
from ckcnn.tasks import IGNORED


def write(path: Path, batches: Sequence[tuple[Tensor, Tensor]]) -> str:
    """Writes predictions and targets, and says so.

    An NPZ file holds the arrays ``predictions`` and ``targets``, filled up with -100 where sequences are shorter. A CSV
    file has the columns ``sequence``, ``step`` (or ``output``, if one value is predicted at a time), ``target`` and
    ``prediction``; steps whose target does not count are left out.
    """
    predictions, targets = (_stack([batch[part] for batch in batches]) for part in (0, 1))
    with replacing(path) as file:
        if path.suffix == ".npz":
            np.savez_compressed(file, predictions=predictions.numpy(), targets=targets.numpy())
        else:
            file.write(_table(predictions, targets).encode())
    return f"predictions for {len(targets):,} sequences written to {path}"


def _stack(batches: list[Tensor]) -> Tensor:
    """One array of all batches, whose last axis may have different lengths."""
    longest = max(batch.shape[-1] for batch in batches) if batches[0].dim() > 1 else 0
    pad = torch.nn.functional.pad
    return torch.cat([pad(b, (0, longest - b.shape[-1]), value=IGNORED) if longest else b for b in batches]).cpu()


def _table(predictions: Tensor, targets: Tensor) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if targets.dim() == 1:
        writer.writerow(["sequence", "target", "prediction"])
        writer.writerows(zip(range(len(targets)), targets.tolist(), predictions.tolist(), strict=True))
        return text.getvalue()
    writer.writerow(["sequence", "output" if targets.is_floating_point() else "step", "target", "prediction"])
    index = (targets != IGNORED).nonzero()
    chosen = zip(index.tolist(), targets[tuple(index.T)].tolist(), predictions[tuple(index.T)].tolist(), strict=True)
    writer.writerows([*place, target, prediction] for place, target, prediction in chosen)
    return text.getvalue()
