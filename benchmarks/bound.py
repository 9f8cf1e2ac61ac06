"""The bound: nothing but the FFTs and matrix products that a training step cannot do without, on warm buffers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch

from ckcnn.nn.plan import fft_length

_BASIS = 33  # 32 basis functions and a constant


def bare_step(batch: int, channels: list[int], length: int) -> Callable[[], None]:
    """The transforms and products of all convolutions in a network with these channels, forward and backward."""
    layers = [_bare_layer(batch, i, o, length, first=index == 0) for index, (i, o) in enumerate(pairwise(channels))]

    def step() -> None:
        for layer in layers:
            layer()

    return step


def _bare_layer(batch: int, i: int, o: int, length: int, first: bool) -> Callable[[], None]:
    n = fft_length(length, length - 1)
    f = n // 2 + 1
    x, y, basis = torch.randn(batch, i, n), torch.randn(batch, o, n), torch.randn(_BASIS, n)
    x_hat, y_hat = (torch.randn(f, channels, batch, dtype=torch.complex64) for channels in (i, o))
    x_spectrum, y_spectrum, basis_spectrum = torch.fft.rfft(x), torch.fft.rfft(y), torch.fft.rfft(basis)
    kernel_hat = torch.randn(f, o, i, dtype=torch.complex64)
    rows, weight, kernel_rows = torch.randn(2 * f, _BASIS), torch.randn(o * i, _BASIS), torch.randn(2 * f, o * i)

    # what is computed has buffers of its own, so that the numbers stay numbers, step after step
    y_out, x_out, kernel_out = y_hat.clone(), x_hat.clone(), kernel_hat.clone()
    rows_out, weight_out, kernel_rows_out = rows.clone(), weight.clone(), kernel_rows.clone()

    def forward() -> None:
        torch.fft.rfft(basis)
        torch.mm(rows, weight.T, out=kernel_rows_out)
        torch.fft.rfft(x)
        torch.bmm(kernel_hat, x_hat, out=y_out)
        torch.fft.irfft(y_spectrum, n)

    def backward() -> None:
        torch.fft.rfft(y)
        torch.bmm(y_hat, x_hat.mT, out=kernel_out)
        torch.mm(kernel_rows.T, rows, out=weight_out)
        torch.mm(kernel_rows, weight, out=rows_out)
        torch.fft.irfft(basis_spectrum, n)
        if not first:
            torch.bmm(kernel_hat.mT, y_hat, out=x_out)
            torch.fft.irfft(x_spectrum, n)

    def both() -> None:
        forward()
        backward()

    return both
