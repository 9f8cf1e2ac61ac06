"""How fast a kernel is, and which grid it needs."""

# O out channels, I in channels, K basis functions, L lags, F frequencies

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor, nn

from ckcnn.nn.positions import Memory
from ckcnn.nn.window import BAND, profile

_PROBES = (2, 4, 8)  # samples of the kernel per training sample when its band is looked for
# cells per training sample to choose from, for each of them
_SIGMAS = ((1.0, 1.5, 2.0, 3.0), (4.0, 6.0), (8.0, 12.0))
_SHARE = 0.3  # of the tolerance that frequencies above the band may take: most of them are carried as well
_SLACK = 2.0  # of the profile within the band
_MARGIN = 0.95  # of the band, because the kernels of some gradients are faster than those looked at
_STEP = 1e-5  # of the size of parameters, for a difference quotient


def exact_basis(basis: nn.Module, lags: Tensor) -> Tensor:
    """A basis ``(L,) -> (K, L)`` in float64, and how it changes when its parameters move: ``(2, K, L)``.

    Rounding errors have all frequencies and would hide how fast a kernel is. The gradients of parameters are sums over
    the change.
    """
    state = {name: value.double() for name, value in basis.state_dict().items()}
    moved = {name: _moved(value) for name, value in state.items()}
    values, others = (torch.func.functional_call(basis, parameters, (lags,)) for parameters in (state, moved))
    return torch.stack([values, (others - values) / _STEP])


def _moved(values: Tensor) -> Tensor:
    """Parameters a little further in a direction without a pattern, the same at every call."""
    if not values.numel():
        return values
    return values + _STEP * values.abs().max() * _direction(values.numel()).to(values.device).view(values.shape)


@lru_cache(maxsize=64)
def _direction(count: int) -> Tensor:
    return torch.arange(count, dtype=torch.float64).square().mul(2.4).sin()


def choose_sigma(
    basis: Callable[[Tensor], Tensor], weight: Tensor | None, memory: Memory, tolerance: float
) -> float | None:
    """The coarsest grid, in cells per training sample, that carries a kernel, or None if it is too fast for all.

    The energy of the kernel above a frequency is known from the spectra of its basis and the products of its read-out.

    Args:
        basis: the basis functions and their change with the parameters, ``(L,) -> (2, K, L)``, in float64.
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
        spectrum = torch.fft.rfft(values * taper.to(values.device), size)  # (2, K, F)
        read_out = spectrum if gram is None else gram.to(spectrum.dtype) @ spectrum
        energy = (spectrum.conj() * read_out).real.sum(1).clamp_min(0)  # (2, F)
        above = energy.flip(1).cumsum(1).flip(1)  # from each frequency on
        shares = (above / above[:, :1].clamp_min(torch.finfo(torch.float64).tiny)).sqrt().amax(0)
        blur = 2 * (math.log(1 / tolerance) + 6) * probes / count  # the taper's own
        step = 2 * math.pi * probes / size  # rad per training sample between two frequencies
        allowed = _allowed(len(shares), step, blur, sigmas, tolerance).to(shares.device)
        fits = (shares <= allowed).all(1).tolist()
        for sigma, fit in zip(sigmas, fits, strict=True):
            if fit and sigma * BAND + blur < math.pi * probes:
                return sigma
    return None


@lru_cache(maxsize=64)
def _allowed(count: int, step: float, blur: float, sigmas: tuple[float, ...], tolerance: float) -> Tensor:
    """The share of a kernel's norm that may lie from each frequency on, for each grid: ``(S, F)``."""
    frequencies = step * torch.arange(count, dtype=torch.float64)
    places = (frequencies - blur) / (_MARGIN * BAND * torch.tensor(sigmas, dtype=torch.float64)[:, None])
    return torch.where(places < 1, _SLACK * profile(places, tolerance), _SHARE * tolerance)


@lru_cache(maxsize=64)
def _taper(count: int, shape: float) -> Tensor:
    return torch.signal.windows.kaiser(count, beta=shape, dtype=torch.float64)
