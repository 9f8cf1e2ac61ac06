"""Files as the paper's authors published them, with random values, and their convolution, straight from its steps."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

import torch
from torch import Tensor

from ckcnn.nn import CKConv


class Published(NamedTuple):
    """One published file.

    Attributes:
        kind: ``"plain"``, or ``"length"`` with the training length, or ``"kernels"`` with sampled kernels.
        parameters: as counted in the authors' own model.
    """

    in_channels: int
    hidden: int
    out_channels: int
    kind: str
    length: int
    parameters: int


FILES = {
    "smnist": Published(1, 30, 10, "plain", 784, 98_286),
    "smnist_wide": Published(1, 100, 10, "plain", 784, 1_030_546),
    "pmnist": Published(1, 30, 10, "length", 784, 98_286),
    "pmnist_wide": Published(1, 100, 10, "length", 784, 1_030_546),
    "scifar10": Published(3, 30, 10, "plain", 1024, 100_386),
    "scifar10_wide": Published(3, 100, 10, "plain", 1024, 1_037_546),
    "ct": Published(3, 30, 20, "length", 182, 100_696),
    "ct_half": Published(3, 30, 20, "length", 91, 100_696),
    "ct_quarter": Published(3, 30, 20, "length", 46, 100_696),
    "ct_eighth": Published(3, 30, 20, "kernels", 23, 100_696),
    "ct_drop30_stale": Published(3, 30, 20, "plain", 182, 100_696),
    "ct_drop30": Published(4, 30, 20, "length", 182, 101_746),
    "ct_drop50": Published(4, 30, 20, "length", 182, 101_746),
    "ct_drop70": Published(4, 30, 20, "length", 182, 101_746),
    "speech_mfcc": Published(20, 30, 10, "kernels", 161, 118_236),
    "speech_raw": Published(1, 30, 10, "plain", 16_000, 98_286),
    "speech_raw_half": Published(1, 30, 10, "length", 8_000, 98_286),
    "speech_raw_quarter": Published(1, 30, 10, "length", 4_000, 98_286),
    "speech_raw_eighth": Published(1, 30, 10, "length", 2_000, 98_286),
    "speech_raw_drop30": Published(2, 30, 10, "length", 16_000, 99_336),
    "speech_raw_drop50": Published(2, 30, 10, "length", 16_000, 99_336),
    "speech_raw_drop70": Published(2, 30, 10, "length", 16_000, 99_336),
    "physionet": Published(75, 30, 1, "length", 72, 175_707),
}


def weights(file: Published) -> OrderedDict[str, Tensor]:
    """The tensors of a file, by the authors' names."""
    channels = {(0, 1): (file.in_channels, file.hidden)}
    found: OrderedDict[str, Tensor] = OrderedDict()
    for block in (0, 1):
        for conv in (1, 2):
            inputs, outputs = channels.get((block, conv), (file.hidden, file.hidden))
            name = f"backbone.{block}.cconv{conv}"
            found[f"{name}.bias"] = torch.randn(outputs)
            if file.kind == "length":
                found[f"{name}.train_length"] = torch.tensor([file.length], dtype=torch.int32)
            if file.kind == "kernels":
                found[f"{name}.conv_kernel"] = torch.randn(outputs, inputs, file.length)
            for index, rows, columns in ((0, 32, 1), (4, 32, 32), (8, outputs * inputs, 32)):
                found[f"{name}.Kernel.kernel_net.{index}.bias"] = torch.randn(rows)
                found[f"{name}.Kernel.kernel_net.{index}.weight_g"] = torch.rand(rows, 1, 1)
                found[f"{name}.Kernel.kernel_net.{index}.weight_v"] = torch.randn(rows, columns, 1)
            found[f"backbone.{block}.norm{conv}.layer_norm.weight"] = torch.randn(outputs)
            found[f"backbone.{block}.norm{conv}.layer_norm.bias"] = torch.randn(outputs)
    if file.in_channels != file.hidden:
        found["backbone.0.shortcut.0.weight"] = torch.randn(file.hidden, file.in_channels, 1)
        found["backbone.0.shortcut.0.bias"] = torch.randn(file.hidden)
    found["finallyr.weight"] = torch.randn(file.out_channels, file.hidden)
    found["finallyr.bias"] = torch.randn(file.out_channels)
    return found


def convolve(layer: CKConv, x: Tensor, s: float, newest: float) -> Tensor:
    """What the authors' code makes of `x`, step by step, when it steps by `s` up to the coordinate `newest`."""
    assert layer.bias is not None
    length, pad = x.shape[-1], torch.nn.functional.pad
    p = torch.linspace(-1, newest, length, dtype=torch.float64).to(x)
    kernel = layer.kernel_net(p).view(layer.out_channels, layer.in_channels, length)  # the last one is now
    if s < 1:
        half = int(1 / s)
        offsets = torch.arange(-half, half + 1).to(x)
        taps = torch.exp(-(offsets**2) / (2 * 0.5**2)) / (0.5 * (2 * torch.pi) ** 0.5)
        smooth = kernel.clone()
        for j in range(half, length - half):
            smooth[..., j] = (kernel[..., j - half : j + half + 1] * taps).sum(-1)
        kernel = smooth
    kernel = s * kernel
    if s > 1:
        return torch.nn.functional.conv1d(pad(x, (length - 1, 0)), kernel, layer.bias)
    kernel = kernel if length % 2 else pad(kernel, (1, 0))
    x_hat = torch.fft.rfft(pad(x, (kernel.shape[-1] - 1, 0)))
    product = x_hat[:, None] * torch.fft.rfft(pad(kernel, (0, length - 1))).conj()
    return torch.fft.irfft(product.sum(2))[..., :length] + layer.bias[:, None]
