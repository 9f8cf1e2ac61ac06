"""Augmentation: what it does to images and recordings, for training alone, new in each epoch and repeatable."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ckcnn.datamodules import Digits, SequentialCIFAR10, SpeechCommands
from ckcnn.datamodules.augmentation import ImageAugmentation, RecordingAugmentation
from ckcnn.datamodules.pipeline import Rows
from tests.datamodules.official import write_speech


def test_images_are_shifted_and_mirrored_as_seed_and_epoch_say() -> None:
    image = torch.arange(1, 65, dtype=torch.uint8).view(1, 1, 64).repeat(40, 1, 1)
    rows = Rows(image, torch.zeros(40))
    augmentation = ImageAugmentation((8, 8), flip=True, seed=0)
    items = torch.arange(40)
    first = augmentation(rows, items, 0, 40).x
    allowed = set()
    for flip in (False, True):
        padded = torch.nn.functional.pad(image[0].view(1, 8, 8), (1, 1, 1, 1))
        for down in range(3):
            for across in range(3):
                crop = padded[:, down : down + 8, across : across + 8]
                allowed.add(tuple((crop.flip(-1) if flip else crop).flatten().tolist()))
    seen = {tuple(x.flatten().tolist()) for x in first}
    assert seen <= allowed
    assert len(seen) > 9
    assert not torch.equal(first, augmentation(rows, items, 1, 40).x)
    again = ImageAugmentation((8, 8), flip=True, seed=0)
    part = again(Rows(image[:5], torch.zeros(5)), torch.arange(10, 15), 0, 40).x
    assert torch.equal(part, first[10:15])  # whatever the batch


def test_augmentation_is_for_training_images_only() -> None:
    with pytest.raises(ValueError, match="augment must be one of none, crop, crop_flip, got 'flip'"):
        SequentialCIFAR10(augment="flip")  # type: ignore[arg-type]


def test_an_augmented_epoch_is_new_and_repeatable(tmp_path: Path) -> None:
    def epochs(augment: str) -> list[torch.Tensor]:
        data = Digits(cache=tmp_path, batch_size=200, augment=augment)
        data.prepare_data(), data.setup()
        loader = data.train_dataloader()
        orders = [torch.cat([batch.x for batch in loader]) for _ in range(2)]
        assert torch.equal(next(iter(data.val_dataloader())).x, next(iter(plain.val_dataloader())).x)
        return orders

    plain = Digits(cache=tmp_path, batch_size=200)
    plain.prepare_data(), plain.setup()
    one, two = epochs("crop")
    assert torch.equal(one, epochs("crop")[0])
    assert not torch.equal(one.sort(0).values, two.sort(0).values)
    as_is = [values.sort(0).values for values in epochs("none")]
    assert torch.equal(as_is[0], as_is[1])


def test_recordings_are_shifted_whole() -> None:
    sound = torch.arange(100, dtype=torch.int16).view(1, 1, 100).repeat(400, 2, 1)
    rows = Rows(sound, torch.zeros(400))
    x = RecordingAugmentation(speed=False, seed=0)(rows, torch.arange(400), 0, 400).x
    shifts = (x[:, 0, 50] - 50).long()
    assert set(shifts.tolist()) == set(range(-10, 11))
    for shifted, shift in zip(x, shifts, strict=True):
        assert torch.equal(shifted, (torch.arange(100) + shift).clamp(0, 99).float().expand(2, -1))


def test_recordings_are_played_faster_and_slower() -> None:
    last = 999
    rows = Rows(torch.arange(last + 1.0).expand(40, 1, -1), torch.zeros(40))
    x = RecordingAugmentation(speed=True, seed=0)(rows, torch.arange(40), 3, 40).x[:, 0]
    speeds = x[:, 600] - x[:, 599]
    assert 0.9 <= float(speeds.min()) < 0.92
    assert 1.08 < float(speeds.max()) <= 1.1
    middle = x[:, 400:600]
    line = middle[:, :1] + speeds[:, None] * torch.arange(200)  # a ramp stays a ramp between the samples, too
    assert torch.allclose(middle, line, atol=0.05)
    assert bool((x >= 0).all() & (x <= last).all())


@pytest.mark.parametrize("mfcc", [False, True])
def test_only_training_recordings_change(tmp_path: Path, mfcc: bool) -> None:
    write_speech(tmp_path)

    def ready(augment: str) -> SpeechCommands:
        data = SpeechCommands(root=tmp_path, mfcc=mfcc, augment=augment, batch_size=80)  # type: ignore[arg-type]
        data.prepare_data(), data.setup()
        return data

    plain, changed = ready("none"), ready("shift_speed")
    items = range(len(plain.dataset("train")))
    before, after = (data.dataset("train").__getitems__(items) for data in (plain, changed))
    assert before.x.shape == after.x.shape
    assert before.x.dtype == after.x.dtype
    assert torch.equal(before.y, after.y)
    assert bool((before.x != after.x).flatten(1).any(1).all())
    for split in ("val", "test"):
        assert torch.equal(*(data.dataset(split).__getitems__([0, 1]).x for data in (plain, changed)))


def test_unknown_augmentations_of_recordings_are_refused() -> None:
    with pytest.raises(ValueError, match="augment must be one of none, shift, shift_speed, got 'noise'"):
        SpeechCommands(augment="noise")  # type: ignore[arg-type]
