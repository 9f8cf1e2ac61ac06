"""Windows that a continuous kernel is multiplied by: they say how far a layer looks, and are learned.

A window is a Gaussian of the lag around the present, ``exp(-u^2 / (2 sigma^2))``. Its width is counted in training
samples, as all time here: at another rate, or for longer signals, it keeps its meaning.
"""

# C channels, L lags

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from ckcnn.checks import check_choice
from ckcnn.compat.torch import is_fake
from ckcnn.nn.by_hand import ByHand
from ckcnn.nn.checks import check_sigma

Window = Literal["none", "layer", "channel"]

NEGLIGIBLE = 1e-4
"""On a grid, the kernel is cropped where its window is smaller: that is 2e-5 of the area of the window."""

_REACH = math.sqrt(2 * math.log(1 / NEGLIGIBLE))  # widths
_NARROWEST = 0.3  # training samples: a narrower window holds lag 0 alone


class GaussianWindow(nn.Module):
    """Learnable widths: one for all channels, or one for each of them.

    Args:
        widths: where they start, in training samples, ``(1,)`` or ``(C,)``.
    """

    def __init__(self, widths: Tensor) -> None:
        super().__init__()
        self.log_width = nn.Parameter(widths.log())

    def widths(self) -> Tensor:
        """The widths in training samples."""
        return _widths(self.log_width)

    def forward(self, lags: Tensor) -> Tensor:
        """The window at lags ``(L,)``, in training samples: ``(1, L)`` or ``(C, L)``."""
        return _window(lags, self.log_width)

    def crop(self, kernel: Tensor, lags: Tensor) -> Tensor:
        """Kernels ``(K, L)`` times the window, exactly zero where it is negligible."""
        return _CROPPED(lags, kernel, self.log_width)

    def reaches(self, dt: float) -> list[int] | None:
        """The oldest lag of each width that is not negligible, in steps of `dt`.

        None where asking for values would wait for a device or break a graph: then kernels are not cropped.
        """
        if torch.compiler.is_compiling() or self.log_width.device.type != "cpu" or is_fake(self.log_width):
            return None
        return [math.ceil(_REACH * width / dt) for width in self.widths().detach().tolist()]


def _widths(log_width: Tensor) -> Tensor:
    return log_width.exp().clamp_min(_NARROWEST)


def _window(lags: Tensor, log_width: Tensor) -> Tensor:
    return torch.exp(-0.5 * (lags / _widths(log_width)[:, None]).square())


def _cropped(lags: Tensor, kernel: Tensor, log_width: Tensor) -> Tensor:
    window = _window(lags, log_width)
    return kernel * torch.where(window < NEGLIGIBLE, 0.0, window)


def _cropped_forward(lags: Tensor, kernel: Tensor, log_width: Tensor) -> tuple[Tensor, ...]:
    widths = _widths(log_width)
    square = (lags / widths[:, None]).square_()
    window = nn.functional.threshold(torch.mul(square, -0.5).exp_(), NEGLIGIBLE, 0.0, inplace=True)
    return kernel * window, widths, square, window


def _cropped_backward(grad: Tensor, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """The logarithm of the window is ``-u^2 / (2 sigma^2)``; its derivative by ``log sigma`` is ``u^2 / sigma^2``."""
    value, widths, square, window = outputs
    slope = (grad * value).mul_(square)
    slope = slope.sum() if len(widths) == 1 else slope.sum(1)
    return grad * window, slope * (widths > _NARROWEST)


_CROPPED = ByHand(_cropped, _cropped_forward, _cropped_backward)


def make_window(window: Window, channels: int, horizon: int, sigma_0: float) -> GaussianWindow | None:
    """The window of a layer, or None.

    Args:
        window: ``"none"``; ``"layer"`` for one width (FlexConv), which starts at `sigma_0` half horizons; ``"channel"``
            for one width a channel, log-spaced from one sample to the horizon.
        channels: of the layer.
        horizon: length of the memory in training samples.
        sigma_0: a width in coordinates of the kernel, in which the memory is 2 long.
    """
    check_choice("window", window, get_args(Window))
    if window == "none":
        return None
    if window == "layer":
        check_sigma(sigma_0)
        return GaussianWindow(torch.tensor([sigma_0 * (horizon - 1) / 2]))
    return GaussianWindow(torch.logspace(0.0, math.log10(horizon), channels))
