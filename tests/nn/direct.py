"""The convolution as it is defined, term by term: slow, obvious, and written without the library's own sums."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ckcnn.nn import CKConv


def convolve(x: Tensor, kernel: Tensor, bias: Tensor | None = None, advance: int = 0) -> Tensor:
    """``y[t] = sum over j of kernel[j] @ x[t - (j - advance)] + bias``."""
    steps = []
    for t in range(x.shape[-1]):
        terms = [
            x[..., t - j + advance] @ kernel[..., j].T
            for j in range(kernel.shape[-1])
            if 0 <= t - j + advance < x.shape[-1]
        ]
        steps.append(torch.stack(terms).sum(0) if terms else x.new_zeros(len(x), len(kernel)))
    y = torch.stack(steps, dim=-1)
    return y if bias is None else y + bias[:, None]


def kernel_at(layer: CKConv, lags: list[float]) -> Tensor:
    """The kernel ``(O, I, L)`` at lags in training samples, straight from the kernel net."""
    now = 1.0 if layer.memory.causal else 0.0
    p = torch.tensor([now - 2 * u / (layer.memory.horizon - 1) for u in lags], dtype=torch.float64)
    return layer.kernel_net(p.to(layer.kernel_net.read_out.bias)).view(layer.out_channels, layer.in_channels, -1)


def smoothed_kernel(layer: CKConv, length: int, dt: float) -> Tensor:
    """A causal kernel on a grid finer than the training grid, blurred as the paper says, weights summing to 1."""
    lags = [j * dt for j in range(length) if j * dt <= layer.memory.horizon - 1 + 1e-9]
    raw = kernel_at(layer, lags)
    half = math.ceil(1 / dt - 1e-9)
    columns = []
    for j in range(len(lags)):
        near = range(max(0, j - half), min(len(lags), j + half + 1))
        taps = [math.exp(-((m - j) ** 2) / (2 * 0.5**2)) for m in near]
        columns.append(sum(tap * raw[..., m] for tap, m in zip(taps, near, strict=True)) / sum(taps))
    return torch.stack(columns, dim=-1)


def convolve_stamped(layer: CKConv, x: Tensor, times: Tensor) -> Tensor:
    """A causal layer on stamps: every pair by itself, each sample with the stretch of time known when it is used."""
    y = x.new_zeros(len(x), layer.out_channels, x.shape[-1])
    for b, stamps in enumerate(times.tolist()):
        for i, now in enumerate(stamps):
            for j in range(i + 1):
                if now - stamps[j] <= layer.memory.horizon - 1 + 1e-9:
                    width = stretch(stamps[: i + 1], j)
                    y[b, :, i] += width * kernel_at(layer, [now - stamps[j]])[..., 0] @ x[b, :, j]
    return y if layer.bias is None else y + layer.bias[:, None]


def stretch(stamps: list[float], j: int) -> float:
    """The stretch of time that sample `j` stands for when these stamps are known."""
    if len(stamps) == 1:
        return 1.0
    before = stamps[j] - stamps[j - 1] if j > 0 else stamps[1] - stamps[0]
    after = stamps[j + 1] - stamps[j] if j + 1 < len(stamps) else before
    return (before + after) / 2


def between_samples(x: Tensor, kernel: Tensor, lags: list[float], dt: float, bias: Tensor | None) -> Tensor:
    """The kernel ``(O, I, L)`` at training lags, convolved with the straight lines between samples `dt` apart."""
    samples = torch.arange(x.shape[-1], dtype=torch.float64)
    steps = []
    for now in range(x.shape[-1]):
        at = now - torch.tensor(lags, dtype=torch.float64) / dt  # when, counted in coarse samples
        share = (1 - (at[:, None] - samples).abs()).clamp_min(0)  # (L, T) of each sample in the signal at that time
        steps.append(torch.einsum("oil,bil->bo", kernel, x @ share.T))
    y = torch.stack(steps, dim=-1)
    return y if bias is None else y + bias[:, None]
