"""A function of tensors as one node of autograd with derivatives by hand: tiny operators cost launches and memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import vjp

from ckcnn.compat.torch import transforms_are_active
from ckcnn.nn.precision import full_precision

_Tensors = tuple[Tensor, ...]


@dataclass(frozen=True)
class ByHand:
    """A function of which the first argument usually is constant: where the function is sampled.

    Args:
        plain: the function in tensor functions that compilers and `torch.func` can see into, and that can be
            differentiated any number of times.
        forward: the same value, then tensors to keep for the backward pass.
        backward: from the gradient of the value, the arguments and what `forward` returned, to the gradients of all
            arguments but the first.
    """

    plain: Callable[..., Tensor]
    forward: Callable[..., _Tensors]
    backward: Callable[[Tensor, _Tensors, _Tensors], _Tensors]

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Compute the function, on the way that suits whoever looks on."""
        if torch.compiler.is_compiling() or transforms_are_active():
            return self.plain(*inputs)
        value: Tensor = _Node.apply(self, *inputs)[0]  # type: ignore[no-untyped-call]
        return value


class _Node(torch.autograd.Function):
    @staticmethod
    def forward(function: ByHand, *inputs: Tensor) -> _Tensors:
        return function.forward(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: _Tensors) -> None:
        ctx.function, *tensors = inputs
        ctx.count = len(tensors)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(*tensors, *output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        grad = grads[0]
        if grad is None:
            return (None,) * (ctx.count + 1)
        inputs, outputs = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
        needs = ctx.needs_input_grad[1:]
        with full_precision(grad.device):
            if torch.is_grad_enabled() or needs[0]:  # somebody differentiates twice, or by where it is sampled
                found = vjp(ctx.function.plain, *inputs)[1](grad)
            else:
                found = (None, *ctx.function.backward(grad, inputs, outputs))
        return None, *(g if need else None for g, need in zip(found, needs, strict=True))
