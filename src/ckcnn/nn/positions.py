"""Where a continuous kernel is sampled. Time is counted in samples of the training grid, everywhere.

A lag ``u`` (0 = now, positive = past) sits at the kernel coordinate ``p(u)``: a causal kernel lays its memory of
`horizon` samples over [-1, 1] with the present at +1, a centred one with the present at 0 and the past below it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Coarse = Literal["scaled", "interpolated"]
"""How a kernel is read at a lower rate: its values times the step (paper, Appx. A.2), or `coarsen`."""

_ROUNDING = 1e-6  # of the memory: a lag at its edge belongs to it although stamps and steps are rounded
_SMOOTHING_SIGMA = 0.5  # in samples of the finer grid (paper, Appx. E.3)
_SMOOTHING_REACH = 6  # samples, beyond which the Gaussian is below 1e-31


@dataclass(frozen=True)
class Memory:
    """What a kernel can see: `horizon` training samples, all past (causal) or half past and half future."""

    horizon: int
    causal: bool = True

    @property
    def past(self) -> float:
        """The oldest lag that is remembered."""
        return (self.horizon - 1) if self.causal else (self.horizon - 1) / 2

    @property
    def future(self) -> float:
        """How far the kernel looks ahead."""
        return self.past if not self.causal else 0.0

    def coordinates(self, lags: Tensor) -> Tensor:
        """Kernel coordinates of lags: ``1 - 2 u / (horizon - 1)``, or ``-2 u / (horizon - 1)`` when centred."""
        return float(self.causal) - 2 * lags / (self.horizon - 1)

    def lags(self, p: Tensor) -> Tensor:
        """The lags of kernel coordinates, the inverse of `coordinates`."""
        return (float(self.causal) - p) * ((self.horizon - 1) / 2)

    def sees(self, lags: Tensor) -> Tensor:
        """Which lags lie in the memory."""
        slack = _ROUNDING * self.horizon
        return (lags <= self.past + slack) & (lags >= -self.future - slack)

    def reach(self, length: int, dt: float) -> tuple[int, int]:
        """How many steps of size `dt` a signal of this length can meet, back and ahead; exporters may give symbols."""
        slack = _ROUNDING * self.horizon
        back = smaller(length - 1, math.floor((self.past + slack) / dt))
        return back, 0 if self.causal else smaller(length - 1, math.floor((self.future + slack) / dt))

    def grid(self, length: int, dt: float) -> tuple[Tensor, int]:
        """The lags, ``dt`` apart, that lie in the memory and can meet a sample of a signal of this length.

        Returns:
            The lags ``(L,)`` in float64, from the furthest future to the furthest past, and how many lie ahead.
        """
        back, ahead = self.reach(length, dt)
        return torch.arange(-ahead, back + 1, dtype=torch.float64) * dt, ahead

    def coordinate_grid(self, length: int, dt: float, like: Tensor) -> tuple[Tensor, int]:
        """The `coordinates` of the `grid`, made on the device of `like`, without a copy from the host.

        Computed in float64, because neighbouring lags of a long memory differ by less than float32 resolves in a
        product.

        Returns:
            Coordinates ``(L,)`` in the type and on the device of `like`, furthest future first, and how many lie ahead.
        """
        back, ahead = self.reach(length, dt)
        steps = torch.arange(-ahead, back + 1, dtype=torch.float64, device=like.device)
        p = torch.rsub(steps, float(self.causal), alpha=2 * dt / (self.horizon - 1))
        return p.to(like.dtype), ahead


def smaller(a: int, b: int) -> int:
    """Return the smaller number without asking an exporter which one it is, which would fix its graph to the answer."""
    return torch.sym_min(a, b) if isinstance(a, torch.SymInt) or isinstance(b, torch.SymInt) else min(a, b)


def smooth(samples: Tensor, dt: float) -> Tensor:
    """Blur ``(K, L)`` functions sampled finer than the training grid, to remove what training could not see.

    The paper's Gaussian (Appx. E.3): ``2 / dt + 1`` taps with sigma half a sample. Here its weights always sum to 1,
    also at both ends, where only the taps that meet a sample count: so a constant stays the same constant.
    """
    half = min(_SMOOTHING_REACH, math.ceil(1 / dt * (1 - _ROUNDING)))
    offsets = torch.arange(-half, half + 1, dtype=samples.dtype, device=samples.device)
    taps = torch.exp(-0.5 * (offsets / _SMOOTHING_SIGMA) ** 2)[None, None]
    blur = torch.nn.functional.conv1d(samples[:, None], taps, padding=half)
    total = torch.nn.functional.conv1d(torch.ones_like(samples[:1, None]), taps, padding=half)
    return (blur / total)[:, 0]


def coarsen(samples: Tensor, dt: float, ahead: int, length: int) -> tuple[Tensor, int]:
    """Read ``(K, L)`` functions sampled on the training grid at a lower rate, a step of ``dt > 1`` training samples.

    ::

        coarse[j] = sum over lags u of  samples[u] max(0, 1 - |u / dt - j|)

    A convolution with these values equals one with `samples` on the training grid of a signal that is a straight line
    between its coarse samples. So functions that change within a step, or end within one, count with their mean.

    Args:
        samples: values at neighbouring lags.
        dt: the coarser step.
        ahead: how many of the lags lie ahead.
        length: of the coarse signal; lags that meet none of its samples are left out.

    Returns:
        The coarse values, and how many of their lags lie ahead.
    """
    count = samples.shape[-1]
    first, last = -math.ceil(ahead / dt), math.ceil((count - 1 - ahead) / dt)
    reach = math.ceil(dt)
    centres = torch.arange(first, last + 1, dtype=torch.float64, device=samples.device)[:, None] * dt
    lags = centres.floor() + torch.arange(-reach, reach + 1, device=samples.device)
    weights = (1 - (lags - centres).abs() / dt).clamp_min(0)
    index = lags.long() + ahead
    weights = weights * ((index >= 0) & (index < count))
    coarse = (samples[:, index.clamp(0, count - 1)] * weights.to(samples.dtype)).sum(-1)
    kept = smaller(-first, length - 1)
    return coarse[:, -first - kept : length - first], kept


def cell_widths(times: Tensor) -> Tensor:
    """The time that each sample represents, the inverse of the density of samples around it (Appx. A.1).

    Half the way to either neighbour; the first and the last sample mirror their only gap, so a regular grid has equal
    cells. A single sample represents one training sample.

    Args:
        times: ``(B, T)`` stamps that do not decrease.
    """
    if times.shape[-1] == 1:
        return torch.ones_like(times)
    gaps = times.diff()
    gaps = torch.cat([gaps[:, :1], gaps, gaps[:, -1:]], dim=1)
    return (gaps[:, :-1] + gaps[:, 1:]) / 2


def newest_widths(times: Tensor) -> Tensor:
    """The time that each sample represents while it is the newest and no later stamp is known, ``(B, T)``.

    Its last gap, mirrored; the very first sample represents one training sample.
    """
    return torch.cat([torch.ones_like(times[:, :1]), times.diff()], dim=1)
