"""A whole sine kernel net as one operator: on a CPU its dozens of tiny operators cost more than their arithmetic.

The net is ``sin(w2 (W2 sin(w1 (W1 p + b1)) + b2))`` and a linear read-out, all weights normalised:
``W = g v / ||v||``, one norm a row.
"""

# O outputs of the kernel, K basis functions, L coordinates

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vjp

from ckcnn.nn.operators import define

_Frequencies = tuple[float, float]


def siren_parts(p: Tensor, layers: tuple[nn.Linear, nn.Linear, nn.Linear], w: _Frequencies) -> tuple[Tensor, Tensor]:
    """Return the basis with a row of ones ``(K + 1, L)`` and the read-out with its bias ``(O, K + 1)``.

    Compilers and `torch.func` get plain tensor functions, into which they can see; so do layers whose weight is
    parametrised in another way than by `torch.nn.utils.parametrizations.weight_norm`.

    Args:
        p: coordinates ``(L,)``.
        layers: first, second and read-out layer.
        w: what the arguments of the two sines are multiplied by.
    """
    plain = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    pairs = None if plain else [_direction_and_norm(layer) for layer in layers]
    biases = [layer.bias for layer in layers]
    if pairs is None or None in pairs:
        return _plain([layer.weight for layer in layers], biases, p, w)
    inputs = [tensor for pair, bias in zip(pairs, biases, strict=True) for tensor in (*pair, bias)]  # type: ignore[misc]
    basis, weight, *_ = _siren(p, *inputs, *w)
    return basis, weight


def _direction_and_norm(layer: nn.Linear) -> tuple[Tensor, Tensor] | None:
    """Return ``(g, v)`` of a normalised layer, or None if its weight is not just that."""
    parametrizations = layer._modules.get("parametrizations")
    if parametrizations is None:
        return None
    weight = parametrizations._modules["weight"]
    if len(weight) != 1 or type(weight[0]).__name__ != "_WeightNorm" or weight[0].dim != 0:  # type: ignore[arg-type, index]
        return None
    return weight.original0, weight.original1  # type: ignore[return-value, union-attr]


def _plain(weights: list[Tensor], biases: list[Tensor], p: Tensor, w: _Frequencies) -> tuple[Tensor, Tensor]:
    h = torch.sin(w[0] * (weights[0] * p + biases[0][:, None]))
    basis = torch.sin(w[1] * (weights[1] @ h + biases[1][:, None]))
    read_out = torch.cat([weights[2], biases[2][:, None]], dim=1)
    return torch.cat([basis, torch.ones_like(basis[:1])]), read_out


