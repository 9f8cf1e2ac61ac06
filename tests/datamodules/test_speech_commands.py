from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from benchmarks import speech_memory
from ckcnn.datamodules import DataError, SpeechCommands
from ckcnn.datamodules.speech_commands import TEN_WORDS
from tests.datamodules.official import SPEECH, write_speech

EIGHT_WORDS = tuple(word for word in TEN_WORDS if word not in ("on", "off"))


def _ready(root: Path, **options: object) -> SpeechCommands:
    module = SpeechCommands(root=root, **options)
    module.prepare_data()
    module.setup()
    return module


def test_samples_are_fractions_of_full_scale(tmp_path: Path) -> None:
    write_speech(tmp_path)
    module = _ready(tmp_path, standardise="none")
    assert module._store.shape == (100, 1, 16_000)  # the short clips are left out
    assert module._store.x.dtype == torch.int16
    samples, _ = soundfile.read(tmp_path / SPEECH / "yes" / "00000000_nohash_0.wav")
    batch = module.dataset("train").pipeline(module._store.rows(torch.tensor([0])))
    assert np.allclose(batch.x[0, 0], samples, atol=1e-7)


def test_words_are_numbered_in_the_order_given(tmp_path: Path) -> None:
    write_speech(tmp_path)
    module = _ready(tmp_path, words=["stop", "yes", "go"])
    assert module.out_channels == 3
    assert torch.bincount(module._store.y).tolist() == [10, 10, 10]
    samples, _ = soundfile.read(tmp_path / SPEECH / "stop" / "00000000_nohash_0.wav", dtype="int16")
    assert np.array_equal(module._store.x[0, 0], samples)


def test_absent_words(tmp_path: Path) -> None:
    write_speech(tmp_path, EIGHT_WORDS)
    module = SpeechCommands(root=tmp_path)
    assert module.absent_files() == [f"{SPEECH}/on", f"{SPEECH}/off"]
    partial = _ready(tmp_path, partial=True)
    assert partial.out_channels == 10
    assert set(partial._store.y.tolist()) == {0, 1, 2, 3, 4, 5, 8, 9}


def test_cepstra_are_those_of_the_paper(tmp_path: Path) -> None:
    write_speech(tmp_path)
    module = _ready(tmp_path, mfcc=True, standardise="none")
    assert module._store.shape == (100, 20, 161)
    samples, _ = soundfile.read(tmp_path / SPEECH / "yes" / "00000000_nohash_0.wav", dtype="float32")
    # By hand: a Hann window of 200 samples every 100, power, 64 mel bands, the logarithm, an orthonormal DCT.
    padded = np.pad(samples, 100, mode="reflect")
    frames = np.stack([padded[start : start + 200] for start in range(0, 16_001, 100)])
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(200) / 200)
    power = np.abs(np.fft.rfft(frames * window)) ** 2
    logs = np.log(power @ _mel_bands(64, 101, 8000.0) + 1e-6)
    angle = np.pi / 64 * (np.arange(64) + 0.5)[:, None] * np.arange(20)
    dct = np.cos(angle) * np.sqrt(2 / 64)
    dct[:, 0] /= np.sqrt(2)
    assert np.allclose(module._store.x[0], (logs @ dct).T, atol=2e-2)


def _mel_bands(bands: int, frequencies: int, top: float) -> np.ndarray:
    """Triangles between points that are equally far apart on the HTK mel scale."""
    mel = np.linspace(0, 2595 * np.log10(1 + top / 700), bands + 2)
    points = 700 * (10 ** (mel / 2595) - 1)
    grid = np.linspace(0, top, frequencies)[:, None]
    rise = (grid - points[:-2]) / (points[1:-1] - points[:-2])
    fall = (points[2:] - grid) / (points[2:] - points[1:-1])
    return np.clip(np.minimum(rise, fall), 0, None)


def _expect(root: Path, *words: str) -> None:
    with pytest.raises(DataError) as caught:
        SpeechCommands(root=root).prepare_data()
    for word in words:
        assert word in str(caught.value)
    assert not list((root / "cache").glob("*.h5*"))


def test_wav_at_8_khz(tmp_path: Path) -> None:
    write_speech(tmp_path)
    path = tmp_path / SPEECH / "left" / "00000003_nohash_0.wav"
    soundfile.write(path, np.zeros(8_000, dtype=np.int16), 8_000)
    _expect(tmp_path, str(path), "16000 Hz", "8000 Hz")


def test_stereo(tmp_path: Path) -> None:
    write_speech(tmp_path)
    path = tmp_path / SPEECH / "left" / "00000003_nohash_0.wav"
    soundfile.write(path, np.zeros((16_000, 2), dtype=np.int16), 16_000)
    _expect(tmp_path, str(path), "mono", "2 channel(s)")


def test_not_a_wav(tmp_path: Path) -> None:
    write_speech(tmp_path)
    path = tmp_path / SPEECH / "go" / "00000001_nohash_0.wav"
    path.write_bytes(b"RIFF")
    _expect(tmp_path, str(path), "not a WAV file")


def test_unknown_class_folder(tmp_path: Path) -> None:
    write_speech(tmp_path)
    (tmp_path / SPEECH / "yess").mkdir()
    _expect(tmp_path, str(tmp_path / SPEECH / "yess"), "not a word of Speech Commands")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["yes", "stopp"], "did you mean stop?"),
        (["yes"], "at least two"),
        (["yes", "yes"], "at least two different"),
        ([True, False], "quotes"),
    ],
)
def test_bad_words(words: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        SpeechCommands(words=words)


def test_real_files(real_data: Path, real_cache: Path) -> None:
    raw = _ready(real_data, cache=real_cache, partial=True)
    assert raw._store.shape == (2129, 1, 16_000)  # of 2,400 clips, those of exactly one second
    assert {name: len(rows) for name, rows in raw.splits.items()} == {"train": 1490, "val": 319, "test": 320}
    mfcc = _ready(real_data, cache=real_cache, words=EIGHT_WORDS, mfcc=True)
    assert mfcc._store.shape == (2129, 20, 161)
    assert (mfcc.in_channels, mfcc.out_channels, mfcc.horizon) == (20, 8, 161)


@pytest.mark.slow
def test_35000_clips_stay_below_the_limit(capsys: pytest.CaptureFixture[str]) -> None:
    assert speech_memory.main(35_000) == 0, capsys.readouterr().out
