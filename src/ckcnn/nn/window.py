"""How a sum over real-valued lags becomes a sum over a grid: window, cut-off and what is left near the kernel's ends.

All lengths here are in cells of the grid. A sample is spread over `width` cells with the window ``w``, the grid is
convolved with a discrete kernel ``g``, and the result is read with the same window. A pair at lag ``u`` then meets

    far(u) = sum over d of  g[d] (w * w)(u - d)

which equals ``kernel(u) cut_off(u)`` if the spectrum of ``g`` is that of the right-hand side divided by the squared
spectrum of the window, and if the right-hand side has no high frequencies. The cut-off therefore is smooth: it
rises from 0 to 1 over `ramp` cells inside either end of the kernel. What it takes away, ``near(u)``, the difference
of ``kernel(u)`` and ``far(u)``, concerns few pairs. It is a linear function of the kernel, and a short one: kernels up
to the frequency `BAND` differ near their ends by few degrees of freedom. So ``near(u)`` is the sum over q of
``table[u, q] coefficient[q]``, with coefficients that are read off the kernel at a few nodes.

No kernel fills its band evenly. Whatever a frequency is carried worse than the tolerance may then be rare in the kernel
in proportion: `profile` says how rare, `band.choose_sigma` sees to it, and ramp, window and terms are as short as it
allows, which is half of what an evenly filled band would take.

Causality is exact: ``g[d]`` is set to zero up to the width of the window, so that two windows of a sample and a later
one never meet. Near the end, where this would be missed, `table` makes up for it.
"""

# D kernel lags on the grid, N nodes, Q terms, U lags of a table, W design frequencies

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from ckcnn.nn.kernel_end import TABLE_STEPS, End
from ckcnn.nn.quadrature import bump, gauss

BAND = 1.8  # rad per cell: above it, kernels may have no more than a share of the tolerance
_CENTRE = 1.35  # rad per cell: decides how narrow the spectrum of the window is
_SAFETY = 2.0
_DECAY = 1.3  # how fast the profile falls within the band
_FINE = 1e-6  # below this tolerance tables are interpolated more carefully
_FIT = 1e-3  # of the tolerance: combinations of nodes that say less about a kernel are left out
_NEAR_SHARE = 1 / 3  # of the tolerance that a term near an end, or a pair beyond the reach, may be left out for
_SHORT = 64.0  # cells: a short kernel, of which the ends are a large part


def profile(places: Tensor, tolerance: float) -> Tensor:
    """The share of a kernel's norm that may lie above each place in its band, from 0 to 1."""
    return tolerance ** places.clamp(0, 1).pow(_DECAY)


