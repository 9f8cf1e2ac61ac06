"""Every benchmark of the paper as a LightningDataModule; batches are `SequenceBatch`, ``(batch, channels, time)``."""

from datamodules.arrays import Arrays
from datamodules.base import SequenceDataModule
from datamodules.character_trajectories import CharacterTrajectories
from datamodules.cifar10 import SequentialCIFAR10
from datamodules.digits import Digits
from datamodules.mnist import SequentialMNIST
from datamodules.penn_treebank import PennTreebank
from datamodules.physionet import PhysioNet
from datamodules.sequences import DataError, RawSequences, SequenceBatch
from datamodules.speech_commands import SpeechCommands
from datamodules.synthetic import AddingProblem, CopyMemory

__all__ = [
    "AddingProblem",
    "Arrays",
    "CharacterTrajectories",
    "CopyMemory",
    "DataError",
    "Digits",
    "PennTreebank",
    "PhysioNet",
    "RawSequences",
    "SequenceBatch",
    "SequenceDataModule",
    "SequentialCIFAR10",
    "SequentialMNIST",
    "SpeechCommands",
]
