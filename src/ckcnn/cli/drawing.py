"""Pictures of a few sequences of a benchmark: one row for each, one column for each sampling rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from ckcnn.datamodules import SequenceDataModule
from ckcnn.datamodules.datasets import SequenceDataset, WindowDataset
from ckcnn.tasks import TASKS

_LINES = 6  # more channels than this are drawn as an image
_DOTS = 400  # longer sequences are drawn without a dot for each sample
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # distinguishable for the colour-blind
_GREY = "#b8b8b8"


def draw(modules: Sequence[SequenceDataModule], path: Path, samples: int) -> None:
    """Draw training sequences.

    Args:
        modules: the same benchmark, set up, once for each sampling rate.
        path: of the image.
        samples: how many sequences.
    """
    first = modules[0]
    dataset = first.dataset("train")
    if isinstance(dataset, WindowDataset):
        figure = _text(first, dataset, samples)
    else:
        chosen = _choose(dataset, samples)
        width, height = (6.0 if len(modules) > 1 else 9.0) * len(modules), 1.7 * len(chosen) + 0.9
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(len(chosen), len(modules), squeeze=False, sharex=True)
        for column, module in enumerate(modules):
            _column(list(axes[:, column]), module, chosen)
    figure.suptitle(type(first).__name__ + _legend(first))
    try:
        figure.savefig(path, dpi=120)
    except ValueError as error:  # an ending that names no image format
        raise ValueError(f"cannot draw {path}: {error}") from error


def _legend(module: SequenceDataModule) -> str:
    dropped = f", {module.drop_rate:.0%} of the steps dropped" if module.drop_rate else ""
    if module.channels > _LINES:
        return dropped + (" (grey: not observed)" if module.gaps or dropped else "")
    return dropped + (" (hollow dots)" if dropped else "")


def _choose(dataset: SequenceDataset, samples: int) -> Tensor:
    """The first sequences in the file, of as many different classes as there are."""
    labels = dataset.store.labels(dataset.index)
    if labels.dim() > 1:
        return dataset.index[:samples]
    _, first = np.unique(labels.numpy(), return_index=True)
    others = np.setdiff1d(np.arange(len(labels)), first)
    return dataset.index[np.concatenate([first, others])[:samples]]


def _column(axes: Sequence[Axes], module: SequenceDataModule, chosen: Tensor) -> None:
    """The chosen sequences at one sampling rate, as the model gets them but for the mask."""
    dataset = module.dataset("train")
    if not isinstance(dataset, SequenceDataset):
        raise TypeError("text has no sampling rate")
    rows = dataset.store.rows(chosen)
    pipeline = replace(dataset.pipeline, missing=None)
    whole = pipeline(rows._replace(kept=None))
    shown = torch.ones_like(whole.x, dtype=torch.bool)
    _, observed = pipeline.observe(rows)
    if observed is not None:
        observed = observed if pipeline.order is None else observed[..., pipeline.order]
        shown = observed[..., :: pipeline.stride].expand_as(whole.x)
    for axis, x, seen, y in zip(axes, whole.x, shown, whole.y, strict=True):
        _signal(axis, x, seen, pipeline.stride)
        axis.set_title(_target(axis, module, y, pipeline.stride), loc="left", fontsize=9)
    rate = f", every {pipeline.stride}th sample" if pipeline.stride > 1 else ""
    axes[-1].set_xlabel(f"step{rate}")


def _signal(axis: Axes, x: Tensor, seen: Tensor, stride: int) -> None:
    steps = np.arange(x.shape[-1]) * stride
    if len(x) > _LINES:
        image = np.where(seen, x, np.nan)
        axis.set_facecolor(_GREY)
        edges = (steps[0] - stride / 2, steps[-1] + stride / 2, len(x) - 0.5, -0.5)
        axis.imshow(image, aspect="auto", extent=edges, cmap="RdBu_r", vmin=-3, vmax=3, interpolation="nearest")
        axis.set_ylabel("channel")
        return
    every = bool(seen.all())
    size = 4.0 if len(steps) <= _DOTS else 1.5
    for channel, kept, colour in zip(x, seen, _COLOURS, strict=False):
        axis.plot(steps, channel, color=colour, linewidth=0.8, alpha=0.9 if every else 0.3)
        if stride > 1 or not every:
            axis.plot(steps[kept], channel[kept], ".", color=colour, markersize=size)
            axis.plot(steps[~kept], channel[~kept], "o", color=colour, mfc="white", mew=0.6, markersize=size / 1.4)
    axis.spines[["top", "right"]].set_visible(False)
    axis.margins(x=0.01)


def _target(axis: Axes, module: SequenceDataModule, y: Tensor, stride: int) -> str:
    """What is to be predicted, in words; a target at every step is drawn."""
    task = TASKS[module.task]
    if task.every_step:
        for values in y.reshape(-1, y.shape[-1]):
            axis.plot(np.arange(len(values)) * stride, values, color="black", linewidth=0.8, linestyle=":")
        axis.lines[-1].set_label("target")
        axis.legend(loc="upper center", fontsize=8, frameon=False)
        return ""
    if task.ahead:
        return ""
    if task.many_labels:
        names = module.classes or [str(number) for number in range(len(y))]
        return "label " + ", ".join(name for name, there in zip(names, y.tolist(), strict=True) if there)
    if task.target == "value":
        return "target " + ", ".join(f"{value:.3f}" for value in y.tolist())
    label = int(y)
    return module.classes[label] if module.classes else f"class {label}"


def _text(module: SequenceDataModule, dataset: WindowDataset, samples: int) -> Figure:
    """Windows of text; the characters that only give context are grey."""
    figure = Figure(figsize=(11, 0.95 * samples + 0.5), layout="constrained")
    for axis, tokens in zip(figure.subplots(samples, 1, squeeze=False)[:, 0], dataset[0].x, strict=False):
        characters = "".join(module.vocabulary[token] for token in tokens.tolist())
        context = " " * module.history + characters[module.history :]
        for text, colour in ((characters, _GREY), (context, "black")):
            lines = "\n".join(text[start : start + 120] for start in range(0, len(text), 120))
            axis.text(0, 1, lines, va="top", family="monospace", fontsize=10, color=colour, parse_math=False)
        axis.axis("off")
    return figure