def _kernel(p: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    g1, v1, b1, g2, v2, b2, g3, v3, b3, w1, w2 = rest
    first, norms1 = torch._weight_norm_interface(v1, g1)
    second, norms2 = torch._weight_norm_interface(v2, g2)
    read_out, norms3 = torch._weight_norm_interface(v3, g3)
    units, length = len(b1), len(p)
    phases = p.new_empty(2, units, length)
    torch.addmm(b1[:, None], first, p[None], beta=w1, alpha=w1, out=phases[0])
    torch.addmm(b2[:, None], second, phases[0].sin(), beta=w2, alpha=w2, out=phases[1])
    basis = p.new_empty(units + 1, length)
    torch.sin(phases[1], out=basis[:units])
    basis[units].fill_(1)
    return basis, torch.cat([read_out, b3[:, None]], dim=1), phases, second, norms1, norms2, norms3


def _fake(p: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    g1, v1, _, g2, v2, _, g3, v3, _, _, _ = rest
    units, length = len(v1), len(p)
    basis, phases = p.new_empty(units + 1, length), p.new_empty(2, units, length)
    norms = [torch.empty_like(g) for g in (g1, g2, g3)]
    return basis, v3.new_empty(len(v3), units + 1), phases, torch.empty_like(v2), *norms


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*output[2:])
    ctx.save_for_backward(*inputs[:10], output[0], *output[2:])
    ctx.w = inputs[10:]


def _pull(ctx: Any, grad_basis: Tensor | None, grad_weight: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    saved = ctx.saved_tensors
    needs_p = ctx.needs_input_grad[0]
    if grad_basis is None:
        grad_basis = torch.zeros_like(saved[10])
    if grad_weight is None:
        grad_weight = saved[8].new_zeros(len(saved[8]), len(saved[10]))
    grads = _siren_backward(grad_basis, grad_weight, *saved, *ctx.w, needs_p)
    needed = zip(grads, ctx.needs_input_grad, strict=False)
    return *(grad if need else None for grad, need in needed), None, None


def _backward_kernel(grad_basis: Tensor, grad_weight: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    """Scaled products instead of products and scalings; the row of ones of the basis sums a gradient over lags."""
    p, g1, v1, _, g2, v2, _, g3, v3, _, basis, phases, second, norms1, norms2, norms3, w1, w2, needs_p = rest
    units = len(second)
    ones, nothing = basis[units], p.new_empty(1)
    grad2 = phases[1].cos().mul_(grad_basis[:units])
    grad_second = torch.addmm(nothing, grad2, phases[0].sin().T, beta=0, alpha=w2)
    grad_b2 = torch.addmv(nothing, grad2, ones, beta=0, alpha=w2)
    grad1 = torch.addmm(nothing, second.T, grad2, beta=0, alpha=w1 * w2).mul_(phases[0].cos())
    grad_first, grad_b1 = (grad1 @ p)[:, None], grad1 @ ones
    grads = [
        torch.ops.aten._weight_norm_interface_backward(grad, v, g, norms, 0)
        for grad, v, g, norms in (
            (grad_first, v1, g1, norms1),
            (grad_second, v2, g2, norms2),
            (grad_weight[:, :units].contiguous(), v3, g3, norms3),
        )
    ]
    (grad_v1, grad_g1), (grad_v2, grad_g2), (grad_v3, grad_g3) = grads
    grad_b3 = grad_weight[:, units].clone()
    # d phase / d p = w1 W1, which is read off g and v, since nothing else needs W1
    grad_p = (v1 * (g1 / norms1))[:, 0] @ grad1 if needs_p else p.new_empty(0)
    return grad_p, grad_g1, grad_v1, grad_b1, grad_g2, grad_v2, grad_b2, grad_g3, grad_v3, grad_b3


def _backward_fake(grad_basis: Tensor, grad_weight: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    grad_p = torch.empty_like(rest[0]) if rest[-1] else rest[0].new_empty(0)
    return grad_p, *(torch.empty_like(tensor) for tensor in rest[1:10])


def _save_for_second(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs[:12])
    ctx.w, ctx.needs_p = inputs[18:20], inputs[20]


def _pull_second(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    """Differentiate the gradients once more, through plain tensor functions."""

    def forward(p: Tensor, *rest: Tensor) -> tuple[Tensor, Tensor]:
        weights = [torch._weight_norm(rest[i + 1], rest[i], 0) for i in (0, 3, 6)]
        return _plain(weights, list(rest[2::3]), p, ctx.w)

    def first(grad_basis: Tensor, grad_weight: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = vjp(forward, *inputs)[1]((grad_basis, grad_weight))
        return found

    values, pull = vjp(first, *ctx.saved_tensors)
    needed = [grad is not None and (index > 0 or ctx.needs_p) for index, grad in enumerate(grads)]
    known = [grad if need else torch.zeros_like(value) for grad, value, need in zip(grads, values, needed, strict=True)]
    return *pull(tuple(known)), *([None] * 9)


_PARAMETERS = ", ".join(f"Tensor g{i}, Tensor v{i}, Tensor b{i}" for i in (1, 2, 3))
_siren = define(
    f"siren(Tensor p, {_PARAMETERS}, float w1, float w2) -> ({', '.join(['Tensor'] * 7)})",
    *(_kernel, _fake, _save, _pull),
)
_siren_backward = define(
    f"siren_backward(Tensor grad_basis, Tensor grad_weight, Tensor p, {_PARAMETERS}, Tensor basis, Tensor phases, "
    "Tensor second, Tensor norms1, Tensor norms2, Tensor norms3, float w1, float w2, bool needs_p)"
    f" -> ({', '.join(['Tensor'] * 10)})",
    *(_backward_kernel, _backward_fake, _save_for_second, _pull_second),
)
