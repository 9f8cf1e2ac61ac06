"""A kernel of moving points (SMPConv, Kim and Park, 2023): neither a network nor an omega_0."""

# C channels, N points, L coordinates

from __future__ import annotations

import torch
from torch import Tensor, nn

from ckcnn.checks import check_counts
from ckcnn.nn.checks import RADII, check_radius
from ckcnn.nn.schedule import schedule_for

_SPREAD = 0.2  # deviation of the places at the start; the memory is 2 long
_WEIGHT = 0.02


class PointKernel(nn.Module):
    """A few triangles around points that move and grow, for each channel its own.

    ::

        kernel_c(p) = sum over i of  w_ci relu(1 - |p - p_ci| / r_ci)  /  (points with |p - p_ci| < r_ci)

    For `ckcnn.nn.DepthwiseCKConv`. A `CKConv` needs a basis that all of its channels share.

    Args:
        outputs: channels.
        radius: of the points at the start, as a fraction of half of the memory; about one sample is right.
        points: of each channel.
        causal: whether the present lies at +1 (otherwise at 0); the points start near it.
    """

    def __init__(self, outputs: int, radius: float = 0.002, points: int = 30, causal: bool = True) -> None:
        super().__init__()
        check_counts(outputs=outputs, points=points)
        check_radius(radius)
        self.outputs, self.radius, self.causal = outputs, radius, causal
        self.place = nn.Parameter(torch.empty(outputs, points))
        self.radii = nn.Parameter(torch.empty(outputs, points))
        self.weight = nn.Parameter(torch.empty(outputs, points))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Initialise all parameters."""
        if self.causal:
            nn.init.trunc_normal_(self.place, 1.0, _SPREAD, -1.0, 1.0)
        else:
            nn.init.trunc_normal_(self.place, 0.0, _SPREAD, -1.0, 1.0)
        self.radii.fill_(self.radius)
        self.weight.normal_(std=_WEIGHT)

    def forward(self, p: Tensor) -> Tensor:
        """The kernel at coordinates ``(L,) -> (C, L)``."""
        at_once = 1  # on a CPU, where one point stays in the cache
        if p.device.type != "cpu":
            at_once = max(1, schedule_for(p.device).signal_bytes // (self.outputs * len(p) * p.element_size()))
        total = active = torch.zeros((), dtype=p.dtype, device=p.device)
        parts = (torch.split(values, at_once, dim=1) for values in (self.place, self.radii.clamp(*RADII), self.weight))
        for place, radii, weight in zip(*parts, strict=True):
            heights = (1 - (p - place[..., None]).abs() / radii[..., None]).relu()  # (C, points, L)
            total = total + (weight[:, None] @ heights)[:, 0]
            active = active + (heights.detach() > 0).sum(1)
        return total / active.clamp_min(1)

    @torch.no_grad()
    def scale_outputs(self, factors: Tensor) -> None:
        """Multiply each output by a factor, ``(C,)``."""
        self.weight.mul_(factors[:, None])
