"""Every benchmark of the paper as a LightningDataModule; batches are `SequenceBatch`, ``(batch, channels, time)``."""

from ckcnn.datamodules.arrays import Arrays
from ckcnn.datamodules.base import SequenceDataModule
from ckcnn.datamodules.character_trajectories import CharacterTrajectories
from ckcnn.datamodules.cifar10 import SequentialCIFAR10
from ckcnn.datamodules.digits import Digits
from ckcnn.datamodules.mnist import SequentialMNIST
from ckcnn.datamodules.penn_treebank import PennTreebank
from ckcnn.datamodules.physionet import PhysioNet
from ckcnn.datamodules.sequences import DataError, RawSequences, SequenceBatch
from ckcnn.datamodules.series import Series, SktimeSeries
from ckcnn.datamodules.speech_commands import SpeechCommands
from ckcnn.datamodules.synthetic import AddingProblem, CopyMemory
from ckcnn.datamodules.uea import UEA

__all__ = [
    "UEA",
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
    "Series",
    "SktimeSeries",
    "SpeechCommands",
]
