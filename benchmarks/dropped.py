"""Our networks beside the authors' on CharacterTrajectories without 30 % of the samples, other ones than in training.

``python -m benchmarks.dropped ../shared RUN_FOLDER ...`` for a folder that holds ``data`` and ``reference_weights``,
and runs of ``character_trajectories.yaml`` with ``--data.drop_rate 0.3``. Each network, theirs and ours, was trained on
70 % of the recordings. Which ones is not known of theirs, so all recordings are what both can be compared on.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.reference import published_network, recognised
from ckcnn import results
from ckcnn.datamodules import CharacterTrajectories, SequenceDataModule
from ckcnn.reference.model import ReferenceCKCNN

FILE, OMEGA_0 = "ct_drop30.pt", 17.243982444546685  # the latter from the authors' published command
SEEDS = range(10, 15)  # none of them was trained with


def dropped_anew(seed: int, **places: Any) -> SequenceDataModule:
    """All recordings as the test split."""
    data = _recordings(seed, **places)
    data.splits["test"] = np.sort(np.concatenate(list(data.splits.values())))
    return data


def _recordings(seed: int, **places: Any) -> SequenceDataModule:
    data = CharacterTrajectories(standardise="step", drop_rate=0.3, seed=seed, batch_size=256, **places)
    data.prepare_data()
    data.setup()
    return data


def _mean(right: Tensor) -> str:
    """Of ``(seeds, recordings)``."""
    figures = 100 * right.double().mean(1)
    return f"{figures.mean():.2f} +- {figures.std():.2f} %"


def main() -> None:
    """Print mean and spread over the seeds for each network, ours also by whether it was trained on a recording."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path)
    parser.add_argument("folders", nargs="+", type=Path, help="of one run each")
    options = parser.parse_args()
    torch.set_num_threads(1)  # the machine may be busy, and threads would wait for each other
    with tempfile.TemporaryDirectory() as cache:
        places = {"root": options.shared / "data", "cache": cache}
        sets = [dropped_anew(seed, **places) for seed in SEEDS]
        net = published_network(ReferenceCKCNN, options.shared / "reference_weights" / FILE, OMEGA_0, sets[0])
        print(f"{FILE}: {_mean(torch.stack([recognised(net, data) for data in sets]))}", flush=True)
        for folder in options.folders:
            (run,) = results.load(folder).runs
            net = run.network()
            right = torch.stack([recognised(net, data) for data in sets])
            seen = torch.zeros(right.shape[1], dtype=torch.bool)
            seen[_recordings(run.setting("data.seed", 0), **places).splits["train"]] = True
            parts = f"trained on: {_mean(right[:, seen])}, others: {_mean(right[:, ~seen])}"
            print(f"{folder.name}: {_mean(right)}; {parts}", flush=True)


if __name__ == "__main__":
    main()
