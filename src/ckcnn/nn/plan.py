"""The sizes of one convolution by FFT, decided once for its kernel, its fake and its backward pass."""

# B batch, O out channels, I in channels, T time, L lags, K basis functions, N FFT length, F frequencies

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ckcnn.nn.schedule import Schedule, schedule_for


@dataclass(frozen=True)
class Plan:
    """What `make_plan` decides; see there."""

    schedule: Schedule
    dtype: torch.dtype
    batch: int
    out_channels: int
    in_channels: int
    length: int
    given_lags: int
    lags: int
    advance: int
    n: int
    keep: bool

    @property
    def complex(self) -> torch.dtype:
        """The type of the spectra."""
        return self.dtype.to_complex()

    @property
    def frequencies(self) -> int:
        """The number of frequencies of a real signal."""
        return self.n // 2 + 1

    @property
    def slices(self) -> list[slice]:
        """The frequencies, in slices whose kernel spectrum the schedule allows."""
        step = self.schedule.frequencies_at_once(self.out_channels, self.in_channels, self.complex)
        return [slice(start, min(start + step, self.frequencies)) for start in range(0, self.frequencies, step)]

    @property
    def keeps_signal(self) -> bool:
        """Whether the spectrum of the signal is kept for the backward pass."""
        size = self.frequencies * self.in_channels * self.batch * self.complex.itemsize
        return self.keep and size <= self.schedule.keep_bytes

    @property
    def keeps_kernel(self) -> bool:
        """Whether the spectrum of the kernel is kept: if it is no more than one slice."""
        size = self.frequencies * self.in_channels * self.out_channels * self.complex.itemsize
        return self.keep and size <= min(self.schedule.keep_bytes, self.schedule.kernel_bytes)

    def channels_at_once(self) -> int:
        """Channels of a signal that are transformed at once."""
        return self.schedule.channels_at_once(self.frequencies, self.batch, self.complex)


def make_plan(x: Tensor, kernel: Tensor, weight: Tensor | None, advance: int, n: int | None, keep: bool) -> Plan:
    """Decide all sizes.

    Args:
        x: signal ``(B, I, T)``.
        kernel: samples ``(O, I, L)``, or a basis ``(K, L)``.
        weight: read-out ``(O, I, K)`` of the basis.
        advance: samples of the kernel that look ahead.
        n: FFT length; by default the shortest good one in which nothing wraps around.
        keep: whether a backward pass may follow, for which spectra are worth keeping.
    """
    batch, _, length = x.shape
    given_lags = kernel.shape[-1]
    lags = min(given_lags, length + advance)  # older ones meet no sample
    if n is None:
        n = fft_length(length, max(advance, lags - 1 - advance))
    out_channels, in_channels = (kernel if weight is None else weight).shape[:2]
    dtype = torch.promote_types(kernel.dtype, torch.float32)  # no transform knows less
    schedule = schedule_for(x.device)
    return Plan(schedule, dtype, batch, out_channels, in_channels, length, given_lags, lags, advance, n, keep)


def fft_length(length: int, reach: int) -> int:
    """The FFT length for `length` samples and a kernel that reaches `reach` samples back or ahead.

    The smallest multiple of 16 without a prime factor above 7 in which nothing wraps around. On a CPU the transform of
    length 384 takes two thirds of the time of 364, and a prime length near 1,568 nine times as long as 1,568.
    """
    blocks = -(-(length + reach) // 16)
    while not _is_smooth(blocks):
        blocks += 1
    return 16 * blocks


def _is_smooth(number: int) -> bool:
    for prime in (2, 3, 5, 7):
        while number % prime == 0:
            number //= prime
    return number == 1