@dataclass(frozen=True)
class Window:
    """The window, and the cut-off that goes with it, for a relative error below `tolerance`."""

    tolerance: float

    @cached_property
    def _digits(self) -> float:
        return math.log(_SAFETY / self.tolerance)

    @cached_property
    def width(self) -> int:
        """Cells over which a sample is spread."""
        return math.ceil(0.54 * self._digits + 0.3)

    @cached_property
    def ramp(self) -> float:
        """Cells over which the cut-off rises from 0 to 1."""
        return self._digits

    @property
    def _ramp_shape(self) -> float:
        return 0.75 * self._digits

    @property
    def _shape(self) -> float:
        """The exponent of the window: a narrow spectrum against a steep edge."""
        return 1.12 * self.width * (math.pi - _CENTRE)

    def values(self, distances: Tensor) -> Tensor:
        """The window ``exp(b (sqrt(1 - (2 z / width)^2) - 1))`` at distances ``z`` in cells (FINUFFT's choice)."""
        inside = 1 - (2 / self.width * distances).square()
        return torch.exp(self._shape * (inside.clamp_min(0).sqrt() - 1)) * (inside >= 0)

    def spectrum(self, frequencies: Tensor) -> Tensor:
        """The Fourier transform of the window at frequencies in rad per cell."""
        nodes, weights = gauss(-self.width / 2, self.width / 2)
        return torch.cos(frequencies[:, None] * nodes) @ (weights * self.values(nodes))

    def cut_off(self, distances: Tensor) -> Tensor:
        """A smooth step from 0 to 1 within `ramp` cells of distance."""
        return self._step(distances / self.ramp)

    def _step(self, x: Tensor) -> Tensor:
        """The integral of a Kaiser-Bessel bump on [0, 1]."""
        x = x.clamp(0, 1)[..., None]
        nodes, weights = gauss(0.0, 1.0)
        total = (bump(nodes, self._ramp_shape) * weights).sum()
        return (bump(x * nodes, self._ramp_shape) * weights * x).sum(-1) / total

    def cut_kernel(self, lags: Tensor, last: float) -> Tensor:
        """The cut-off of a kernel on ``[0, last]`` cells at some lags."""
        return self.cut_off(lags) * self.cut_off(last - lags)

    def grid_cut_off(self, ahead: int, count: int, first: float, last: float) -> Tensor:
        """`cut_kernel` at the lags ``-ahead, 1 - ahead, ...`` of a grid, for a kernel that starts at ``-first``."""
        return _grid_cut_off(self, ahead, count, first, last)

    def grid_kernel(self, samples: Tensor, causal: bool) -> Tensor:
        """The discrete kernel ``g`` ``(K, D)`` of samples ``(K, D)`` that fade to 0 well before their last ones."""
        length = samples.shape[-1]
        g = torch.fft.irfft(torch.fft.rfft(samples) * self.inverse(length).to(samples.device), length)
        return g * (torch.arange(length, device=g.device) > self.width) if causal else g

    def inverse(self, length: int) -> Tensor:
        """One over the squared spectrum of the window at the frequencies of an rfft; above the band it fades to 0.

        A sudden end there would ring through the whole discrete kernel.
        """
        return _inverse(self, length)

    def faded(self, frequencies: Tensor) -> Tensor:
        """1 up to the band, 0 at the highest frequency of the grid."""
        return self._step((math.pi - frequencies) / (math.pi - BAND))

    @cached_property
    def present(self) -> End:
        """The end of a causal kernel at lag 0, where ``g`` is truncated as well."""
        return self._end(max(self.ramp, 2.0 * self.width), True)

    @cached_property
    def edge(self) -> End:
        """The other end, and both ends of a centred kernel."""
        return self._end(self.ramp, False)

    def _end(self, longest: float, causal: bool) -> End:
        """Fit the terms to cosines and sines of all frequencies up to the band, in proportion to the profile."""
        order = 4 if self.tolerance >= _FINE else 8
        frequencies = torch.linspace(0, BAND, 64, dtype=torch.float64)
        edges = torch.cat([frequencies[:1], (frequencies[1:] + frequencies[:-1]) / 2])
        shares = torch.cat([profile(edges / BAND, self.tolerance).square(), torch.zeros_like(edges[:1])])
        amplitudes = (shares[:-1] - shares[1:]).sqrt().repeat(2)[:, None]  # (W, 1)
        frequencies = frequencies[:, None]
        table = (torch.arange(math.ceil(longest) * TABLE_STEPS + order + 1, dtype=torch.float64)) / TABLE_STEPS
        table = torch.cat([-table[1 : order + 1].flip(0), table])
        left = torch.cat([torch.cos(frequencies * table), torch.sin(frequencies * table)])  # (W, U)
        left = left * (1 - self.cut_off(table))
        if causal:
            left = left + self._truncated(frequencies, table)
        left = amplitudes * left
        allowed = (_NEAR_SHARE * self.tolerance) ** 2 * _SHORT * TABLE_STEPS
        beyond = left.square().sum(0).flip(0).cumsum(0).flip(0)
        reach = math.ceil(float(table[beyond > allowed].max()))
        left, table = left[:, : reach * TABLE_STEPS + 2 * order + 1], table[: reach * TABLE_STEPS + 2 * order + 1]
        read = reach + (2 * self.width if causal else 0)  # the truncated part of ``g`` comes from further away
        count = 8 + 2 * math.ceil(self._digits) + (12 if causal else 0)
        nodes = read / 2 * (1 - torch.cos(math.pi * (torch.arange(count, dtype=torch.float64) + 0.5) / count))
        values = amplitudes * torch.cat([torch.cos(frequencies * nodes), torch.sin(frequencies * nodes)])  # (W, N)
        fit = torch.linalg.lstsq(values, left, rcond=_FIT * self.tolerance, driver="gelsd").solution  # (N, U)
        _, size, terms = torch.linalg.svd(left, full_matrices=False)
        rest = size.square().flip(0).cumsum(0).flip(0)
        terms = terms[rest > allowed]  # (Q, U)
        return End(float(reach), nodes, fit @ terms.T, terms.T.contiguous(), order)

    def _truncated(self, frequencies: Tensor, table: Tensor) -> Tensor:
        """What the truncation of ``g`` takes from ``far`` near the present, for cosines and sines: ``(W, U)``."""
        length = 512
        lags = torch.arange(length, dtype=torch.float64)
        lags = torch.where(lags < length // 2, lags, lags - length)
        waves = torch.cat([torch.cos(frequencies * lags), torch.sin(frequencies * lags)])
        whole = self.grid_kernel(waves * self.cut_kernel(lags, length / 4), False)
        lost = lags.abs() <= 2 * self.width
        lost &= lags <= self.width
        pairs = self._autocorrelation(table[:, None] - lags[lost])  # (U, D)
        return whole[:, lost] @ pairs.T

    def _autocorrelation(self, z: Tensor) -> Tensor:
        """``(w * w)(z)``."""
        z = z.abs().clamp_max(self.width)[..., None]
        nodes, weights = gauss(0.0, 1.0)
        length = self.width - z
        x = z - self.width / 2 + nodes * length
        return (self.values(x) * self.values(z - x) * weights * length).sum(-1)


@lru_cache(maxsize=8)
def window(tolerance: float) -> Window:
    """The window for a tolerance; its tables are made once."""
    return Window(tolerance)


@lru_cache(maxsize=64)
def _inverse(window: Window, length: int) -> Tensor:
    frequencies = 2 * math.pi / length * torch.arange(length // 2 + 1, dtype=torch.float64)
    inverse = 1 / window.spectrum(frequencies).square()
    return inverse * window.faded(frequencies)


@lru_cache(maxsize=64)
def _grid_cut_off(window: Window, ahead: int, count: int, first: float, last: float) -> Tensor:
    return window.cut_kernel(torch.arange(count, dtype=torch.float64) - ahead + first, last)
