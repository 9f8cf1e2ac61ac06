"""The continuous-kernel convolution (paper, Sec. 4): a kernel net of the lag on top of an FFT convolution."""

# B batch, O out channels, I in channels, T time, L lags, K basis functions

from __future__ import annotations

import torch
from torch import Tensor, nn

from ckcnn.nn.checks import check_counts, check_dt, check_fraction, check_horizon, check_signal, check_times
from ckcnn.nn.functional import basis_conv, fft_conv, full_precision
from ckcnn.nn.grid import coordinate_grid
from ckcnn.nn.irregular import ContinuousKernel, regular_step, stamped_conv
from ckcnn.nn.kernels import KernelFactory, Siren, check_kernel_net
from ckcnn.nn.positions import Memory, smooth


class CKConv(nn.Module):
    """Convolution whose kernel is a small network of the time lag.

    ::

        y[t] = sum over lags u of  kernel(u) @ x[t - u] * (stretch of time that the sample stands for) + bias

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
    ) -> None:
        super().__init__()
        check_counts(in_channels=in_channels, out_channels=out_channels)
        check_horizon(horizon)
        check_fraction("weight_dropout", weight_dropout)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.memory, self.weight_dropout = Memory(horizon, causal), weight_dropout
        self.kernel_net = kernel(out_channels * in_channels)
        check_kernel_net(self.kernel_net, out_channels * in_channels)
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None

    @property
    def horizon(self) -> int:
        """The length of the memory in training samples."""
        return self.memory.horizon

    def forward(self, x: Tensor, dt: float = 1.0, times: Tensor | None = None) -> Tensor:
        """Convolves ``(B, I, T) -> (B, O, T)``.

        Args:
            x: signal.
            dt: sampling step in training samples: 2 is half the training rate, 0.5 twice the rate.
            times: the stamp of every sample, ``(B, T)``, in training samples, instead of `dt`. Equal steps are the
                same as `dt`; otherwise each sample counts with the stretch of time that it stands for.

        Raises:
            ValueError: if an argument does not fit; the message says what was expected.
        """
        check_signal(x, self.in_channels, self.kernel_net.read_out.bias.dtype)
        check_dt(dt)
        if times is not None:
            check_times(times, x)
            if dt != 1.0:
                raise ValueError(f"times already hold the sampling step, leave dt at 1.0 (got {dt})")
            step = regular_step(times)
            if step is None:
                return self._forward_stamped(x, times)
            dt = step
        with full_precision(x.device):
            basis, weight, ahead = self._parts(x.shape[-1], dt)
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
            basis, weight, ahead = self._parts(reach, dt, smoothed)
            kernel = weight @ basis
        before = 0 if self.memory.causal else length // 2 - ahead
        after = max(0, length - before - kernel.shape[-1])
        return nn.functional.pad(kernel, (before, after))[..., :length]

    def kernel_norm(self) -> Tensor:
        """The Frobenius norm of the kernel on the training grid, not squared, without ever building the kernel."""
        with full_precision(self.kernel_net.read_out.bias.device):
            basis, weight, _ = self._parts(self.horizon, 1.0)
            rows = weight.flatten(0, 1)  # (O I, K)
            square = ((rows @ (basis @ basis.T)) * rows).sum()
        return square.clamp_min(torch.finfo(square.dtype).tiny).sqrt()

    def _parts(self, length: int, dt: float, smoothed: bool = True) -> tuple[Tensor, Tensor, int]:
        """Basis ``(K, L)`` and read-out ``(O, I, K)`` of the kernel on a grid, and how many lags lie ahead."""
        p, ahead = coordinate_grid(self.memory, length, dt, self.kernel_net.read_out.bias)
        basis, weight = self.kernel_net.parts(p)
        if dt < 1 and smoothed:
            basis = smooth(basis, dt)
        weight = weight.view(self.out_channels, self.in_channels, -1)
        return basis if dt == 1 else dt * basis, weight, ahead

    def _basis(self, lags: Tensor) -> Tensor:
        """The basis functions at lags ``(L,)``, and one that is constant for the bias of the read-out: ``(K, L)``."""
        basis = self.kernel_net.basis(self.memory.coordinates(lags).to(self.kernel_net.read_out.bias))
        return torch.cat([basis, torch.ones_like(basis[:1])])

    def _read_out(self) -> Tensor:
        layer = self.kernel_net.read_out
        weight = torch.cat([layer.weight, layer.bias[:, None]], dim=1)
        return weight.view(self.out_channels, self.in_channels, -1)

    def _forward_stamped(self, x: Tensor, times: Tensor) -> Tensor:
        with full_precision(x.device):
            weight = self._read_out()
            dropout = self._drop if self.training and self.weight_dropout else None
            return stamped_conv(x, times, ContinuousKernel(self.memory, self._basis, weight, dropout), self.bias)

    def _drop(self, kernel: Tensor) -> Tensor:
        return nn.functional.dropout(kernel, self.weight_dropout)

    def extra_repr(self) -> str:
        memory = f"horizon={self.horizon}" + ("" if self.memory.causal else ", causal=False")
        return f"{self.in_channels}, {self.out_channels}, {memory}"
