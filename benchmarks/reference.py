"""The authors' convolution beside ours: how fast it is, and how their weights score with either at other rates.

``python -m benchmarks.reference speed``, and ``python -m benchmarks.reference rates ../shared`` for a folder that holds
``data`` and ``reference_weights``.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ckcnn.datamodules import CharacterTrajectories, SequenceDataModule
from ckcnn.models.ckcnn import CKCNN
from ckcnn.nn import CKConv, keep_memory
from ckcnn.reference.convolution import ReferenceConv
from ckcnn.reference.importing import import_weights
from ckcnn.reference.model import ReferenceCKCNN

_KINDS = ("theirs", "ours", "ours, keeping the newest sample")
_OMEGA_0 = 21.44961185481323  # of both files, from the authors' published commands


def speed() -> None:
    """Print the median ratio of forward and backward passes that take turns, and its quartiles."""
    keep_memory()
    torch.manual_seed(0)
    for length, rounds in ((784, 25), (161, 80), (91, 80)):
        layers = [kind(30, 30, length) for kind in (CKConv, ReferenceConv)]
        x = torch.randn(64, 30, length, requires_grad=True)
        pairs = [(_seconds(layers[0], x), _seconds(layers[1], x)) for _ in range(rounds + 3)][3:]  # three to warm up
        low, middle, high = statistics.quantiles([theirs / ours for ours, theirs in pairs], n=4)
        ours = statistics.median(ours for ours, _ in pairs)
        print(f"{length} samples: ours {1e3 * ours:.1f} ms, theirs {middle:.2f} times that ({low:.2f} ... {high:.2f})")


def _seconds(layer: CKConv, x: torch.Tensor) -> float:
    start = time.perf_counter()
    layer(x).sum().backward()
    return time.perf_counter() - start


def rates(shared: Path) -> None:
    """Print the accuracy on all recordings and on the test split, with the authors' grid and with ours.

    The third value is ours where samples are counted back from the last one, so that the newest is kept; the others
    are on every n-th sample from the first one on, as in the paper, the last of which is up to n - 1 samples old.
    """
    torch.set_num_threads(1)  # the machine may be busy, and threads would wait for each other
    with tempfile.TemporaryDirectory() as cache:
        for name, trained in (("ct.pt", 1), ("ct_half_rate.pt", 2)):
            for rate in (1, 2, 4, 8, 16):
                options = {"train_dt": trained, "test_dt": rate, "cache": cache, "root": shared / "data"}
                path = shared / "reference_weights" / name
                scores = [_score(ReferenceCKCNN, path, options), _score(CKCNN, path, options)]
                scores.append(_score(CKCNN, path, {**options, "keep": "last"}))
                figures = [f"{kind} {a:.2f} ({b:.2f})" for kind, (a, b) in zip(_KINDS, scores, strict=True)]
                print(f"{name} at 1/{rate}: {', '.join(figures)}")


def _score(kind: type[CKCNN], path: Path, options: dict[str, Any]) -> tuple[float, float]:
    data = CharacterTrajectories(standardise="step", batch_size=256, **options)
    data.prepare_data()
    data.setup()
    in_test = np.isin(np.arange(2858), data.splits["test"])
    data.splits["test"] = np.arange(2858)
    found = recognised(published_network(kind, path, _OMEGA_0, data), data).numpy()
    return 100 * found.mean(), 100 * found[in_test].mean()


def published_network(kind: type[CKCNN], path: Path, omega_0: float, data: SequenceDataModule) -> nn.Module:
    """The authors' weights in their convolution or in ours."""
    checkpoint = import_weights(path, omega_0, in_channels=data.in_channels, horizon=data.horizon, dt=data.dt)
    model = kind(**checkpoint["hyper_parameters"])
    model.load_state_dict(checkpoint["state_dict"])
    return model.net.eval()


@torch.no_grad()
def recognised(net: nn.Module, data: SequenceDataModule) -> Tensor:
    """Of every test recording, whether the answer is right."""
    dt = data.dt["test"]
    return torch.cat([net(batch.x, dt=dt).argmax(1) == batch.y for batch in data.test_dataloader()])


if __name__ == "__main__":
    if sys.argv[1:] == ["speed"]:
        speed()
    elif len(sys.argv) == 3 and sys.argv[1] == "rates":
        rates(Path(sys.argv[2]))
    else:
        sys.exit("usage: python -m benchmarks.reference speed | rates ../shared")
