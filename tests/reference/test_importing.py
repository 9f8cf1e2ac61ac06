"""Files of the authors become checkpoints of ours; all others get one clear message."""

from __future__ import annotations

import os
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ckcnn.reference.convolution import ReferenceConv
from ckcnn.reference.importing import import_weights
from ckcnn.reference.model import ReferenceCKCNN
from ckcnn.reference.weights_file import LIMIT, read_tensors
from ckcnn.runs import checkpoints
from tests.reference.published import FILES, Published, convolve, weights

TINY = Published(2, 4, 3, "length", 9, 0)


def saved(folder: Path, content: object) -> Path:
    path = folder / "file.pt"
    torch.save(content, path)
    return path


def changed(**changes: Any) -> OrderedDict[str, Any]:
    """The weights of a tiny model with some tensors replaced, or removed where the replacement is None."""
    content: OrderedDict[str, Any] = weights(TINY)
    for name, value in changes.items():
        content[name] = value
        if value is None:
            del content[name]
    return content


def refusal(path: Path, **arguments: Any) -> str:
    with pytest.raises(ValueError, match=r"file\.pt") as caught:
        import_weights(path, 30.0, **arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(str(path), "file.pt")


@pytest.mark.parametrize("name", FILES)
def test_every_published_file(name: str, tmp_path: Path) -> None:
    file = FILES[name]
    path = saved(tmp_path, weights(file))
    assert path.stat().st_size < LIMIT / 10
    horizon = {"horizon": file.length} if file.kind == "plain" else {}
    checkpoint = import_weights(path, 30.0, **horizon)
    checkpoints.save(checkpoint, tmp_path / "file.ckpt")
    model = ReferenceCKCNN.load_from_checkpoint(tmp_path / "file.ckpt", weights_only=True)
    assert sum(parameter.numel() for parameter in model.parameters()) == file.parameters
    facts = {"in_channels": file.in_channels, "hidden_channels": file.hidden, "out_channels": file.out_channels}
    assert facts.items() <= model.hparams.items()
    assert model.hparams["horizon"] == file.length
    assert model.hparams["task"] == ("binary" if name == "physionet" else "classification")


@pytest.mark.parametrize("channels", [2, 4])
def test_the_model_computes_what_the_weights_say(channels: int, tmp_path: Path) -> None:
    """Layer by layer from the file, also where no shortcut is needed because the channels are equal."""
    theirs = weights(TINY._replace(in_channels=channels))
    checkpoint = import_weights(saved(tmp_path, theirs), 20.0)
    model = ReferenceCKCNN(**checkpoint["hyper_parameters"])
    model.load_state_dict(checkpoint["state_dict"])
    x = torch.randn(5, channels, 9)
    y = x
    for block in (0, 1):
        before = y
        for number in (1, 2):
            y = _conv(theirs, f"backbone.{block}.cconv{number}", y)
            norm = [theirs[f"backbone.{block}.norm{number}.layer_norm.{part}"] for part in ("weight", "bias")]
            y = torch.relu(torch.nn.functional.group_norm(y, 1, *norm, eps=1e-12))
        if block == 0 and channels != 4:
            tail = [theirs[f"backbone.0.shortcut.0.{part}"] for part in ("weight", "bias")]
            before = torch.nn.functional.conv1d(before, *tail)
        y = torch.relu(y + before)
    expected = y[..., -1] @ theirs["finallyr.weight"].T + theirs["finallyr.bias"]
    assert torch.allclose(model.eval()(x), expected, atol=1e-4)


def _conv(theirs: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    class KernelNet(torch.nn.Module):
        def forward(self, p: Tensor) -> Tensor:
            h = p[None]
            for index in (0, 4, 8):
                g, v, b = (
                    theirs[f"{name}.Kernel.kernel_net.{index}.{part}"] for part in ("weight_g", "weight_v", "bias")
                )
                h = (g * v / v.norm(dim=(1, 2), keepdim=True))[..., 0] @ h + b[:, None]
                h = torch.sin(20.0 * h) if index < 8 else h
            return h

    layer = ReferenceConv(x.shape[1], 4, 9)
    layer.bias.data = theirs[f"{name}.bias"]
    layer.kernel_net = KernelNet()  # type: ignore[assignment]
    return convolve(layer, x, 1, 1.0)


def test_what_the_file_does_not_tell_must_be_given(tmp_path: Path) -> None:
    message = refusal(saved(tmp_path, weights(TINY._replace(kind="plain"))))
    assert message == "file.pt does not contain the length of the training sequences; give it as horizon"


@pytest.mark.parametrize(
    ("asked", "difference"),
    [
        ({"in_channels": 3}, "channels 2, not 3"),
        ({"out_channels": 10}, "classes 3, not 10"),
        ({"hidden_channels": 100}, "hidden channels 4, not 100"),
        ({"horizon": 18}, "training length 9, not 18"),
        ({"kernel": "relu"}, "kernel sine, not relu"),
        ({"norm": "step"}, "norm global, not step"),
        ({"num_blocks": 3}, "num_blocks 2, not 3"),
        ({"task": "regression"}, "task classification, not regression"),
        ({"in_channels": 3, "horizon": 18}, "channels 2, not 3, training length 9, not 18"),
    ],
)
def test_another_model_is_refused(asked: dict[str, Any], difference: str, tmp_path: Path) -> None:
    message = refusal(saved(tmp_path, weights(TINY)), **asked)
    advice = "ckcnn import --list shows its preset"
    assert message == f"file.pt is a different model: it has {difference}; {advice}"


BIAS, FIRST = "backbone.1.cconv2.bias", "backbone.0.cconv1.bias"
LENGTH = "backbone.1.cconv1.train_length"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({BIAS: None}, f"expected weights named {BIAS}, found none"),
        ({FIRST: None}, f"expected weights named {FIRST}, found none"),
        ({FIRST: torch.zeros(0)}, f"expected weights named {FIRST}, found none"),
        ({"encoder.weight": torch.zeros(2)}, "expected no weights named encoder.weight"),
        ({BIAS: torch.zeros(5)}, f"expected {BIAS} as (4,) torch.float32, got (5,) torch.float32"),
        ({BIAS: torch.zeros(4).double()}, f"expected {BIAS} as (4,) torch.float32, got (4,) torch.float64"),
        ({FIRST: torch.tensor(1.0)}, f"expected {FIRST} as (1,) torch.float32, got () torch.float32"),
        ({LENGTH: None}, f"expected weights named {LENGTH}, found none"),
        ({LENGTH: torch.tensor([8]).int()}, "expected one training length in all layers, got 8, 9"),
        ({LENGTH: torch.tensor([9.0])}, f"expected {LENGTH} as (1,) torch.int32, got (1,) torch.float32"),
    ],
)
def test_tensors_that_are_not_the_authors(changes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    assert refusal(saved(tmp_path, changed(**changes))) == f"file.pt is not one of the authors' models: {reason}"


@pytest.mark.parametrize("shape", [(4, 4, 8), (4, 9), (), (4, 5, 9)])
def test_stored_kernels_must_fit(shape: tuple[int, ...], tmp_path: Path) -> None:
    content = weights(TINY._replace(kind="kernels"))
    content["backbone.1.cconv2.conv_kernel"] = torch.zeros(shape)
    assert "expected backbone.1.cconv2.conv_kernel as (4, 4, 9)" in refusal(saved(tmp_path, content))


def test_a_length_of_one_is_none(tmp_path: Path) -> None:
    message = refusal(saved(tmp_path, weights(TINY._replace(length=0))))
    assert message.endswith("expected one training length in all layers, got 0")


class Code:
    """Creates a file when it is unpickled by an unwary reader."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_code_in_a_file_is_not_executed(tmp_path: Path) -> None:
    message = refusal(saved(tmp_path, changed(extra=Code(tmp_path / "trace"))))
    assert message == (
        "file.pt is damaged, or holds more than tensors, which is not executed; get the original file again"
    )
    (tmp_path / "file.pt").write_bytes(pickle.dumps(Code(tmp_path / "trace")))
    assert "is not a file of torch.save" in refusal(tmp_path / "file.pt")
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("kept", [0, 1, 1000, 0.5, 0.99])
def test_truncated(kept: float, tmp_path: Path) -> None:
    path = saved(tmp_path, weights(TINY))
    content = path.read_bytes()
    path.write_bytes(content[: kept if isinstance(kept, int) else int(kept * len(content))])
    assert refusal(path) == (
        "file.pt is not a file of torch.save (a zip archive), or is damaged; get the original file again"
    )


def test_damaged_inside(tmp_path: Path) -> None:
    path = saved(tmp_path, weights(TINY))
    content = bytearray(path.read_bytes())
    start = content.index(b"data.pkl") + 100
    content[start : start + 200] = bytes(200)
    path.write_bytes(content)
    assert "file.pt is damaged" in refusal(path)


@pytest.mark.parametrize("content", [b"", b"hello\n" * 1000, b"\x80\x04."])
def test_foreign_files(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file.pt").write_bytes(content)
    assert "is not a file of torch.save" in refusal(tmp_path / "file.pt")


def test_another_zip_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "file.pt", "w") as archive:
        archive.writestr("readme.txt", "hello")
    assert "file.pt is damaged" in refusal(tmp_path / "file.pt")


@pytest.mark.parametrize(
    ("content", "came"),
    [
        ([torch.zeros(1)], "holds no weights: expected tensors by name, got list"),
        ({}, "holds no weights: expected tensors by name, got dict"),
        ({"epoch": 3}, "holds more than weights: expected tensors by name, got int under 'epoch'"),
        ({3: torch.zeros(1)}, "holds more than weights: expected tensors by name, got Tensor under 3"),
    ],
)
def test_other_content(content: object, came: str, tmp_path: Path) -> None:
    assert refusal(saved(tmp_path, content)) == f"file.pt {came}"


@pytest.mark.parametrize("odd", [torch.zeros(4).to_sparse(), torch.zeros(4, device="meta")], ids=["sparse", "meta"])
def test_tensors_without_plain_numbers(odd: Tensor, tmp_path: Path) -> None:
    assert f"expected plain numbers in {BIAS}" in refusal(saved(tmp_path, changed(**{BIAS: odd})))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_that_are_no_numbers(value: float, tmp_path: Path) -> None:
    message = refusal(saved(tmp_path, changed(**{BIAS: torch.tensor([0, 0, value, 0])})))
    assert message == f"file.pt: {BIAS} has values that are NaN or infinite; get the original file again"


def test_too_large(tmp_path: Path) -> None:
    path = tmp_path / "file.pt"
    with path.open("wb") as file:
        file.truncate(LIMIT + 1)  # a hole, which takes no room on the disk
    assert refusal(path) == ("file.pt has 67,108,865 bytes, expected at most 67,108,864; it is not a file of weights")


def test_an_archive_that_unpacks_to_more(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "file.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(LIMIT + 1))
    assert "file.pt unpacks to 67,108,865 bytes" in refusal(tmp_path / "file.pt")


def test_a_tensor_that_is_larger_than_its_memory(tmp_path: Path) -> None:
    message = refusal(saved(tmp_path, changed(**{BIAS: torch.zeros(1).expand(10**12)})))
    assert "holds tensors of 4,000,0" in message


def test_no_file(tmp_path: Path) -> None:
    assert refusal(tmp_path / "file.pt") == "there is no file file.pt"
    (tmp_path / "file.pt").mkdir()
    assert refusal(tmp_path / "file.pt") == "there is no file file.pt"


def test_reading_is_by_value(tmp_path: Path) -> None:
    """Parameters and shared memory are as good as plain tensors."""
    shared = torch.randn(8)
    path = saved(tmp_path, {"a": torch.nn.Parameter(shared[:4]), "b": shared[2:]})
    found = read_tensors(path)
    assert torch.equal(found["a"], shared[:4])
    assert torch.equal(found["b"], shared[2:])
