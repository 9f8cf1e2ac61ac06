"""The convolution as the authors' code computes it, quirks included; nothing here is meant for training something new.

Their code differs from ours in ways that their weights have learned to live with: see `ReferenceConv`.
"""

# B batch, O out channels, I in channels, T time, K basis functions, F frequencies

from __future__ import annotations

import math

import torch
from torch import Tensor

from ckcnn.nn import CKConv, TimeGrid
from ckcnn.nn.checks import check_dt, check_signal
from ckcnn.nn.conv_operator import spectral_conv
from ckcnn.nn.functional import full_precision
from ckcnn.nn.plan import fft_length
from ckcnn.nn.positions import coarsen

_LONG = 384  # samples, above which a matrix is no longer faster than a transform


class ReferenceConv(CKConv):
    """The convolution as the authors' code computes it, for sequences as long as the training sequences.

    * The kernel is sampled from the oldest lag, at -1, forward; so "now" is at +1 on the training grid only.
    * The step to another sampling rate is the rounded quotient of the lengths, whatever the true one is.
    * On a finer grid the Gaussian is not normalised, and leaves both ends of the kernel as they are.
    * An odd number of samples goes through an inverse FFT that takes it for even, and comes out warped in time. Coarser
      grids are spared: there the authors convolve directly.
    """

    def forward(self, x: Tensor, dt: float = 1.0, times: Tensor | TimeGrid | None = None) -> Tensor:
        """Convolve ``(B, I, T) -> (B, O, T)``; `dt` as in `CKConv`, time stamps are unknown to the authors' code."""
        if times is not None:
            raise ValueError("the authors' weights take no time stamps; leave out --data.missing times")
        if x.shape[-1] % 2 == 0 or x.shape[-1] < self.horizon:
            return super().forward(x, dt)
        check_signal(x, self.in_channels, self.kernel_net.read_out.bias.dtype)
        check_dt(dt)
        with full_precision(x.device):
            basis, weight, _ = self.sampled_parts(x.shape[-1], dt)
            dropout = self.training and self.weight_dropout > 0
            parts = (self._drop(weight @ basis),) if dropout else (basis, weight)
            dtype = torch.promote_types(basis.dtype, torch.float32)  # no transform knows less
            y = warped_conv(x.to(dtype), *(part.to(dtype) for part in parts))
            return (y if self.bias is None else y + self.bias[:, None]).to(x.dtype)

    def sampled_parts(self, length: int, dt: float, smoothed: bool = True) -> tuple[Tensor, Tensor, int]:
        step = grid_step(length, self.horizon, dt)
        if step > 1 and self.coarse == "interpolated":
            basis, weight, ahead = self.sampled_parts(self.horizon, 1.0)
            basis, ahead = coarsen(basis, step, ahead, length)
            return basis, weight, ahead
        p = torch.linspace(-1, newest_position(length, self.horizon, step), length, dtype=torch.float64)
        basis = self.kernel_net.basis(p.flip(0).to(self.kernel_net.read_out.bias))  # newest first, as in CKConv
        basis = torch.cat([basis, torch.ones_like(basis[:1])])
        if step < 1 and smoothed:
            basis = smooth_inside(basis, round(1 / step))
        return basis if step == 1 else step * basis, self._read_out(), 0


def grid_step(length: int, horizon: int, dt: float) -> float:
    """The authors' step between two samples, in training samples: a whole number or one over it.

    They know the two lengths only, and take any other length for another rate. So it must be the length that a training
    sequence has at the step `dt`, give or take a sample of the coarser grid.
    """
    ratio = max(dt, 1 / dt)
    if abs(length * dt - horizon) >= max(1, dt) or abs(ratio - round(ratio)) > 1e-9:
        raise ValueError(
            f"the authors' weights know sequences of {horizon} training samples, at this, a whole multiple or a whole "
            f"fraction of the rate; got {length} samples at dt {dt:g}"
        )
    return float(round(horizon / length)) if horizon > length else 1 / round(length / horizon)


def newest_position(length: int, horizon: int, step: float) -> float:
    """The coordinate of lag 0 when the oldest lag is at -1: beyond 1 on a finer grid, before it on a coarser one."""
    unit = 2 / (horizon - 1)
    if step > 1:
        return 1 - (horizon - 1) % round(step) * unit
    return 1 + (length - 1) % round(1 / step) * step * unit


def smooth_inside(samples: Tensor, half: int) -> Tensor:
    """Blur ``(K, T)`` with ``2 half + 1`` taps of a Gaussian of half a sample; their sum is not 1, the ends stay."""
    offsets = torch.arange(-half, half + 1, dtype=samples.dtype, device=samples.device)
    taps = torch.exp(-2 * offsets**2) * math.sqrt(2 / math.pi)
    inside = torch.nn.functional.conv1d(samples[:, None], taps[None, None])[:, 0]
    return torch.cat([samples[:, :half], inside, samples[:, samples.shape[1] - half :]], dim=1)


def warped_conv(x: Tensor, *parts: Tensor) -> Tensor:
    """The convolution ``(B, I, T) -> (B, O, T)`` of an odd T as the authors have it; parts as in `spectral_conv`."""
    length = x.shape[-1]
    whole = torch.nn.functional.pad(x, (0, length - 1))  # all 2 T - 1 samples of the result, not only the first T
    weight = parts[1] if len(parts) == 2 else None
    y = spectral_conv(whole, parts[0], weight, n=fft_length(2 * length - 1, 0))
    if length > _LONG:
        return warp(y)
    return y @ warp(torch.eye(2 * length - 1, dtype=y.dtype, device=y.device))


def warp(y: Tensor) -> Tensor:
    """Read the T spectral lines of ``2 T - 1`` samples as those of ``2 T - 2`` and keep T samples.

    Those two transforms of odd lengths would take longer than all others; up to some hundred samples, the matrix of
    this linear map is faster.
    """
    length = (y.shape[-1] + 1) // 2
    return torch.fft.irfft(torch.fft.rfft(y), 2 * length - 2)[..., :length]
