"""A kernel that can be evaluated at any lag, dense or depthwise, as convolutions with time stamps see it."""

# B batch, O out channels, I in channels, T time, L lags, K basis functions, Q terms

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ckcnn.nn.depthwise_operator import depthwise_conv
from ckcnn.nn.functional import basis_conv
from ckcnn.nn.positions import Memory


@dataclass(frozen=True)
class ContinuousKernel:
    """A read-out ``(O, I, K)`` of a basis ``(L,) -> (K, L)``; without a read-out, one function for each channel.

    Attributes:
        memory: what it sees.
        basis: its basis functions.
        weight: their read-out, or None: then function ``k`` is the kernel of channel ``k``, and channels do not mix.
        dtype: of the convolution.
        dropout: of sampled kernel values, or None.
        exact_basis: the basis in float64 and how it changes with its parameters, ``(L,) -> (2, K, L)``, for a look at
            their spectra.
        tolerance: relative error that is allowed for real-valued stamps; None to sum pair by pair.
    """

    memory: Memory
    basis: Callable[[Tensor], Tensor]
    weight: Tensor | None
    dtype: torch.dtype
    dropout: Callable[[Tensor], Tensor] | None = None
    exact_basis: Callable[[Tensor], Tensor] | None = None
    tolerance: float | None = None

    def convolve(self, x: Tensor, basis: Tensor, advance: int) -> Tensor:
        """Convolve a signal ``(B, I, T)`` on a regular grid with the kernel of a sampled basis ``(K, L)``."""
        if self.weight is None:
            return depthwise_conv(x, basis, None, advance)
        return basis_conv(x, basis, self.weight, None, advance)

    def apply(self, basis: Tensor, x: Tensor) -> Tensor:
        """Multiply samples ``(B, I, T)`` by the kernel at one lag, of which the basis is ``(K,)``."""
        return basis[:, None] * x if self.weight is None else (self.weight @ basis) @ x

    def matrices(self, basis: Tensor) -> Tensor:
        """The kernel as matrices, for a basis ``(K, Q)``: ``(O, I, Q)``."""
        if self.weight is None:
            return torch.diag_embed(basis.T).permute(1, 2, 0)
        return self.weight @ basis

    def see(self, basis: Tensor, x: Tensor) -> Tensor:
        """Sum over pairs: basis ``(K, B, R, T)`` of rows and samples ``(B, I, T)``, to ``(B, O, R)``."""
        if self.weight is None:
            return torch.einsum("kbrt,bkt->bkr", basis, x)
        return torch.einsum("oik,bkir->bor", self.weight, torch.einsum("kbrt,bit->bkir", basis, x))
