"""The operators that this library registers with PyTorch, in the namespace ``ckcnn``.

A registered operator is one node for compilers and exporters: they ask its *fake* for shapes and types, and never look
into its kernel. `torch.library.Library` instead of the decorator `torch.library.custom_op` because it takes half the
time per call, which small shapes notice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ckcnn.nn.precision import full_precision

Operator = Callable[..., Any]  # a registered one; torch keeps its class private

KERNELS: dict[Operator, Callable[..., Any]] = {}
"""What each operator really runs, for tools that look inside, such as the counter of `benchmarks.operators`."""

_LIBRARY = torch.library.Library("ckcnn", "DEF")  # type: ignore[no-untyped-call]


def define(
    schema: str,
    kernel: Callable[..., Any],
    fake: Callable[..., Any],
    setup_context: Callable[..., None],
    backward: Callable[..., Any],
) -> Operator:
    """Register an operator for all devices.

    Args:
        schema: its name and arguments, such as ``"twice(Tensor x) -> Tensor"``.
        kernel: what it computes, with ordinary tensor functions; knows nothing of autograd, and of autocast neither:
            it always runs in the types of its arguments.
        fake: results of the right shapes and types, without values.
        setup_context: saves what `backward` needs.
        backward: the gradients of all arguments.
    """

    def run(first: Tensor, *rest: Any) -> Any:
        with full_precision(first.device):
            return kernel(first, *rest)

    name = schema[: schema.index("(")]
    _LIBRARY.define(schema)  # type: ignore[no-untyped-call]
    _LIBRARY.impl(name, run, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
    torch.library.register_fake(f"ckcnn::{name}", fake, lib=_LIBRARY)
    torch.library.register_autograd(f"ckcnn::{name}", backward, setup_context=setup_context, lib=_LIBRARY)
    operator: Operator = getattr(torch.ops.ckcnn, name).default
    KERNELS[operator] = run
    return operator
