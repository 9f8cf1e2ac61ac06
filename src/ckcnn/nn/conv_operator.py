"""The convolution by FFT as an operator with fake kernels and derivatives of every order."""

# B batch, O out channels, I in channels, T time, L lags, K basis functions

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.func import vjp

from ckcnn.compat.torch import transforms_are_active
from ckcnn.nn.operators import define
from ckcnn.nn.plan import make_plan
from ckcnn.nn.precision import full_precision
from ckcnn.nn.spectral import convolve, convolve_backward

_Four = tuple[Tensor, Tensor, Tensor, Tensor]


def spectral_conv(
    x: Tensor,
    kernel: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    advance: int = 0,
    n: int | None = None,
) -> Tensor:
    """Convolve ``y[t] = sum over lags u of kernel(u) @ x[t - u] + bias``; shapes and types are trusted to fit.

    Args:
        x: signal ``(B, I, T)``.
        kernel: samples ``(O, I, L)``, or a basis ``(K, L)`` if there is a weight.
        weight: read-out ``(O, I, K)`` for the kernel ``weight @ basis``, which is never built.
        bias: ``(O,)`` or None.
        advance: samples of the kernel that look ahead: kernel index ``j`` is lag ``j - advance``.
        n: FFT length; by default the shortest good one in which nothing wraps around.

    Returns:
        ``(B, O, T)`` in the type of `x`; computed in at least float32.
    """
    if torch.compiler.is_compiling():
        keep = False  # the sizes of spectra would make a graph for each length, so they are computed again
    elif transforms_are_active():  # torch.func sees into plain tensor functions only
        return plain_conv(x, kernel, weight, bias, advance, n)
    else:
        inputs = (x, kernel, weight, bias)
        keep = torch.is_grad_enabled() and any(part is not None and part.requires_grad for part in inputs)
    y: Tensor = _conv(x, kernel, weight, bias, advance, n, keep)[0]
    return y


def plain_conv(
    x: Tensor, kernel: Tensor, weight: Tensor | None, bias: Tensor | None, advance: int, n: int | None
) -> Tensor:
    """Compute `spectral_conv` in tensor functions that can be differentiated and vectorised any number of times."""
    plan = make_plan(x, kernel, weight, advance, n, keep=False)
    kernel = kernel.to(plan.dtype)[..., : plan.lags]
    if weight is not None:
        kernel = weight.to(plan.dtype) @ kernel
    padded = torch.nn.functional.pad(kernel, (0, plan.n - plan.lags)).roll(-advance, -1)
    x_hat, kernel_hat = torch.fft.rfft(x.to(plan.dtype), plan.n), torch.fft.rfft(padded)
    y = torch.fft.irfft(torch.einsum("oif,bif->bof", kernel_hat, x_hat), plan.n)[..., : plan.length]
    return (y if bias is None else y + bias[:, None].to(plan.dtype)).to(x.dtype)


def _fake(
    x: Tensor, kernel: Tensor, weight: Tensor | None, bias: Tensor | None, advance: int, n: int | None, keep: bool
) -> _Four:
    dtype = torch.promote_types(kernel.dtype, torch.float32)
    out_channels, in_channels = (kernel if weight is None else weight).shape[:2]
    y = x.new_empty(x.shape[0], out_channels, x.shape[2])
    shapes: list[tuple[int, ...]] = [(0,), (0,), (0,)]
    if keep:
        plan = make_plan(x, kernel, weight, advance, n, keep)
        if plan.keeps_signal:
            shapes[0] = (plan.frequencies, in_channels, plan.batch, 2)
        if weight is not None:
            shapes[1] = (plan.frequencies, 2, kernel.shape[0])
        if plan.keeps_kernel:
            shapes[2] = (plan.frequencies, out_channels, in_channels, 2)
    a, b, c = (x.new_empty(shape, dtype=dtype) for shape in shapes)
    return y, a, b, c


