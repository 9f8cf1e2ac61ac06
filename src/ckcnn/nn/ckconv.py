"""The continuous-kernel convolution (paper, Sec. 4): a kernel net of the lag on top of an FFT convolution."""

# B batch, O out channels, I in channels, T time, L lags, K basis functions

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from ckcnn.checks import check_choice, check_counts, check_fraction
from ckcnn.nn.band import exact_basis
from ckcnn.nn.checks import check_dt, check_horizon, check_signal
from ckcnn.nn.continuous_kernel import ContinuousKernel
from ckcnn.nn.functional import basis_conv, fft_conv, full_precision
from ckcnn.nn.irregular import stamped_conv
from ckcnn.nn.kernel_window import GaussianWindow, make_window
from ckcnn.nn.kernels import KernelFactory, Siren, check_kernel_factory, check_kernel_net
from ckcnn.nn.positions import Coarse, Memory, coarsen, smooth
from ckcnn.nn.time_grid import TimeGrid, sampling

Stamps = Literal["auto", "exact"]


class CKConv(nn.Module):
    """Convolution whose kernel is a small network of the time lag.

    ::

        y[t] = sum over lags u of  kernel(u) @ x[t - u] * (time that the sample represents) + bias

    All time is counted in samples of the training grid. The kernel remembers `horizon` of them; a lag keeps its meaning
    when the sampling rate changes, and a longer signal never stretches the kernel.

    Example:
        >>> layer = CKConv(in_channels=3, out_channels=30, horizon=182)
        >>> layer(torch.randn(8, 3, 182)).shape
        torch.Size([8, 30, 182])
        >>> layer(torch.randn(8, 3, 91), dt=2).shape  # the same signals at half the rate
        torch.Size([8, 30, 91])

    Args:
        in_channels: channels of the signal.
        out_channels: channels of the result.
        horizon: length of the memory, usually the length of a training sequence, in samples.
        kernel: makes the kernel net for a number of outputs, such as ``partial(Siren, omega_0=30.0)``.
        bias: whether to add a learned constant to each output channel.
        causal: whether the memory lies in the past; otherwise half of it lies in the future.
        weight_dropout: fraction of the sampled kernel values that training sets to zero.
        stamps: how real-valued `times` are convolved: ``"auto"`` by a non-uniform FFT where the kernel is smooth enough
            for it, ``"exact"`` always pair by pair, which takes a time that grows with the square of the length.
        tolerance: relative error that ``"auto"`` may make.
        window: ``"none"``, or ``"layer"``: the kernel is multiplied by a Gaussian with a learned width (FlexConv).
        sigma_0: where that width starts, as a fraction of half of the horizon.
        coarse: how the kernel is read at a lower rate, ``dt > 1``. ``"scaled"``: its values at the coarser lags, times
            `dt`, as in the paper. ``"interpolated"``: the layer returns what it would return on the training grid for
            a signal that is a straight line between its samples, which is right for kernels of any speed.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        horizon: int,
        kernel: KernelFactory = Siren,
        bias: bool = True,
        causal: bool = True,
        weight_dropout: float = 0.0,
        stamps: Stamps = "auto",
        tolerance: float = 1e-5,
        window: Literal["none", "layer"] = "none",
        sigma_0: float = 0.075,
        coarse: Coarse = "scaled",
    ) -> None:
        super().__init__()
        check_counts(in_channels=in_channels, out_channels=out_channels)
        check_horizon(horizon)
        check_fraction("weight_dropout", weight_dropout)
        check_choice("stamps", stamps, get_args(Stamps))
        check_choice("coarse", coarse, get_args(Coarse))
        if not 0 < tolerance < 1:
            raise ValueError(f"tolerance must lie in (0, 1), a relative error such as 1e-5, got {tolerance!r}")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.memory, self.weight_dropout = Memory(horizon, causal), weight_dropout
        self.stamps, self.tolerance, self.coarse = stamps, tolerance, coarse
        check_choice("window", window, ("none", "layer"))
        self.window: GaussianWindow | None = make_window(window, out_channels, horizon, sigma_0)
        check_kernel_factory(kernel)
        self.kernel_net = kernel(out_channels * in_channels)
        check_kernel_net(self.kernel_net, out_channels * in_channels)
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None

    @property
    def horizon(self) -> int:
        """The length of the memory in training samples."""
        return self.memory.horizon

    def forward(self, x: Tensor, dt: float = 1.0, times: Tensor | TimeGrid | None = None) -> Tensor:
        """Convolve ``(B, I, T) -> (B, O, T)``.

        Args:
            x: signal.
            dt: sampling step in training samples: 2 is half the training rate, 0.5 twice the rate.
            times: the stamp of every sample, ``(B, T)``, in training samples, instead of `dt`. Equal steps are the
                same as `dt`; otherwise each sample counts with the time that it represents. Several layers
                can share one `TimeGrid`, which checks the stamps once.

        Raises:
            ValueError: if an argument does not fit; the message says what was expected.
        """
        check_signal(x, self.in_channels, self.kernel_net.read_out.bias.dtype)
        grid, dt = sampling(times, dt, x)
        if grid is not None:
            return self._forward_stamped(x, grid)
        with full_precision(x.device):
            basis, weight, ahead = self.sampled_parts(x.shape[-1], dt)
            if self.training and self.weight_dropout:
                return fft_conv(x, self._drop(weight @ basis), self.bias, ahead)
            return basis_conv(x, basis, weight, self.bias, ahead)

    def kernel(self, length: int, dt: float = 1.0, smoothed: bool = True) -> Tensor:
        """The sampled kernel ``(O, I, length)`` with its weight ``dt``, for plots and inspection.

        Index ``j`` is lag ``j * dt``, or ``(j - length // 2) * dt`` if centred; beyond the memory it is zero.

        Args:
            length: number of lags.
            dt: distance of two lags in training samples.
            smoothed: whether a kernel on a finer grid than that of training is smoothed, as it is in `forward`.
        """
        check_counts(length=length)
        check_dt(dt)
        reach = length if self.memory.causal else length // 2 + 1
        with full_precision(self.kernel_net.read_out.bias.device):
            basis, weight, ahead = self.sampled_parts(reach, dt, smoothed)
            kernel = weight @ basis
        before = 0 if self.memory.causal else length // 2 - ahead
        after = max(0, length - before - kernel.shape[-1])
        return nn.functional.pad(kernel, (before, after))[..., :length]

    def kernel_norm(self) -> Tensor:
        """The Frobenius norm of the kernel on the training grid, not squared, without ever building the kernel."""
        with full_precision(self.kernel_net.read_out.bias.device):
            basis, weight, _ = self.sampled_parts(self.horizon, 1.0)
            rows = weight.flatten(0, 1)  # (O I, K)
            square = ((rows @ (basis @ basis.T)) * rows).sum()
        return square.clamp_min(torch.finfo(square.dtype).tiny).sqrt()

    def sampled_parts(self, length: int, dt: float, smoothed: bool = True) -> tuple[Tensor, Tensor, int]:
        """Basis ``(K, L)`` and read-out ``(O, I, K)`` of the kernel on a grid, and how many lags lie ahead."""
        if dt > 1 and self.coarse == "interpolated":
            basis, weight, ahead = self.sampled_parts(self.horizon, 1.0)
            basis, ahead = coarsen(basis, dt, ahead, length)
            return basis, weight, ahead
        if self.window is not None:
            length = min([length, *(reach + 1 for reach in self.window.reaches(dt) or [])])
        p, ahead = self.memory.coordinate_grid(length, dt, self.kernel_net.read_out.bias)
        basis, weight = self.kernel_net.parts(p)
        if self.window is not None:
            basis = self.window.crop(basis, self.memory.lags(p))
        if dt < 1 and smoothed:
            basis = smooth(basis, dt)
        weight = weight.view(self.out_channels, self.in_channels, -1)
        return basis if dt == 1 else dt * basis, weight, ahead

    def _basis(self, lags: Tensor) -> Tensor:
        """The basis functions at lags ``(L,)``, and one that is constant for the bias of the read-out: ``(K, L)``."""
        return WindowedBasis(self)(lags.to(self.kernel_net.read_out.bias.device))

    def _read_out(self) -> Tensor:
        layer = self.kernel_net.read_out
        weight = torch.cat([layer.weight, layer.bias[:, None]], dim=1)
        return weight.view(self.out_channels, self.in_channels, -1)

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # the path depends on the values of the stamps
    def _forward_stamped(self, x: Tensor, grid: TimeGrid) -> Tensor:
        with full_precision(x.device):
            dropout = self._drop if self.training and self.weight_dropout else None
            kernel = ContinuousKernel(
                self.memory,
                self._basis,
                self._read_out(),
                self.kernel_net.read_out.bias.dtype,
                dropout,
                self._exact_basis,
                self.tolerance if self.stamps == "auto" else None,
            )
            return stamped_conv(x, grid, kernel, self.bias)

    def _exact_basis(self, lags: Tensor) -> Tensor:
        return exact_basis(WindowedBasis(self), lags.to(self.kernel_net.read_out.bias.device))

    def _drop(self, kernel: Tensor) -> Tensor:
        return nn.functional.dropout(kernel, self.weight_dropout)

    def extra_repr(self) -> str:
        memory = f"horizon={self.horizon}" + ("" if self.memory.causal else ", causal=False")
        return f"{self.in_channels}, {self.out_channels}, {memory}"


class WindowedBasis(nn.Module):
    """The basis of a layer as a module of the lag, so that it can be called with other parameters."""

    def __init__(self, layer: CKConv) -> None:
        super().__init__()
        self.net, self.window, self.memory = layer.kernel_net, layer.window, layer.memory

    def forward(self, lags: Tensor) -> Tensor:
        """The basis functions and a constant one, all times the window: ``(L,) -> (K, L)``."""
        bias = self.net.read_out.bias
        basis = self.net.basis(self.memory.coordinates(lags).to(bias))
        basis = torch.cat([basis, torch.ones_like(basis[:1])])
        return basis if self.window is None else basis * self.window(lags.to(bias))
