"""Google Speech Commands 0.02: one-second recordings of words, raw or as MFCC, prepared as the authors did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch

from ckcnn.checks import check_choice
from ckcnn.datamodules.augmentation import RecordingAugmentation
from ckcnn.datamodules.base import SequenceDataModule
from ckcnn.datamodules.downloads import Download
from ckcnn.datamodules.features import CEPSTRA, INT16, cepstra
from ckcnn.datamodules.readers import read_wav
from ckcnn.datamodules.sequences import DataError, RawSequences

_FOLDER = "SpeechCommands/speech_commands_v0.02"
_URL = "http://download.tensorflow.org/data/speech_commands_v0.02.tar.gz"
_NOISE = "_background_noise_"
_CHUNK = 256

Augment = Literal["none", "shift", "shift_speed"]

# The paper's words, in the authors' order.
TEN_WORDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
OTHER_WORDS = (
    "backward",
    "bed",
    "bird",
    "cat",
    "dog",
    "eight",
    "five",
    "follow",
    "forward",
    "four",
    "happy",
    "house",
    "learn",
    "marvin",
    "nine",
    "one",
    "seven",
    "sheila",
    "six",
    "three",
    "tree",
    "two",
    "visual",
    "wow",
    "zero",
)


class SpeechCommands(SequenceDataModule):
    """Words of one second at 16 kHz; clips that are shorter are left out, as in the paper.

    The clips are split again, 70 / 15 / 15, as the authors did, not by the official lists.

    Args:
        mfcc: whether to give 20 cepstral coefficients at 161 steps instead of 16,000 samples.
        words: the classes, numbered in this order; the paper's ten by default. Mind that YAML wants quotes: ["yes"].
        partial: whether words whose folder is absent are left out, while the others keep their number.
        augment: what training does to a recording, anew in each epoch: ``"shift"`` moves it by up to a tenth of a
            second, ``"shift_speed"`` also plays it up to a tenth faster or slower; validation and test hear
            recordings as they are.
        shared: see `SequenceDataModule`.
    """

    task = "classification"
    rate: int = 16_000
    downloads = (  # address and checksum are written here because torchaudio keeps them in private names
        Download(
            (_URL,),
            "SpeechCommands/speech_commands_v0.02.tar.gz",
            "sha256:af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58",
            unpack_to=_FOLDER,
        ),
    )
    homepage = f"{_URL} (unpack it into {_FOLDER})"

    def __init__(
        self,
        mfcc: bool = False,
        words: Sequence[str] = TEN_WORDS,
        partial: bool = False,
        augment: Augment = "none",
        **shared: Any,
    ) -> None:
        for word in words:
            if isinstance(word, bool):
                raise ValueError('words: YAML takes yes, no, on and off for truth values, write "yes" with quotes')
            check_choice("words", word, (*TEN_WORDS, *OTHER_WORDS))
        if len(words) < 2 or len(set(words)) < len(words):
            raise ValueError(f"words must be at least two different ones, got {list(words)}")
        check_choice("augment", augment, get_args(Augment))
        self.augment = augment
        self.mfcc, self.classes, self.partial = mfcc, tuple(words), partial
        self.channels, self.length = (20, 161) if mfcc else (1, self.rate)
        self.features = CEPSTRA if mfcc else None
        self.channel_names = () if mfcc else ("sound",)
        self.unit = (1.0,) if mfcc else (INT16,)  # raw clips are stored as they come, with 16 bits
        self.out_channels = len(words)
        self.sizes = (24_482, 5_246, 5_247) if set(words) == set(TEN_WORDS) else None
        super().__init__(**shared)

    @property
    def files(self) -> Sequence[str]:  # type: ignore[override]
        """The folders of the words."""
        folders = [f"{_FOLDER}/{word}" for word in self.classes]
        return [name for name in folders if (self.root / name).exists()] or folders if self.partial else folders

    def recipe(self) -> dict[str, Any]:
        return {"mfcc": self.mfcc, "words": self.classes, "partial": self.partial}

    def load(self) -> Iterator[RawSequences]:
        self._check_folders()
        clips = [
            (path, label)
            for label, word in enumerate(self.classes)
            for path in sorted((self.root / _FOLDER / word).glob("*.wav"))
        ]
        features = None if self.features is None else cepstra(self.features, self.rate)
        chunks = [clips[start : start + _CHUNK] for start in range(0, len(clips), _CHUNK)]
        for chunk in self.track(chunks, "reading clips"):
            read = [(read_wav(path, self.rate), label) for path, label in chunk]
            full = [(samples, label) for samples, label in read if len(samples) == self.rate]
            if full:
                x = np.stack([samples for samples, _ in full])[:, None]
                labels = np.array([label for _, label in full])
                if features is not None:
                    x = features(torch.from_numpy(x[:, 0]).float() / INT16).numpy()
                yield RawSequences(x, labels)

    def augmentation(self) -> RecordingAugmentation | None:
        return None if self.augment == "none" else RecordingAugmentation(self.augment == "shift_speed", self.seed)

    def _check_folders(self) -> None:
        known = {*TEN_WORDS, *OTHER_WORDS, _NOISE}
        unknown = [path for path in sorted((self.root / _FOLDER).iterdir()) if path.is_dir() and path.name not in known]
        if unknown:
            raise DataError(f"{unknown[0]} is not a word of Speech Commands 0.02; move the folder away")
