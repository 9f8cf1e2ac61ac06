"""What training through ``ckcnn fit`` costs beside a bare loop: ``python -m benchmarks.tax``.

Both train the same network on the same loader in one process, taking turns epoch by epoch, so that a noisy machine
disturbs both alike. An epoch of `ckcnn fit` counts from its first batch to its last, with everything that happens at a
step; validation and checkpoints, which a bare loop would need as well, are not counted.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from torch.nn.functional import cross_entropy

from ckcnn.cli.lightning_cli import CKCNNCLI
from ckcnn.cli.quiet import make_quiet
from ckcnn.nn import keep_memory

# name: channels, steps, classes, batch, batches in an epoch, epochs
CASES = {"CT": (3, 182, 20, 32, 63, 16), "pMNIST 100k": (1, 784, 10, 64, 20, 9)}


class TakeTurns(Callback):
    """After every epoch of the trainer, one of a bare loop with its own network."""

    def __init__(self) -> None:
        self.started, self.tax = 0.0, [0.0]
        self.bare: list[float] = []
        self.through: list[float] = []

    def on_train_epoch_start(self, trainer: Trainer, module: LightningModule) -> None:
        self.started = time.perf_counter()

    def on_validation_start(self, trainer: Trainer, module: LightningModule) -> None:
        """The last step is over."""
        self.through.append(time.perf_counter() - self.started)
        if not hasattr(self, "net"):
            self.net = type(module)(**module.hparams).net
            self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-3, fused=True)
        self.bare.append(self._bare_epoch(trainer))

    def _bare_epoch(self, trainer: Trainer) -> float:
        with torch.inference_mode(False), torch.enable_grad():
            start = time.perf_counter()
            for batch in trainer.datamodule.train_dataloader():  # type: ignore[attr-defined]
                self.optimizer.zero_grad()
                cross_entropy(self.net(batch.x), batch.y).backward()
                self.optimizer.step()
            return time.perf_counter() - start


def measure(case: str, folder: Path) -> TakeTurns:
    """Train one case."""
    channels, steps, classes, size, batches, epochs = CASES[case]
    count = size * batches
    path = folder / f"{channels}x{steps}.npz"
    x = np.random.default_rng(0).normal(size=(count + 2 * size, channels, steps)).astype(np.float32)
    split = np.array(["train"] * count + ["val"] * size + ["test"] * size)
    np.savez(path, x=x, y=np.arange(len(x)) % classes, split=split)
    options: dict[str, Any] = {
        "data": "Arrays",
        "data.path": path,
        "data.batch_size": size,
        "data.cache": folder / "cache",
        "trainer.max_epochs": epochs,
        "trainer.accelerator": "cpu",
        "runs": folder / "runs",
    }
    cli = CKCNNCLI("fit", [f"--{name}={value}" for name, value in options.items()])
    turns = TakeTurns()
    cli.trainer.callbacks.insert(0, turns)
    cli.execute()
    return turns


def main() -> None:
    """Print one line for each case."""
    keep_memory()
    make_quiet()
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            turns = measure(case, Path(folder))
            pairs = list(zip(turns.bare, turns.through, strict=True))[1:]  # the first epoch warms up
            ratio = statistics.median(bare / through for bare, through in pairs)
            steps = CASES[case][4]
            bare = 1e3 * statistics.median(bare for bare, _ in pairs) / steps
            print(f"{case}: {100 * ratio:.1f} % of the steps per second of a bare loop ({bare:.1f} ms a step)")


if __name__ == "__main__":
    main()
