"""The depthwise convolution by FFT as an operator with fake kernels and derivatives of every order."""

# B batch, C channels, T time, L lags

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.func import vjp

from ckcnn.compat.torch import transforms_are_active
from ckcnn.nn.depthwise import depthwise, depthwise_backward, make_depthwise_plan
from ckcnn.nn.operators import define
from ckcnn.nn.precision import full_precision


def depthwise_conv(
    x: Tensor, kernel: Tensor, bias: Tensor | None = None, advance: int = 0, reaches: list[int] | None = None
) -> Tensor:
    """Convolve each channel with its own kernel; shapes and types are trusted to fit.

    ::

        y[c, t] = sum over j of  kernel[c, j] x[c, t - (j - advance)] + bias[c],   x zero outside its samples

    Args:
        x: signal ``(B, C, T)``.
        kernel: samples ``(C, L)``; index ``j`` is lag ``j - advance``.
        bias: ``(C,)`` or None.
        advance: samples of the kernel that look ahead; 0 is causal.
        reaches: how many samples the kernel of each channel reaches back and ahead, or one number for all; what it has
            beyond is negligible and may be left out, which makes transforms shorter. None to leave out nothing.

    Returns:
        ``(B, C, T)`` in the type of `x`; computed in at least float32.
    """
    if torch.compiler.is_compiling():
        keep = False  # the sizes of spectra would make a graph for each length, so they are computed again
    elif transforms_are_active():  # torch.func sees into plain tensor functions only
        return plain_depthwise(x, kernel, bias, advance)
    else:
        keep = torch.is_grad_enabled() and kernel.requires_grad
    y: Tensor = _depthwise(x, kernel, bias, advance, reaches or [], keep)[0]
    return y


def plain_depthwise(x: Tensor, kernel: Tensor, bias: Tensor | None, advance: int) -> Tensor:
    """Compute `depthwise_conv` in tensor functions that can be differentiated and vectorised any number of times."""
    plan = make_depthwise_plan(x, kernel, advance, [])
    padded = torch.nn.functional.pad(kernel.to(plan.dtype)[:, : plan.lags], (0, plan.whole.n - plan.lags))
    kernel_hat = torch.fft.rfft(padded.roll(-advance, -1))
    y = torch.fft.irfft(kernel_hat * torch.fft.rfft(x.to(plan.dtype), plan.whole.n), plan.whole.n)[..., : plan.length]
    return (y if bias is None else y + bias[:, None].to(plan.dtype)).to(x.dtype)


def _fake(
    x: Tensor, kernel: Tensor, bias: Tensor | None, advance: int, reaches: list[int], keep: bool
) -> tuple[Tensor, Tensor]:
    dtype = torch.promote_types(kernel.dtype, torch.float32)
    size = make_depthwise_plan(x, kernel, advance, reaches).kept_size if keep else 0
    return x.new_empty(x.shape), x.new_empty(size, 2, dtype=dtype)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, kernel, _, ctx.advance, ctx.reaches, _ = inputs
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(x, kernel, output[1])


def _pull(ctx: Any, grad: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 6
    needs = list(ctx.needs_input_grad[:3])
    grads = _depthwise_backward(grad, *ctx.saved_tensors, ctx.advance, ctx.reaches, needs)
    return *(g if need else None for g, need in zip(grads, needs, strict=True)), None, None, None


def _backward_fake(
    grad: Tensor, x: Tensor, kernel: Tensor, kept: Tensor, advance: int, reaches: list[int], needs: list[bool]
) -> tuple[Tensor, Tensor, Tensor]:
    shapes = (x.shape, kernel.shape, kernel.shape[:1])
    a, b, c = (
        like.new_empty(shape if need else (0,))
        for like, shape, need in zip((x, kernel, kernel), shapes, needs, strict=True)
    )
    return a, b, c


def _save_for_second(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs[:3])
    ctx.advance, _, ctx.needs = inputs[4:]


def _pull_second(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    """Differentiate the gradients once more, through `plain_depthwise`: slower, and of every order."""
    grad, x, kernel = ctx.saved_tensors

    def first(grad: Tensor, x: Tensor, kernel: Tensor) -> tuple[Tensor, ...]:
        bias = kernel.new_zeros(len(kernel))

        def conv(x: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
            return plain_depthwise(x, kernel, bias, ctx.advance)

        found: tuple[Tensor, ...] = vjp(conv, x, kernel, bias)[1](grad)
        return found

    with full_precision(x.device):
        values, pull = vjp(first, grad, x, kernel)[:2]
        known = tuple(
            torch.zeros_like(value) if g is None or not need else g
            for value, g, need in zip(values, grads, ctx.needs, strict=True)
        )
        found = pull(known)
    return *found, None, None, None, None


_depthwise = define(
    "depthwise(Tensor x, Tensor kernel, Tensor? bias, SymInt advance, int[] reaches, bool keep) -> (Tensor, Tensor)",
    *(depthwise, _fake, _save, _pull),
)
_depthwise_backward = define(
    "depthwise_backward(Tensor grad, Tensor x, Tensor kernel, Tensor kept, SymInt advance, int[] reaches, bool[] needs)"
    " -> (Tensor, Tensor, Tensor)",
    *(depthwise_backward, _backward_fake, _save_for_second, _pull_second),
)
