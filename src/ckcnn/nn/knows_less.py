"""Networks that take a signal alone, under whoever also gives a sampling step, time stamps and lengths."""

# B batch, C channels, T time

from __future__ import annotations

import inspect
from typing import Any

from torch import Tensor, nn

_SAMPLED = ("dt", "times", "lengths")


class KnowsLess(nn.Module):
    """A network that takes less than a sampling step, time stamps and lengths.

    Args:
        net: the network.
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net, self.takes = net, taken(net)

    @classmethod
    def around(cls, net: nn.Module) -> nn.Module:
        """Return a network that takes all of them: this one, if it does."""
        return net if taken(net) == _SAMPLED else cls(net)

    def forward(self, x: Tensor, dt: float = 1.0, times: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """Maps signals ``(B, C, T)`` to the answers of the network.

        Raises:
            ValueError: if the sequences have time stamps or lengths, and the network takes none.
        """
        sampled: dict[str, Any] = {"dt": dt, "times": times, "lengths": lengths}
        for name in ("times", "lengths"):
            if sampled[name] is not None and name not in self.takes:
                raise ValueError(
                    f"the data has {name}, and the forward of {type(self.net).__name__} takes none; "
                    f"give it an argument {name}"
                )
        answers: Tensor = self.net(x, **{name: sampled[name] for name in self.takes})
        return answers


def taken(net: nn.Module) -> tuple[str, ...]:
    """Return what the forward of a network takes beside the signal: of a sampling step, time stamps and lengths."""
    parameters = inspect.signature(net.forward).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return _SAMPLED
    return tuple(name for name in _SAMPLED if name in parameters)
