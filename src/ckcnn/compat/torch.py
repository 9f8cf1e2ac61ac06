"""Private parts of PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor, distributed
from torch._subclasses.fake_tensor import FakeTensor


def is_fake(tensor: Tensor) -> bool:
    """Return whether a tensor has a shape and a device but no values, so that nobody may ask for them.

    Private: the class of such tensors, which exporters and shape checks run a network with.
    """
    return isinstance(tensor, FakeTensor)


def is_lost_process(error: RuntimeError) -> bool:
    """Return whether an error says that another process of `torch.distributed` is gone.

    Undocumented: NCCL and the store have classes of errors, gloo is named in the text of a plain one.
    """
    return isinstance(error, distributed.DistError) or "/gloo/" in str(error)


def transforms_are_active() -> bool:
    """Return whether `torch.func` is transforming the code that runs.

    Private: there is no public question for it. Operators hand over to plain tensor functions then, into which
    transforms can see.
    """
    return bool(torch._C._are_functorch_transforms_active())


def normalised_weight(v: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Return the weight ``g v / |v|`` of `torch.nn.utils.parametrizations.weight_norm`, and the norms.

    Private: the fused kernel behind the public function, which does not return what its backward needs.
    """
    weight, norms = torch._weight_norm_interface(v, g)
    return weight, norms


def normalised_weight_backward(grad: Tensor, v: Tensor, g: Tensor, norms: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of `v` and `g` for that of `normalised_weight`."""
    grad_v, grad_g = torch.ops.aten._weight_norm_interface_backward(grad, v, g, norms, 0)
    return grad_v, grad_g
