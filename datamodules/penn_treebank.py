"""Penn Treebank, character by character, with the windows of the TCN paper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ckcnn.checks import check_count
from ckcnn.datamodules.base import SequenceDataModule
from ckcnn.datamodules.downloads import Download
from ckcnn.datamodules.sequences import DataError, RawSequences, split_codes

_FOLDER = "ptb"
_URL = "http://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples.tgz"
_NAMES = {"train": "ptb.train.txt", "val": "ptb.valid.txt", "test": "ptb.test.txt"}

# All characters of the three files in the order in which they first appear in training, test and validation text. The
# line break comes last: the files have it, but the text that is learned spells it "<eos>", so its number never occurs.
VOCABULARY = " aerbnkotlizcwyusfmghd-qpx<>Njv.'1950&$324867#\\/*\n"


class PennTreebank(SequenceDataModule):
    """Newspaper text; each character is predicted from those before it.

    The text is cut into `batch_size` long rows (10 for validation and test); a batch is one window of all rows. The
    first `history` characters of a window only give context: their targets are -100 and count nowhere.

    Args:
        window: length of a window.
        history: how much of it repeats the window before.
        shared: see `SequenceDataModule`.
    """

    task = "language"
    channels, out_channels = 1, len(VOCABULARY)
    sizes = (5_269_890, 413_262, 464_989)
    vocabulary = VOCABULARY
    spelling = MappingProxyType({"\n": "<eos>"})
    files = tuple(f"{_FOLDER}/{name}" for name in _NAMES.values())
    downloads = (Download((_URL,), f"{_FOLDER}/simple-examples.tgz", unpack_to=_FOLDER, only=tuple(_NAMES.values())),)
    homepage = f"{_URL} (in its folder data)"

    def __init__(self, window: int = 400, history: int = 80, **shared: Any) -> None:
        check_count("history", history, least=0)
        check_count("window", window, least=history + 1)
        self.length, self.history = window, history
        super().__init__(**shared)

    def load(self) -> Iterator[RawSequences]:
        for split, name in _NAMES.items():
            tokens = _encode(self.source(f"{_FOLDER}/{name}"))
            yield RawSequences(tokens, split=split_codes(split, len(tokens)))


def _encode(path: Path) -> NDArray[np.uint8]:
    text = path.read_text(encoding="utf-8", errors="replace").replace("\n", "<eos>")
    if not text.strip():
        raise DataError(f"{path} must hold text, got an empty file; download it again")
    unknown = sorted(set(text) - set(VOCABULARY))
    if unknown:
        raise DataError(
            f"{path} has the character {unknown[0]!r}, which Mikolov's word files do not have; download it again"
        )
    number = np.zeros(128, dtype=np.uint8)
    number[[ord(character) for character in VOCABULARY]] = np.arange(len(VOCABULARY))
    return number[np.frombuffer(text.encode("ascii"), dtype=np.uint8)]
