"""Depthwise and separable continuous-kernel convolutions: one kernel a channel, then a 1x1 convolution (CCNN)."""

# B batch, O out channels, C channels, T time, L lags, K basis functions

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import torch
from torch import Tensor, nn

from ckcnn.checks import check_choice, check_counts
from ckcnn.nn.band import exact_basis
from ckcnn.nn.block import PointwiseConv
from ckcnn.nn.checks import check_dt, check_horizon, check_signal
from ckcnn.nn.ckconv import Stamps
from ckcnn.nn.continuous_kernel import ContinuousKernel
from ckcnn.nn.depthwise_operator import depthwise_conv
from ckcnn.nn.irregular import stamped_conv
from ckcnn.nn.kernel_window import GaussianWindow, Window, make_window
from ckcnn.nn.kernels import KernelNet, Siren, check_kernel_factory, check_kernel_net
from ckcnn.nn.point_kernel import PointKernel
from ckcnn.nn.positions import Coarse, Memory, coarsen, smooth
from ckcnn.nn.precision import full_precision
from ckcnn.nn.time_grid import TimeGrid, sampling

ChannelKernelFactory = Callable[[int], KernelNet | PointKernel]
"""Makes the kernels for a number of channels: a kernel net, or a `PointKernel`."""

_LEAST = 0.1  # of the mean norm: a kernel that is smaller at the start, or zero, is not blown up further


class DepthwiseCKConv(nn.Module):
    """Convolution of each channel with a continuous kernel of its own.

    ::

        y[c, t] = sum over lags u of  window_c(u) kernel_c(u) x[c, t - u] * (time that the sample represents)
                  + skip_c x[c, t] + bias_c

    Time is counted in samples of the training grid, as in `CKConv`. Every kernel starts with energy 1 on that grid, so
    that a channel leaves the layer about as large as it came.

    Args:
        channels: channels of the signal.
        horizon: length of the memory in samples, usually the length of a training sequence.
        kernel: makes the kernel net for a number of channels; a `PointKernel` will do.
        window: ``"none"``, ``"layer"`` (one learnable width, FlexConv) or ``"channel"`` (one each, log-spaced from one
            sample to the horizon).
        sigma_0: where the width of a layer starts, as a fraction of half of the horizon, for ``"layer"``.
        bias: whether to add a learned constant to each channel.
        skip: whether to add each channel itself, times a learned factor.
        causal: whether the memory lies in the past; otherwise half of it lies in the future.
        stamps: see `CKConv`, as `tolerance`.
        tolerance: relative error that ``"auto"`` may make.
        coarse: see `CKConv`; ``"scaled"`` is far off where a window is narrower than a step.
    """

    def __init__(
        self,
        channels: int,
        horizon: int,
        kernel: ChannelKernelFactory = Siren,
        window: Window = "none",
        sigma_0: float = 0.075,
        bias: bool = True,
        skip: bool = False,
        causal: bool = True,
        stamps: Stamps = "auto",
        tolerance: float = 1e-5,
        coarse: Coarse = "interpolated",
    ) -> None:
        super().__init__()
        check_counts(channels=channels)
        check_choice("coarse", coarse, get_args(Coarse))
        self.coarse = coarse
        check_horizon(horizon)
        check_choice("stamps", stamps, get_args(Stamps))
        self.channels, self.memory = channels, Memory(horizon, causal)
        self.stamps, self.tolerance = stamps, tolerance
        check_kernel_factory(kernel)
        self.kernel_net = kernel(channels)
        if isinstance(self.kernel_net, KernelNet):
            check_kernel_net(self.kernel_net, channels)
        self.window: GaussianWindow | None = make_window(window, channels, horizon, sigma_0)
        self.bias = nn.Parameter(torch.zeros(channels)) if bias else None
        self.skip = nn.Parameter(torch.ones(channels)) if skip else None
        self.reset_gain()

    @property
    def horizon(self) -> int:
        """The length of the memory in training samples."""
        return self.memory.horizon

    @property
    def in_channels(self) -> int:
        """Channels of the signal."""
        return self.channels

    @torch.no_grad()
    def reset_gain(self) -> None:
        """Scale the outputs of the kernel net so that every kernel has energy 1 on the training grid."""
        norms = self.sampled(self.horizon, 1.0)[0].norm(dim=1)
        if not norms.is_meta and not norms.any():
            raise ValueError(
                f"all kernels are zero on the {self.horizon} samples of the memory; kernels of points need a larger "
                f"radius there, about {2 / (self.horizon - 1):.2g}"
            )
        self.kernel_net.scale_outputs(1 / norms.clamp_min(_LEAST * norms.mean()))

    def forward(self, x: Tensor, dt: float = 1.0, times: Tensor | TimeGrid | None = None) -> Tensor:
        """Convolve ``(B, C, T) -> (B, C, T)``; `dt` and `times` as in `CKConv.forward`."""
        like = self._like
        check_signal(x, self.channels, like.dtype)
        grid, dt = sampling(times, dt, x)
        if grid is not None:
            return self._forward_stamped(x, grid)
        with full_precision(x.device):
            kernel, ahead = self.sampled_kernel(x.shape[-1], dt)
            reaches = None if self.window is None or dt < 1 else self.window.reaches(dt)  # smoothing widens kernels
            return depthwise_conv(x, kernel, self.bias, ahead, reaches)

    def kernel(self, length: int, dt: float = 1.0) -> Tensor:
        """The sampled kernel ``(C, length)`` with its weight and the skip, for plots and inspection.

        Index ``j`` is lag ``j * dt``, or ``(j - length // 2) * dt`` if centred; beyond the memory it is zero.
        """
        check_counts(length=length)
        check_dt(dt)
        reach = length if self.memory.causal else length // 2 + 1
        with full_precision(self._like.device):
            kernel, ahead = self.sampled_kernel(reach, dt)
        before = 0 if self.memory.causal else length // 2 - ahead
        after = max(0, length - before - kernel.shape[-1])
        return nn.functional.pad(kernel, (before, after))[..., :length]

    def kernel_norm(self) -> Tensor:
        """The Frobenius norm of the kernels on the training grid, not squared, without the skip."""
        with full_precision(self._like.device):
            square = self.sampled(self.horizon, 1.0)[0].square().sum()
        return square.clamp_min(torch.finfo(square.dtype).tiny).sqrt()

    def sampled(self, length: int, dt: float) -> tuple[Tensor, int]:
        """The kernel ``(C, L)`` on a grid, with its weight and without the skip, and how many lags lie ahead.

        It ends where the widest window is negligible.
        """
        if dt > 1 and self.coarse == "interpolated":
            kernel, ahead = self.sampled(self.horizon, 1.0)
            return coarsen(kernel, dt, ahead, length)
        if self.window is not None and (reaches := self.window.reaches(dt)):
            length = min(length, max(reaches) + 1)
        p, ahead = self.memory.coordinate_grid(length, dt, self._like)
        kernel = _values(self.kernel_net, p)
        if self.window is not None:
            kernel = self.window.crop(kernel, self.memory.lags(p))
        if dt < 1:
            kernel = smooth(kernel, dt)
        return kernel if dt == 1 else dt * kernel, ahead

    @property
    def _like(self) -> Tensor:
        """A parameter that has the type and the device of the kernels."""
        return next(self.kernel_net.parameters())

    def sampled_kernel(self, length: int, dt: float) -> tuple[Tensor, int]:
        """`sampled` with the skip, a kernel that is one at lag 0 at any rate and needs no convolution of its own."""
        kernel, ahead = self.sampled(length, dt)
        if self.skip is None:
            return kernel, ahead
        return kernel + nn.functional.pad(self.skip[:, None], (ahead, kernel.shape[1] - 1 - ahead)), ahead

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # the path depends on the values of the stamps
    def _forward_stamped(self, x: Tensor, grid: TimeGrid) -> Tensor:
        with full_precision(x.device):
            kernel = ContinuousKernel(
                self.memory,
                _Functions(self),
                None,
                self._like.dtype,
                exact_basis=self._exact,
                tolerance=self.tolerance if self.stamps == "auto" else None,
            )
            y = stamped_conv(x, grid, kernel, self.bias)
            return y if self.skip is None else y + self.skip[:, None].to(x.dtype) * x

    def _exact(self, lags: Tensor) -> Tensor:
        return exact_basis(_Functions(self), lags)

    def extra_repr(self) -> str:
        return f"{self.channels}, horizon={self.horizon}" + ("" if self.memory.causal else ", causal=False")


