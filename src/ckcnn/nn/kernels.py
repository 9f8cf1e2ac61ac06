"""Kernel nets: small networks that map the coordinate of a lag to the value of a kernel (paper, Sec. 4.2, Appx. B).

Every kernel net is a *basis* of a few functions of the coordinate and a *linear read-out* of it. The convolution relies
on that: it transforms the basis, not the kernel.
"""

# O outputs of the kernel (out channels x in channels), K basis functions, L coordinates

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm
from torch.nn.utils.parametrize import is_parametrized

from ckcnn.checks import check_choice, check_counts, is_number
from ckcnn.nn.siren_parts import siren_parts

SirenInit = Literal["siren", "paper", "reference"]


class KernelNet(nn.Module):
    """A function of the kernel coordinate: ``kernel(p) = read_out(basis(p))``.

    A subclass defines `basis` and gives the linear layer that reads it out.
    """

    def __init__(self, read_out: nn.Linear) -> None:
        super().__init__()
        self.read_out = read_out

    def basis(self, p: Tensor) -> Tensor:
        """The basis functions at coordinates ``(L,) -> (K, L)``."""
        raise NotImplementedError

    def parts(self, p: Tensor) -> tuple[Tensor, Tensor]:
        """The two factors of the kernel at coordinates ``(L,)``; their product ``weight @ basis`` is the kernel.

        Returns:
            The basis and a row of ones, ``(K + 1, L)``, and the read-out with its bias as last column, ``(O, K + 1)``.
        """
        basis, layer = self.basis(p), self.read_out
        weight = torch.cat([layer.weight, layer.bias[:, None]], dim=1)
        return torch.cat([basis, torch.ones_like(basis[:1])]), weight

    def forward(self, p: Tensor) -> Tensor:
        """The kernel at coordinates ``(L,) -> (O, L)``."""
        return self.read_out(self.basis(p).T).T

    @torch.no_grad()
    def scale_outputs(self, factors: Tensor) -> None:
        """Multiply each output by a factor, ``(O,)``."""
        scaled = self.read_out.weight * factors[:, None]
        if is_parametrized(self.read_out, "weight"):
            self.read_out.weight = scaled  # sets direction and norm
        else:
            self.read_out.weight.copy_(scaled)
        self.read_out.bias.mul_(factors)


def check_kernel_factory(kernel: object) -> None:
    """`kernel` must make a kernel net, and not be one or name one."""
    wanted = "kernel must be what makes a kernel net for a number of outputs, such as partial(Siren, omega_0=30.0)"
    if isinstance(kernel, nn.Module):
        raise ValueError(f"{wanted}, got a {type(kernel).__name__} itself; give its class")
    if not callable(kernel):
        raise ValueError(f"{wanted}, got {kernel!r}; names are for ckcnn.CKCNN(kernel=...)")


def check_kernel_net(net: nn.Module, outputs: int) -> None:
    """`net` must be a `KernelNet` whose read-out has a bias and this many outputs."""
    if not isinstance(net, KernelNet):
        raise ValueError(f"kernel must make a KernelNet for a number of outputs, got {type(net).__name__}")
    layer = net.read_out
    if layer.out_features != outputs or layer.bias is None:
        came = f"{layer.out_features} {'without' if layer.bias is None else 'with'} a bias"
        raise ValueError(f"the kernel net must read out {outputs} values (out x in channels) with a bias, got {came}")


KernelFactory = Callable[[int], KernelNet]
"""Makes the kernel net for a number of outputs, such as ``functools.partial(Siren, omega_0=30.0)``."""


