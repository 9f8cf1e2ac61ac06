"""How fast a kernel is, and which grid it needs."""

# O out channels, I in channels, K basis functions, L lags, F frequencies

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from ckcnn.nn.positions import Memory
from ckcnn.nn.window import BAND

_PROBES = (2, 4, 8)  # samples of the kernel per training sample when its band is looked for
# cells per training sample to choose from, for each of them
_SIGMAS = ((1.0, 1.5, 2.0, 3.0, 4.0), (6.0, 8.0), (12.0, 16.0))
_SHARE = 0.3  # of the tolerance that frequencies above the band may take: most of them are carried as well


def choose_sigma(
    basis: Callable[[Tensor], Tensor], weight: Tensor | None, memory: Memory, tolerance: float
) -> float | None:
    """The coarsest grid, in cells per training sample, that carries a kernel, or None if it is too fast for all.

    The energy of the kernel above a frequency is known from the spectra of its basis and the products of its read-out.

    Args:
        basis: the basis functions ``(L,) -> (K, L)``, in float64.
        weight: the read-out, ``(O, I, K)``, or None for one function a channel.
        memory: what the kernel sees.
        tolerance: relative error that is allowed.
    """
    rows = None if weight is None else weight.detach().double().flatten(0, 1)
    gram = None if rows is None else rows.T @ rows  # (K, K)
    span = memory.past + memory.future
    for probes, sigmas in zip(_PROBES, _SIGMAS, strict=True):
        count = math.floor(probes * span) + 1
        lags = torch.arange(count, dtype=torch.float64) / probes - memory.future
        taper = _taper(count, math.log(1 / tolerance) + 6)
        size = 2 ** math.ceil(math.log2(count))
        values = basis(lags)
        spectrum = torch.fft.rfft(values * taper.to(values.device), size)  # (K, F)
        read_out = spectrum if gram is None else gram.to(spectrum.dtype) @ spectrum
        energy = (spectrum.conj() * read_out).real.sum(0).clamp_min(0)
        above = energy.flip(0).cumsum(0).flip(0)  # from each frequency on
        widest = 2 * math.pi / size * probes  # rad per training sample between two frequencies
        blur = 2 * (math.log(1 / tolerance) + 6) * probes / count  # the taper's own
        places = [min(len(above) - 1, math.floor((sigma * BAND + blur) / widest)) for sigma in sigmas]
        shares = (above[places] / above[0].clamp_min(torch.finfo(torch.float64).tiny)).sqrt().tolist()
        for sigma, share, place in zip(sigmas, shares, places, strict=True):
            if share <= _SHARE * tolerance and place < len(above) - 1:
                return sigma
    return None


@lru_cache(maxsize=64)
def _taper(count: int, shape: float) -> Tensor:
    return torch.signal.windows.kaiser(count, beta=shape, dtype=torch.float64)
