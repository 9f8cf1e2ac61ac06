"""Draws the pictures of ``resampling.md`` and ``family.md``: ``python docs/pictures.py [FOLDER]``.

All of them show what the data modules and the layer really do; only the signals are made up.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ckcnn.datamodules import RawSequences, SequenceBatch, SequenceDataModule
from ckcnn.files import replacing
from ckcnn.nn import CKConv, DepthwiseCKConv, MAGNet, MultiscaleSiren, PointKernel, Siren
from ckcnn.nn.positions import cell_widths, newest_widths

BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "#b0b0b0"  # distinguishable for the colour-blind
STEPS = 30


class Waves(SequenceDataModule):
    """Slow waves of different lengths that drift upwards and become louder."""

    task = "classification"
    channels, length, out_channels = 1, STEPS, 2

    def load(self) -> Iterator[RawSequences]:
        t, phase = np.arange(STEPS), np.linspace(0, 3, 40)[:, None]
        x = 3 + t / 10 + (0.5 + t / STEPS) * np.sin(t / 3 + phase) + 0.3 * np.sin(t / 1.7 - 2 * phase)
        yield RawSequences(x[:, None], np.arange(40) % 2, lengths=np.linspace(16, STEPS, 40).astype(np.int64))


class Long(Waves):
    """The same, all of them whole."""

    def load(self) -> Iterator[RawSequences]:
        for chunk in super().load():
            yield RawSequences(chunk.x, chunk.y)


def first_batch(kind: type[SequenceDataModule], **options: Any) -> SequenceBatch:
    """The first test batch that a model would get."""
    with tempfile.TemporaryDirectory() as cache:
        data = kind(cache=cache, **{"standardise": "none", **options})
        data.prepare_data()
        data.setup()
        return next(iter(data.test_dataloader()))


def canvas(rows: int, columns: int, height: float, **options: Any) -> tuple[Figure, np.ndarray]:
    """Panels without a frame above and to the right."""
    figure = Figure(figsize=(7.6, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
        axis.margins(x=0.03)
    return figure, axes


def title(axis: Axes, text: str) -> None:
    """What a panel shows, above it."""
    axis.set_title(text, loc="left", fontsize=9)


def rates() -> Figure:
    """Every n-th sample, counted from the first or from the last."""
    figure, axes = canvas(3, 1, 4.2, sharex=True, sharey=True)
    whole = first_batch(Long).x[0, 0]
    cases = {
        "test_dt 1: all samples": (1, "first", BLUE),
        "test_dt 4, keep first: counted from the first sample": (4, "first", ORANGE),
        "test_dt 4, keep last: counted back from the newest sample": (4, "last", GREEN),
    }
    for axis, (text, (step, keep, colour)) in zip(axes[:, 0], cases.items(), strict=True):
        x = first_batch(Long, test_dt=step, keep=keep).x[0, 0]
        start = (STEPS - 1) % step if keep == "last" else 0
        steps = start + step * np.arange(len(x))
        axis.plot(whole, color=GREY, linewidth=1)
        axis.plot(steps, x, "o", color=colour, markersize=4)
        axis.axvline(steps[-1], color=colour, linewidth=1, linestyle=":")
        axis.text(steps[-1] - 0.3, 0.1, "read here", transform=axis.get_xaxis_transform(), ha="right", fontsize=8)
        title(axis, text)
    axes[-1, 0].set_xlabel("time in samples at full rate", fontsize=9)
    return figure


def missing() -> Figure:
    """The three ways in which a batch tells that steps are missing."""
    figure, axes = canvas(2, 3, 3.6, gridspec_kw={"height_ratios": [3, 2]})
    whole = first_batch(Long, standardise="channel").x[0, 0]
    for column, name in enumerate(("mask", "times", "counts")):
        batch = first_batch(Long, missing=name, drop_rate=0.4, standardise="channel")
        above, below = axes[:, column]
        if name == "times":
            assert batch.times is not None
            above.plot(batch.x[0, 0], "o-", color=BLUE, markersize=4, linewidth=0.6)
            below.plot(batch.times[0], "o", color=ORANGE, markersize=3)
            below.set_ylabel("stamp", fontsize=8)
            text = "times: gone, with stamps"
        else:
            steps, (signal, told) = np.arange(STEPS), (0, 1) if name == "mask" else (1, 0)
            above.plot(steps, whole, color=GREY, linewidth=1)
            x, zero = batch.x[0, signal], batch.x[0, signal] == 0
            above.plot(steps[~zero], x[~zero], "o", color=BLUE, markersize=4)
            above.plot(steps[zero], x[zero], "o", color=BLUE, mfc="white", markersize=4)
            below.step(steps, batch.x[0, told], where="mid", color=ORANGE)
            below.set_ylabel("mask channel" if name == "mask" else "count channel", fontsize=8)
            text = "mask: zeros, and where" if name == "mask" else "counts: zeros, and how many"
        above.axhline(0, color=GREY, linewidth=0.6, linestyle=":")
        title(above, text)
        below.set_xlabel("step of the batch", fontsize=9)
    axes[1, 0].set_yticks([0, 1])
    axes[0, 0].set_ylabel("values", fontsize=8)
    return figure


def ends() -> Figure:
    """What comes after the end of shorter sequences, and the three ways to standardise."""
    figure, axes = canvas(2, 3, 4.2, sharex=True)
    for axis, pad in zip(axes[0], ("paper", "valid"), strict=False):
        batch = first_batch(Waves, pad=pad)
        lengths = first_batch(Waves, pad="valid").lengths
        assert lengths is not None
        for row, colour in zip((0, 5), (BLUE, ORANGE), strict=True):
            x, end = batch.x[row, 0], int(lengths[row])
            axis.plot(x, color=colour, linewidth=0.8, linestyle=":")
            axis.plot(x[:end], color=colour)
            read = STEPS - 1 if pad == "paper" else end - 1
            axis.plot(read, x[read], "o", color=colour, markersize=5)
        title(axis, f"pad {pad}: " + ("last value repeated" if pad == "paper" else "zeros, with lengths"))
    axes[0, 2].axis("off")
    note = "solid: the recording\ndotted: padding\ndot: the step that\nis read"
    axes[0, 2].text(0.05, 0.5, note, va="center", fontsize=9)
    for axis, how in zip(axes[1], ("none", "channel", "step"), strict=True):
        axis.plot(first_batch(Long, standardise=how).x[:, 0].T, color=BLUE, linewidth=0.7, alpha=0.8)
        title(axis, f"standardise {how}")
        axis.set_xlabel("step", fontsize=9)
    return figure


def kernel() -> Figure:
    """One kernel, read at the lags of three grids."""
    torch.manual_seed(2)
    layer = CKConv(1, 1, STEPS, kernel=partial(Siren, omega_0=12.0))
    figure, axes = canvas(1, 3, 2.6, sharey=True)
    with torch.no_grad():
        lags = torch.linspace(0, STEPS - 1, 600, dtype=torch.float64)
        curve = layer.kernel_net(layer.memory.coordinates(lags).float())[0]
        for axis, dt, colour in zip(axes[0], (1.0, 2.5, 0.5), (BLUE, ORANGE, GREEN), strict=True):
            values = layer.kernel(int((STEPS - 1) / dt) + 1, dt)[0, 0] / dt
            axis.plot(lags, curve, color=GREY, linewidth=1.2)
            axis.plot(dt * np.arange(len(values)), values, "o", color=colour, markersize=3.2 if dt >= 1 else 2.2)
            title(axis, f"dt {dt:g}: weight {dt:g}" + (", smoothed" if dt < 1 else ""))
            axis.set_xlabel("lag in training samples", fontsize=9)
    axes[0, 0].set_ylabel("kernel", fontsize=9)
    return figure


def cells() -> Figure:
    """The time that each sample represents, before and after the next one is known."""
    figure, axes = canvas(2, 1, 3.8, sharex=True, sharey=True)
    stamps = torch.tensor([[0.0, 1, 2, 3, 6, 8, 8.6, 9.2, 9.8, 13, 17, 18]])
    moment = np.linspace(-1, 20, 300)
    for axis, known in zip(axes[:, 0], (10, 12), strict=True):
        times = stamps[:, :known]
        widths = cell_widths(times)[0]
        widths[-1] = newest_widths(times)[0, -1]  # as the layer has it
        t, heights = times[0].numpy(), np.sin(times[0].numpy() / 3) + 2
        left = t - np.diff(t, prepend=t[0] - (t[1] - t[0])) / 2
        axis.plot(moment, np.sin(moment / 3) + 2, color=GREY, linewidth=1)
        colours = np.where(np.arange(known) == known - 1, ORANGE, BLUE)
        axis.bar(left, heights, widths, align="edge", color=colours, alpha=0.35, edgecolor="white", linewidth=1)
        axis.scatter(t, heights, color=colours, s=18, zorder=3)
        title(axis, f"what the output at time {t[-1]:g} sees: the newest sample represents {widths[-1]:g}")
        axis.set(ylim=(0, 3.4), xticks=range(0, 21, 2))
    axes[-1, 0].set_xlabel("time in training samples", fontsize=9)
    return figure


def family() -> Figure:
    """Two kernels of each network at the start, for a memory of 256 samples, with their windows."""
    length = 256
    cases = {
        "CKConv: sines, omega_0 30": {"kernel": partial(Siren, omega_0=30.0)},
        "FlexConv: MAGNet, one window": {"kernel": partial(MAGNet, omega_0=2.0372), "window": "layer"},
        "CCNN: omega_0 2976, aliased": {"kernel": partial(MAGNet, omega_0=2976.0), "window": "layer"},
        "ccnn.yaml: within the band": {"kernel": partial(MAGNet, horizon=length), "window": "layer"},
        "SMPConv: moving points": {"kernel": partial(PointKernel, radius=0.012)},
        "separable.yaml: a window a channel": {
            "kernel": partial(MultiscaleSiren, horizon=length),
            "window": "channel",
        },
    }
    figure, axes = canvas(3, 2, 4.6, sharex=True)
    with torch.no_grad():
        for axis, (name, options) in zip(axes.flat, cases.items(), strict=True):
            torch.manual_seed(3)
            layer = DepthwiseCKConv(9, length, **options)
            kernels = layer.kernel(length)
            for channel, colour in ((8, BLUE), (5, ORANGE)):
                axis.plot(kernels[channel], color=colour, linewidth=0.9)
            title(axis, name)
    for axis in axes[-1]:
        axis.set_xlabel("lag in training samples", fontsize=9)
    return figure


PICTURES = {"rates": rates, "missing": missing, "ends": ends, "kernel": kernel, "cells": cells, "family": family}


def main(folder: str = str(Path(__file__).parent / "pictures")) -> None:
    """Draw all pictures into a folder."""
    for name, draw in PICTURES.items():
        with replacing(Path(folder) / f"{name}.png") as file:
            draw().savefig(file, dpi=140, format="png")


if __name__ == "__main__":
    main(*sys.argv[1:])
