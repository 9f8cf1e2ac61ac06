"""MAGNet, the kernel net of FlexConv and CCNN: products of Gabor functions with linear maps in between."""

# K basis functions (hidden units), L coordinates

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ckcnn.checks import check_counts
from ckcnn.nn.by_hand import ByHand
from ckcnn.nn.checks import check_sigma
from ckcnn.nn.kernels import KernelNet, check_omega_0

_LAYERS = 4  # Gabor functions that are multiplied
_LOWEST = 1.0  # rad: below it a sine over [-1, 1] is close to a straight line


class MAGNet(KernelNet):
    """A multiplicative anisotropic Gabor net in one dimension (FlexConv, Romero et al., 2022).

    ::

        h_0 = g_0(p),   h_l = g_l(p) * (W_l h_{l-1} + b_l),   kernel = W_out h_3 + b_out
        g_l(p) = exp(-(gamma_l (p - mu_l))^2 / 2) sin(a_l p + c_l)

    All of mu, gamma, a and c are learned, one for each hidden unit. CCNN starts the frequencies ``a_l`` from
    ``2 pi omega_0 gamma_l U(-1, 1)``, with an omega_0 of some thousands: above what the grid can hold, so that its
    kernels start as aliased noise. Given a `horizon` instead, they start within the band of the grid: their sizes are a
    geometric progression from 1 rad to a quarter of the highest frequency, since those of four factors add up.

    Args:
        outputs: number of kernel values at a coordinate.
        omega_0: scale of the frequencies at the start; None for a start within the band of the grid.
        horizon: length of the memory in training samples, for that start.
        hidden: basis functions.
        sigma_0: width of the window that the kernel is used with; the Gabor functions start inside of it.
        causal: whether the present lies at +1 (otherwise at 0).
    """

    def __init__(
        self,
        outputs: int,
        omega_0: float | None = None,
        horizon: int | None = None,
        hidden: int = 32,
        sigma_0: float = 0.075,
        causal: bool = True,
    ) -> None:
        check_counts(outputs=outputs, hidden=hidden)
        check_sigma(sigma_0)
        if (omega_0 is None) == (horizon is None):
            raise ValueError(f"give MAGNet either omega_0 or horizon, got omega_0 {omega_0!r}, horizon {horizon!r}")
        if omega_0 is not None:
            check_omega_0(omega_0)
        super().__init__(nn.Linear(hidden, outputs))
        self.omega_0, self.horizon, self.sigma_0, self.causal = omega_0, horizon, sigma_0, causal
        self.centre = nn.Parameter(torch.empty(_LAYERS, hidden))
        self.gamma = nn.Parameter(torch.empty(_LAYERS, hidden))
        self.frequency = nn.Parameter(torch.empty(_LAYERS, hidden))
        self.phase = nn.Parameter(torch.empty(_LAYERS, hidden))
        self.mix = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(_LAYERS - 1))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Initialise all weights."""
        reach = 5 / 3 * self.sigma_0
        if self.causal:
            self.centre.uniform_(1 - reach, 1)
        else:
            self.centre.uniform_(-reach, reach)
        for layer, gamma in enumerate(self.gamma):
            shape = torch.tensor(6.0 / (layer + 1), device="cpu")  # no other device is sure to draw from this
            gamma.copy_(torch.distributions.Gamma(shape, 1.0).sample(gamma.shape))
        if self.omega_0 is not None:
            self.frequency.uniform_(-1, 1).mul_(2 * math.pi * self.omega_0 * self.gamma)
        else:
            assert self.horizon is not None
            highest = max(_LOWEST, math.pi * (self.horizon - 1) / 2 / _LAYERS)
            sizes = torch.logspace(math.log2(_LOWEST), math.log2(highest), self.frequency.shape[1], base=2)
            signs = torch.randint(0, 2, self.frequency.shape) * 2 - 1
            self.frequency.copy_(signs * sizes)
        self.phase.zero_()
        for linear in (*self.mix, self.read_out):
            assert isinstance(linear, nn.Linear)
            nn.init.kaiming_uniform_(linear.weight, nonlinearity="linear")
            nn.init.constant_(linear.bias, 0.0 if linear is self.read_out else 1.0)

    def basis(self, p: Tensor) -> Tensor:
        return _BASIS(p, self.centre, self.gamma, self.frequency, self.phase, *self.mix.parameters())

    def extra_repr(self) -> str:
        return f"horizon={self.horizon}" if self.omega_0 is None else f"omega_0={self.omega_0:g}"


def _plain(p: Tensor, centre: Tensor, gamma: Tensor, frequency: Tensor, phase: Tensor, *layers: Tensor) -> Tensor:
    bell = torch.exp(-0.5 * (gamma[..., None] * (p - centre[..., None])).square())
    gabor = bell * torch.sin(frequency[..., None] * p + phase[..., None])  # (layers, K, L)
    h = gabor[0]
    for factor, weight, bias in zip(gabor[1:], layers[::2], layers[1::2], strict=True):
        h = factor * torch.addmm(bias[:, None], weight, h)
    return h


def _forward(
    p: Tensor, centre: Tensor, gamma: Tensor, frequency: Tensor, phase: Tensor, *layers: Tensor
) -> tuple[Tensor, ...]:
    bell = (gamma[..., None] * (p - centre[..., None])).square_().mul_(-0.5).exp_()
    wave = torch.addcmul(phase[..., None], frequency[..., None], p)
    gabor = bell * wave.sin()
    hidden, mixed = [gabor[0]], []
    for factor, weight, bias in zip(gabor[1:], layers[::2], layers[1::2], strict=True):
        mixed.append(torch.addmm(bias[:, None], weight, hidden[-1]))
        hidden.append(factor * mixed[-1])
    return hidden[-1], wave, bell, gabor, *mixed, *hidden[1:-1]


def _backward(grad: Tensor, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    p, centre, gamma, _, _, *layers = inputs
    _, wave, bell, gabor, *rest = outputs
    mixed, hidden = rest[: _LAYERS - 1], [gabor[0], *rest[_LAYERS - 1 :]]
    by_gabor = torch.empty_like(gabor)
    found: list[Tensor] = []
    for layer in reversed(range(_LAYERS - 1)):
        torch.mul(grad, mixed[layer], out=by_gabor[layer + 1])
        by_mixed = grad * gabor[layer + 1]
        found[:0] = [by_mixed @ hidden[layer].T, by_mixed.sum(1)]
        grad = torch.mm(layers[2 * layer].T, by_mixed, out=by_gabor[0] if layer == 0 else None)
    by_wave = wave.cos().mul_(bell).mul_(by_gabor)
    away = p - centre[..., None]
    by_away = by_gabor.mul_(gabor).mul_(away)  # of the logarithm of a bell, -(gamma away)^2 / 2, but for gamma^2
    by_centre = by_away.sum(-1).mul_(gamma.square())
    by_gamma = by_away.mul_(away).sum(-1).mul_(gamma).neg_()
    return by_centre, by_gamma, by_wave @ p, by_wave.sum(-1), *found


_BASIS = ByHand(_plain, _forward, _backward)
