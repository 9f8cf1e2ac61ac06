"""Which parameters are decayed, and which learn at a rate of their own."""

from __future__ import annotations

from typing import Any

from torch import nn

from ckcnn.nn import GaussianWindow, KernelNet, PointKernel


def parameter_groups(
    net: nn.Module, learning_rate: float, weight_decay: float, kernel_rate: float = 1.0, window_rate: float = 1.0
) -> list[dict[str, Any]]:
    """Groups for an optimiser: kernel nets and windows with their own rates, and decay for matrices outside of them.

    Groups with the same settings are one, so that a plain optimiser gets all parameters in their order.

    Args:
        net: the network.
        learning_rate: of everything else.
        weight_decay: of matrices; vectors (biases, norms, skips), kernel nets and windows have none.
        kernel_rate: learning rate of the kernel nets, as a multiple.
        window_rate: learning rate of the windows, as a multiple.
    """
    rates: dict[int, float] = {}
    for module in net.modules():
        if isinstance(module, KernelNet | PointKernel | GaussianWindow):
            rate = window_rate if isinstance(module, GaussianWindow) else kernel_rate
            rates |= {id(parameter): rate for parameter in module.parameters()}
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for parameter in net.parameters():
        special = id(parameter) in rates
        decay = 0.0 if special or parameter.dim() < 2 else weight_decay
        groups.setdefault((learning_rate * rates.get(id(parameter), 1.0), decay), []).append(parameter)
    return [{"params": params, "lr": lr, "weight_decay": decay} for (lr, decay), params in groups.items()]
