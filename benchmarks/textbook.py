"""The textbook formulation of a CKConv: sample the kernel, pad, transform, multiply by broadcasting, transform back.

This is the order in which the paper's authors compute it; the product of the spectra of signal and kernel exists as one
tensor ``(batch, out, in, frequency)``. The kernel nets, the blocks and the rest of the network are this library's own.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from ckcnn.nn import CKConv


class TextbookConv(CKConv):
    """`CKConv` on the training grid with the same parameters and the same result, computed the obvious way."""

    def forward(self, x: Tensor, dt: float = 1.0, times: Tensor | None = None) -> Tensor:
        length = x.shape[-1]
        kernel = self.kernel(length).flip(-1)  # (O, I, T), oldest lag first
        if length % 2 == 0:
            kernel = pad(kernel, (1, 0))
        past = kernel.shape[-1] - 1
        x_hat = torch.fft.rfft(pad(x, (past, 0)))  # (B, I, F)
        kernel_hat = torch.fft.rfft(pad(kernel, (0, length - 1)))  # (O, I, F)
        y_hat = (x_hat[:, None] * kernel_hat.conj()[None]).sum(2)  # (B, O, I, F) -> (B, O, F)
        y = torch.fft.irfft(y_hat, length + past)[..., :length]
        return y if self.bias is None else y + self.bias[:, None]
