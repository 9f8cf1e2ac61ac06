"""Draws learning curves and kernels of a run: ``python notebooks/look_at_a_run.py runs/digits/version_0``."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import torch

import ckcnn
from ckcnn import checkpoints
from ckcnn.metrics_table import read
from ckcnn.nn import CKConv
from ckcnn.runs import RunFolder


def main(folder: str, output: str = "run.png") -> None:
    """Writes a picture with one row for the metrics and one for a few kernels of each layer."""
    run = RunFolder(Path(folder))
    content = checkpoints.load(run.checkpoint("best"))
    model = getattr(ckcnn, content["model_class"])(**content["hyper_parameters"])
    model.load_state_dict(content["state_dict"])
    layers = [module for module in model.modules() if isinstance(module, CKConv)]
    figure, axes = plt.subplots(2, max(4, len(layers)), figsize=(14, 6), layout="constrained", squeeze=False)
    rows = read(run.metrics)
    for axis, name in zip(axes[0], [name for name in rows[0] if "/" in name], strict=False):
        axis.plot([int(row["epoch"]) for row in rows], [float(row[name]) for row in rows])
        axis.set(title=name, xlabel="epoch")
    for axis, (number, layer) in zip(axes[1], enumerate(layers, 1), strict=False):
        kernel = layer.kernel(layer.horizon).detach().flatten(0, 1)[:5]  # the first five of out x in
        axis.plot(torch.arange(layer.horizon), kernel.T)
        axis.set(title=f"kernels of layer {number}", xlabel="lag")
    figure.savefig(output, dpi=100)
    print(f"drawn to {output}")


if __name__ == "__main__":
    main(*sys.argv[1:])
