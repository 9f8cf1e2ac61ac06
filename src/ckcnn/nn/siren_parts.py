"""A whole sine kernel net as one node of autograd, because its dozens of tiny operators cost launches and memory.

The net is ``sin(w2 (W2 sin(w1 (W1 p + b1)) + b2))`` and a linear read-out, all weights normalised:
``W = g v / ||v||``, one norm a row.
"""

# O outputs of the kernel, K basis functions, L coordinates

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vjp
from torch.nn.utils.parametrize import is_parametrized

from ckcnn.compat.torch import normalised_weight, normalised_weight_backward, transforms_are_active
from ckcnn.nn.precision import full_precision

_Frequencies = tuple[float, float]
_Gradients = tuple[Tensor | None, ...]


def siren_parts(p: Tensor, layers: tuple[nn.Linear, nn.Linear, nn.Linear], w: _Frequencies) -> tuple[Tensor, Tensor]:
    """Return the basis with a row of ones ``(K + 1, L)`` and the read-out with its bias ``(O, K + 1)``.

    Compilers and `torch.func` get plain tensor functions, into which they can see; so do layers whose weight is
    parametrised in another way than by `torch.nn.utils.parametrizations.weight_norm`.

    Args:
        p: coordinates ``(L,)``.
        layers: first, second and read-out layer.
        w: what the arguments of the two sines are multiplied by.
    """
    plain = torch.compiler.is_compiling() or transforms_are_active()
    pairs = None if plain else [_direction_and_norm(layer) for layer in layers]
    biases: list[Tensor] = [layer.bias for layer in layers]
    if pairs is None or None in pairs:
        return _plain([layer.weight for layer in layers], biases, p, w)
    inputs = [tensor for pair, bias in zip(pairs, biases, strict=True) for tensor in (*pair, bias)]  # type: ignore[misc]
    basis, weight, *_ = _Siren.apply(p, *inputs, *w)  # type: ignore[no-untyped-call]
    return basis, weight


def _direction_and_norm(layer: nn.Linear) -> tuple[Tensor, Tensor] | None:
    """Return ``(g, v)`` of a normalised layer, or None if its weight is not just that."""
    if not is_parametrized(layer, "weight"):
        return None
    weight = layer.get_submodule("parametrizations.weight")
    if len(weight) != 1 or type(weight[0]).__name__ != "_WeightNorm" or weight[0].dim != 0:  # type: ignore[arg-type, index]
        return None
    return weight.original0, weight.original1  # type: ignore[return-value]


def _plain(weights: list[Tensor], biases: list[Tensor], p: Tensor, w: _Frequencies) -> tuple[Tensor, Tensor]:
    h = torch.sin(w[0] * (weights[0] * p + biases[0][:, None]))
    basis = torch.sin(w[1] * (weights[1] @ h + biases[1][:, None]))
    read_out = torch.cat([weights[2], biases[2][:, None]], dim=1)
    return torch.cat([basis, torch.ones_like(basis[:1])]), read_out


class _Siren(torch.autograd.Function):
    """The same with derivatives by hand.

    Not a registered operator, because no compiler ever gets to see it, and the dispatch of an operator with so many
    arguments would take as long as its arithmetic.
    """

    @staticmethod
    def forward(p: Tensor, g1: Tensor, v1: Tensor, b1: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        g2, v2, b2, g3, v3, b3, w1, w2 = rest
        first, norms1 = normalised_weight(v1, g1)
        second, norms2 = normalised_weight(v2, g2)
        read_out, norms3 = normalised_weight(v3, g3)
        units, length = len(b1), len(p)
        phases = p.new_empty(2, units, length)
        phase1, phase2 = phases.unbind()
        torch.addmm(b1[:, None], first, p[None], beta=w1, alpha=w1, out=phase1)
        torch.addmm(b2[:, None], second, phase1.sin(), beta=w2, alpha=w2, out=phase2)
        basis = p.new_empty(units + 1, length)
        torch.sin(phase2, out=basis[:units])
        basis[units].fill_(1)
        return basis, torch.cat([read_out, b3[:, None]], dim=1), phases, second, norms1, norms2, norms3

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*output[2:])
        ctx.save_for_backward(*inputs[:10], output[0], *output[2:])
        ctx.w = inputs[10:]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        grad_basis = torch.zeros_like(saved[10]) if grads[0] is None else grads[0]
        grad_weight = saved[8].new_zeros(len(saved[8]), len(saved[10])) if grads[1] is None else grads[1]
        with full_precision(grad_basis.device):
            if torch.is_grad_enabled() or ctx.needs_input_grad[0]:  # somebody differentiates twice, or by p
                found = _plain_backward(grad_basis, grad_weight, saved[:10], ctx.w)
            else:
                found = _backward(grad_basis, grad_weight, saved, ctx.w)
        return *(g if need else None for g, need in zip(found, ctx.needs_input_grad, strict=False)), None, None


def _backward(grad_basis: Tensor, grad_weight: Tensor, saved: tuple[Tensor, ...], w: _Frequencies) -> _Gradients:
    """Scaled products instead of products and scalings; the row of ones of the basis sums a gradient over lags."""
    p, g1, v1, _, g2, v2, _, g3, v3, _, basis, phases, second, norms1, norms2, norms3 = saved
    units = len(second)
    phase1, phase2 = phases.unbind()
    ones, nothing = basis[units], p.new_empty(1)
    grad2 = phase2.cos().mul_(grad_basis[:units])
    grad_second = torch.addmm(nothing, grad2, phase1.sin().T, beta=0, alpha=w[1])
    grad_b2 = torch.addmv(nothing, grad2, ones, beta=0, alpha=w[1])
    grad1 = torch.addmm(nothing, second.T, grad2, beta=0, alpha=w[0] * w[1]).mul_(phase1.cos())
    grad_b1, grad_first = torch.mv(grad1, ones), torch.mv(grad1, p)[:, None]
    grad_v1, grad_g1 = normalised_weight_backward(grad_first, v1, g1, norms1)
    grad_v2, grad_g2 = normalised_weight_backward(grad_second, v2, g2, norms2)
    grad_v3, grad_g3 = normalised_weight_backward(grad_weight[:, :units].contiguous(), v3, g3, norms3)
    grad_b3 = grad_weight[:, units].clone()
    return None, grad_g1, grad_v1, grad_b1, grad_g2, grad_v2, grad_b2, grad_g3, grad_v3, grad_b3


def _plain_backward(grad_basis: Tensor, grad_weight: Tensor, inputs: tuple[Tensor, ...], w: _Frequencies) -> _Gradients:
    """Compute the gradients in tensor functions that can be differentiated again."""

    def forward(p: Tensor, *rest: Tensor) -> tuple[Tensor, Tensor]:
        pairs = zip(rest[::3], rest[1::3], strict=True)
        weights = [v * (g / torch.linalg.vector_norm(v, dim=1, keepdim=True)) for g, v in pairs]
        return _plain(weights, list(rest[2::3]), p, w)

    found: _Gradients = vjp(forward, *inputs)[1]((grad_basis, grad_weight))
    return found
