from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ckcnn.datamodules import DataError, PennTreebank
from ckcnn.datamodules.penn_treebank import VOCABULARY
from tests.datamodules.official import PTB, write_ptb


def _ready(root: Path, **options: object) -> PennTreebank:
    module = PennTreebank(root=root, **options)
    module.prepare_data()
    module.setup()
    return module


def test_windows_over_contiguous_rows(tmp_path: Path) -> None:
    write_ptb(tmp_path)
    module = _ready(tmp_path, window=40, history=8, batch_size=4)
    text = (tmp_path / PTB / "ptb.valid.txt").read_text().replace("\n", "<eos>")
    rows = [text[start : start + len(text) // 10] for start in range(0, len(text) // 10 * 10, len(text) // 10)]
    scored = [""] * 10
    for number, batch in enumerate(module.val_dataloader()):
        assert len(batch.x) == 10
        for row in range(10):
            characters = "".join(VOCABULARY[token] for token in batch.x[row].tolist())
            assert characters == rows[row][number * 32 : number * 32 + len(characters)]
            assert (batch.y[row, :8] == -100).all()
            assert torch.equal(batch.y[row, 8:-1], batch.x[row, 9:])
            scored[row] += "".join(VOCABULARY[token] for token in batch.y[row, 8:].tolist())
    assert scored == [row[9:] for row in rows]  # every character but the first history is predicted exactly once


def test_training_rows_are_the_batch(tmp_path: Path) -> None:
    write_ptb(tmp_path)
    module = _ready(tmp_path, window=40, history=8, batch_size=6)
    assert next(iter(module.train_dataloader())).x.shape == (6, 40)
    assert module.horizon == 40


def test_text_cannot_be_dropped_or_resampled() -> None:
    for options in ({"drop_rate": 0.3}, {"train_dt": 2}, {"test_dt": 2}, {"missing": "times"}):
        with pytest.raises(ValueError, match="text has no values to drop"):
            PennTreebank(**options)


def test_history_must_be_shorter_than_the_window() -> None:
    with pytest.raises(ValueError, match="window must be a whole number of at least 81, got 80"):
        PennTreebank(window=80, history=80)


def test_strange_character(tmp_path: Path) -> None:
    write_ptb(tmp_path)
    path = tmp_path / PTB / "ptb.test.txt"
    path.write_text("caf\N{LATIN SMALL LETTER E WITH ACUTE}\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"ptb\.test\.txt has the character"):
        PennTreebank(root=tmp_path).prepare_data()
    assert not list((tmp_path / "cache").glob("*.h5*"))


def test_too_little_text(tmp_path: Path) -> None:
    write_ptb(tmp_path)
    with pytest.raises(DataError, match="too few for 500 rows"):
        _ready(tmp_path, batch_size=500).train_dataloader()


def test_real_files(real_data: Path, real_cache: Path) -> None:
    module = _ready(real_data, cache=real_cache, batch_size=24)
    sizes = {"train": 5_269_890, "val": 413_262, "test": 464_989}  # of Mikolov's files with <eos> spelled out
    assert {name: len(rows) for name, rows in module.splits.items()} == sizes
    texts = {name: (real_data / PTB / f"ptb.{name}.txt").read_text() for name in ("train", "test", "valid")}
    assert len(set("".join(texts.values()))) == module.out_channels == 50
    spelled = {name: text.replace("\n", "<eos>") for name, text in texts.items()}
    appearance = dict.fromkeys(spelled["train"] + " " + spelled["test"] + spelled["valid"])
    assert "".join(appearance) + "\n" == VOCABULARY
    assert next(iter(module.train_dataloader())).x.shape == (24, 400)
    assert len(module.dataset("test")) == 146  # rows of 46,498, a window every 320
