"""Our networks beside the authors' on CharacterTrajectories without 30 % of the samples, other ones than in training.

``python -m benchmarks.dropped ../shared RUN_FOLDER ...`` for a folder that holds ``data`` and ``reference_weights``,
and runs of ``character_trajectories.yaml`` with ``--data.drop_rate 0.3``. Each network, theirs and ours, was trained on
70 % of the recordings. Which ones is not known of theirs, so all recordings are what both can be compared on.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.reference import published_network, recognised
from ckcnn import results
from ckcnn.reference import ReferenceCKCNN
from datamodules import CharacterTrajectories, SequenceDataModule

FILE, OMEGA_0 = "ct_drop30.pt", 17.243982444546685  # the latter from the authors' published command
SEEDS = range(10, 15)  # none of them was trained with


def dropped_anew(seed: int, **places: Any) -> SequenceDataModule:
    """All recordings as the test split."""
    data = CharacterTrajectories(standardise="step", drop_rate=0.3, seed=seed, batch_size=256, **places)
    data.prepare_data()
    data.setup()
    data.splits["test"] = np.sort(np.concatenate(list(data.splits.values())))
    return data


def main() -> None:
    """Prints the mean accuracy of every network and its spread over the seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path)
    parser.add_argument("folders", nargs="+", type=Path, help="of one run each")
    options = parser.parse_args()
    torch.set_num_threads(1)  # the machine may be busy, and threads would wait for each other
    with tempfile.TemporaryDirectory() as cache:
        sets = [dropped_anew(seed, root=options.shared / "data", cache=cache) for seed in SEEDS]
        path = options.shared / "reference_weights" / FILE
        networks = {FILE: published_network(ReferenceCKCNN, path, OMEGA_0, sets[0])}
        for folder in options.folders:
            (run,) = results.load(folder).runs
            networks[folder.name] = run.network()
        for name, net in networks.items():
            figures = [100 * recognised(net, data).double().mean().item() for data in sets]
            print(f"{statistics.mean(figures):.2f} +- {statistics.stdev(figures):.2f} % {name}", flush=True)


if __name__ == "__main__":
    main()