def _save(ctx: Any, inputs: tuple[Any, ...], output: _Four) -> None:
    x, kernel, weight, _, ctx.advance, ctx.n, _ = inputs
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*output[1:])
    ctx.save_for_backward(x, kernel, weight, *output[1:])


def _pull(ctx: Any, grad: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 7
    x, kernel, weight, *kept = ctx.saved_tensors
    needs = list(ctx.needs_input_grad[:4])
    grads = _conv_backward(grad, x, kernel, weight, *kept, ctx.advance, ctx.n, needs)
    return *(g if need else None for g, need in zip(grads, needs, strict=True)), None, None, None


def _backward_kernel(
    grad: Tensor,
    x: Tensor,
    kernel: Tensor,
    weight: Tensor | None,
    x_hat: Tensor,
    rows: Tensor,
    whole: Tensor,
    advance: int,
    n: int | None,
    needs: list[bool],
) -> _Four:
    grads = convolve_backward(grad, x, kernel, weight, (x_hat, rows, whole), advance, n, needs)
    types = (x, kernel, kernel if weight is None else weight, kernel)
    a, b, c, d = (like.new_empty(0) if g is None else g.to(like.dtype) for g, like in zip(grads, types, strict=True))
    return a, b, c, d


def _backward_fake(grad: Tensor, x: Tensor, kernel: Tensor, weight: Tensor | None, *rest: Any) -> _Four:
    needs = rest[-1]
    parts = needs[1] or needs[2]
    read_out = kernel if weight is None else weight
    shapes = [x.shape, kernel.shape, read_out.shape, read_out.shape[:1]]
    wanted = [needs[0], parts, parts and weight is not None, needs[3]]
    types = (x, kernel, read_out, kernel)
    a, b, c, d = (
        like.new_empty(shape if want else (0,)) for like, shape, want in zip(types, shapes, wanted, strict=True)
    )
    return a, b, c, d


def _save_for_second(ctx: Any, inputs: tuple[Any, ...], output: _Four) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs[:4])
    ctx.advance, ctx.n, ctx.needs = inputs[7:]


def _pull_second(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    """Differentiate the gradients once more, through `plain_conv`: slower, and of every order."""
    grad, x, kernel, weight = ctx.saved_tensors
    parts: tuple[Tensor, ...] = (x, kernel) if weight is None else (x, kernel, weight)

    def first(grad: Tensor, *parts: Tensor) -> tuple[Tensor, ...]:
        bias = parts[0].new_zeros(grad.shape[1], dtype=kernel.dtype)

        def conv(bias: Tensor, *parts: Tensor) -> Tensor:
            return plain_conv(parts[0], parts[1], parts[2] if len(parts) == 3 else None, bias, ctx.advance, ctx.n)

        found: tuple[Tensor, ...] = vjp(conv, bias, *parts)[1](grad)
        missing: tuple[Tensor, ...] = () if len(parts) == 3 else (kernel.new_empty(0),)  # no weight
        return found[1:] + missing + found[:1]

    with full_precision(x.device):
        values, pull = vjp(first, grad, *parts)[:2]
        known = tuple(
            torch.zeros_like(value) if g is None or not need else g
            for value, g, need in zip(values, grads, ctx.needs, strict=True)
        )
        found = pull(known)
    return *found, *([None] * (10 - len(found)))


_conv = define(
    "conv(Tensor x, Tensor kernel, Tensor? weight, Tensor? bias, SymInt advance, SymInt? n, bool keep)"
    " -> (Tensor, Tensor, Tensor, Tensor)",
    *(convolve, _fake, _save, _pull),
)
_conv_backward = define(
    "conv_backward(Tensor grad, Tensor x, Tensor kernel, Tensor? weight, Tensor x_hat, Tensor rows, Tensor whole,"
    " SymInt advance, SymInt? n, bool[] needs) -> (Tensor, Tensor, Tensor, Tensor)",
    *(_backward_kernel, _backward_fake, _save_for_second, _pull_second),
)
