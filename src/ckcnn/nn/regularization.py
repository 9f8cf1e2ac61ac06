"""The penalty that the paper calls weight decay: un-squared norms of sampled kernels and biases, as in its code."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ckcnn.nn.ckconv import CKConv
from ckcnn.nn.separable import DepthwiseCKConv


def kernel_penalty(net: nn.Module) -> Tensor:
    """Sum ``||kernel|| + ||bias||``, not squared, over all continuous-kernel convolutions of a network.

    The kernel is the one on the training grid, without weight dropout. Add it to the loss, times the weight decay.
    """
    layers = [module for module in net.modules() if isinstance(module, CKConv | DepthwiseCKConv)]
    if not layers:
        raise ValueError("kernel_penalty needs a network with at least one CKConv, found none")
    norms = [layer.kernel_norm() for layer in layers]
    norms += [torch.linalg.vector_norm(layer.bias) for layer in layers if layer.bias is not None]
    return torch.stack(norms).sum()
