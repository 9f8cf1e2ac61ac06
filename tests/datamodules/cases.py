"""One small instance of every benchmark, on files that the tests write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ckcnn import datamodules
from ckcnn.datamodules import SequenceDataModule
from tests.datamodules import official


def _write_nothing(root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)


def _write_arrays(root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    np.savez(root / "mine.npz", **official.user_arrays())


# name: class, writer of its files, options
CASES: dict[str, tuple[str, Callable[[Path], None], dict[str, Any]]] = {
    "adding": ("AddingProblem", _write_nothing, {"length": 50}),
    "copy": ("CopyMemory", _write_nothing, {"length": 30}),
    "smnist": ("SequentialMNIST", official.write_mnist, {}),
    "pmnist": ("SequentialMNIST", official.write_mnist, {"permuted": True}),
    "cifar10": ("SequentialCIFAR10", official.write_cifar, {}),
    "trajectories": ("CharacterTrajectories", official.write_trajectories, {}),
    "speech_raw": ("SpeechCommands", official.write_speech, {}),
    "speech_mfcc": ("SpeechCommands", official.write_speech, {"mfcc": True}),
    "physionet": ("PhysioNet", official.write_sepsis, {}),
    "ptb": ("PennTreebank", official.write_ptb, {"window": 40, "history": 8}),
    "digits": ("Digits", _write_nothing, {}),
    "uea": ("UEA", _write_nothing, {"name": "JapaneseVowels"}),
    "arrays": ("Arrays", _write_arrays, {"path": "mine.npz"}),
}


def make(case: str, root: Path, **options: Any) -> SequenceDataModule:
    """The benchmark of a case, on files below `root`."""
    name, _, own = CASES[case]
    own = {**own, "path": root / own["path"]} if "path" in own else own
    return getattr(datamodules, name)(**{"root": root, "batch_size": 16, **own, **options})


def ready(case: str, root: Path, **options: Any) -> SequenceDataModule:
    """The same, prepared and set up."""
    module = make(case, root, **options)
    module.prepare_data()
    module.setup()
    return module