class Siren(KernelNet):
    """Sines of sines: ``W3 sin(w0 (W2 sin(w0 (W1 p + b1)) + b2)) + b3``, all weights normalised (paper, Appx. E.1).

    Args:
        outputs: number of kernel values at a coordinate.
        omega_0: the prior on how fast kernels oscillate.
        hidden: basis functions.
        init: how the net starts. All are what `forward` sees:

            * ``"siren"``: weights U(-1, 1), then U(±sqrt(6 / hidden) / omega_0); phases uniform over one period.
            * ``"paper"``: the same weights; biases U(±pi / ||W_i||) as the paper writes (Sec. 4.2).
            * ``"reference"``: what the authors' runs started from, because their weights were written into a normalised
              layer that ignored them: U(±1 / sqrt(fan in)) and biases U(-1, 1).
        learn_omega_0: whether omega_0 is learned; it starts from the value given.
    """

    def __init__(
        self,
        outputs: int,
        omega_0: float = 30.0,
        hidden: int = 32,
        init: SirenInit = "siren",
        learn_omega_0: bool = False,
    ) -> None:
        check_counts(outputs=outputs, hidden=hidden)
        check_choice("init", init, get_args(SirenInit))
        check_omega_0(omega_0)
        super().__init__(weight_norm(nn.Linear(hidden, outputs)))
        self.first = weight_norm(nn.Linear(1, hidden))
        self.second = weight_norm(nn.Linear(hidden, hidden))
        self.omega_0, self.init = omega_0, init
        self.log_omega_0 = nn.Parameter(torch.empty(())) if learn_omega_0 else None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Initialise all weights. Assigning to a normalised ``weight`` sets its direction and its norm."""
        hidden = self.second.in_features
        if self.log_omega_0 is not None:
            self.log_omega_0.fill_(math.log(self.omega_0))
        for layer in (self.first, self.second, self.read_out):
            bound = 1 / math.sqrt(layer.in_features)
            if self.init != "reference" and layer is not self.first:
                bound = math.sqrt(6 / hidden) / self.omega_0
            layer.weight = torch.empty_like(layer.weight).uniform_(-bound, bound)
            if self.init == "reference":
                layer.bias.uniform_(-1, 1)
            elif layer is self.read_out:
                layer.bias.zero_()
            else:
                period = layer.weight.norm(dim=1) if self.init == "paper" else self.omega_0
                layer.bias.uniform_(-math.pi, math.pi).div_(period)

    def basis(self, p: Tensor) -> Tensor:
        omega_0 = self.omega_0 if self.log_omega_0 is None else self.log_omega_0.exp()
        h = torch.sin(omega_0 * self.first(p[:, None]))
        return torch.sin(omega_0 * self.second(h)).T

    def parts(self, p: Tensor) -> tuple[Tensor, Tensor]:
        if self.log_omega_0 is not None:
            return super().parts(p)
        return siren_parts(p, (self.first, self.second, self.read_out), (self.omega_0, self.omega_0))

    def extra_repr(self) -> str:
        return f"omega_0={self.omega_0:g}, init={self.init}"


class FourierKernel(KernelNet):
    """Random Fourier features and one ReLU layer: ``W2 relu(W1 [cos(f p), sin(f p)] + b1) + b2`` (paper, Sec. 4.2).

    Args:
        outputs: number of kernel values at a coordinate.
        omega_0: the frequencies ``f`` start as N(0, 2 pi omega_0) and are trained.
        hidden: basis functions, an even number.
    """

    def __init__(self, outputs: int, omega_0: float = 30.0, hidden: int = 32) -> None:
        check_counts(outputs=outputs, hidden=hidden)
        if hidden % 2:
            raise ValueError(f"hidden must be even, half cosines and half sines, got {hidden}")
        check_omega_0(omega_0)
        super().__init__(nn.Linear(hidden, outputs))
        self.frequencies = nn.Linear(1, hidden // 2, bias=False)
        self.mix = nn.Linear(hidden, hidden)
        self.omega_0 = omega_0
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Initialise all weights."""
        self.frequencies.weight.normal_(std=2 * math.pi * self.omega_0)
        self.mix.reset_parameters()
        self.read_out.reset_parameters()

    def basis(self, p: Tensor) -> Tensor:
        phase = self.frequencies(p[:, None])
        return nn.functional.relu(self.mix(torch.cat([phase.cos(), phase.sin()], dim=1))).T

    def extra_repr(self) -> str:
        return f"omega_0={self.omega_0:g}"


def check_omega_0(omega_0: float) -> None:
    """`omega_0` must be a positive number."""
    if not is_number(omega_0) or not 0 < omega_0 < math.inf:
        raise ValueError(f"omega_0 must be a positive number, got {omega_0!r}")