class _Functions(nn.Module):
    """The kernels of a layer as a module of the lag, so that it can be called with other parameters."""

    def __init__(self, layer: DepthwiseCKConv) -> None:
        super().__init__()
        self.net, self.window, self.memory = layer.kernel_net, layer.window, layer.memory

    def forward(self, lags: Tensor) -> Tensor:
        """The kernels at lags ``(L,) -> (C, L)``, without the skip."""
        like = next(self.net.parameters())
        kernel = _values(self.net, self.memory.coordinates(lags.to(like.device)).to(like))
        return kernel if self.window is None else kernel * self.window(lags.to(like))


def _values(net: KernelNet | PointKernel, p: Tensor) -> Tensor:
    """The kernels ``(C, L)`` at coordinates ``(L,)``."""
    if isinstance(net, KernelNet):
        basis, weight = net.parts(p)
        return weight @ basis
    values: Tensor = net(p)
    return values


class SeparableCKConv(nn.Module):
    """A depthwise convolution with continuous kernels, then a 1x1 convolution.

    Args:
        in_channels: channels of the signal.
        out_channels: channels of the result.
        horizon: see `DepthwiseCKConv`, as the others.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        horizon: int,
        kernel: ChannelKernelFactory = Siren,
        window: Window = "none",
        sigma_0: float = 0.075,
        bias: bool = True,
        skip: bool = False,
        causal: bool = True,
        coarse: Coarse = "interpolated",
    ) -> None:
        super().__init__()
        check_counts(in_channels=in_channels, out_channels=out_channels)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.depthwise = DepthwiseCKConv(
            in_channels, horizon, kernel, window, sigma_0, bias, skip, causal, coarse=coarse
        )
        self.pointwise = PointwiseConv(in_channels, out_channels, kernel_size=1)
        nn.init.kaiming_normal_(self.pointwise.weight)
        self.pointwise.reset_bias()

    def forward(self, x: Tensor, dt: float = 1.0, times: Tensor | TimeGrid | None = None) -> Tensor:
        """Convolve ``(B, C, T) -> (B, O, T)``; `dt` and `times` as in `CKConv.forward`."""
        return self.pointwise(self.depthwise(x, dt, times))
