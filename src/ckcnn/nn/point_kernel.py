"""A kernel of moving points (SMPConv, Kim and Park, 2023): neither a network nor an omega_0."""

# C channels, N points, L coordinates

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ckcnn.checks import check_counts
from ckcnn.nn.by_hand import ByHand
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
        return _POINTS(p, self.place, self.radii, self.weight)

    @torch.no_grad()
    def scale_outputs(self, factors: Tensor) -> None:
        """Multiply each output by a factor, ``(C,)``."""
        self.weight.mul_(factors[:, None])


def _groups(p: Tensor, *values: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """A few points at a time, of each of the tensors ``(C, N)``."""
    at_once = 1  # on a CPU, where one point stays in the cache
    if p.device.type != "cpu":
        at_once = max(1, schedule_for(p.device).signal_bytes // (len(values[0]) * len(p) * p.element_size()))
    yield from zip(*(torch.split(value, at_once, dim=1) for value in values), strict=True)


def _plain(p: Tensor, place: Tensor, radii: Tensor, weight: Tensor) -> Tensor:
    total = active = torch.zeros((), dtype=p.dtype, device=p.device)
    for some, extent, height in _groups(p, place, radii.clamp(*RADII), weight):
        rises = (1 - (p - some[..., None]).abs() / extent[..., None]).relu()  # (C, points, L)
        total = total + (height[:, None] @ rises)[:, 0]
        active = active + (rises.detach() > 0).sum(1)
    return total / active.clamp_min(1)


def _forward(p: Tensor, place: Tensor, radii: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    total, active = None, None
    for some, extent, height in _groups(p, place, radii.clamp(*RADII), weight):
        rises = torch.rsub((p - some[..., None]).div_(extent[..., None]).abs_(), 1).relu_()
        value = (height[:, None] @ rises)[:, 0]
        count = (rises > 0).sum(1, dtype=p.dtype)
        total = value if total is None else total.add_(value)
        active = count if active is None else active.add_(count)
    assert total is not None
    assert active is not None
    return total.div_(active.clamp_min_(1)), active


def _backward(grad: Tensor, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Everything is a sum over lags of a gradient that all points share; nothing as large as all points is kept."""
    p, place, radii, weight = inputs
    shared = (grad / outputs[1])[..., None]  # (C, L, 1)
    clamped = radii.clamp(*RADII)
    found: list[list[Tensor]] = [[], [], []]
    for some, extent, height in _groups(p, place, clamped, weight):
        away = (p - some[..., None]).div_(extent[..., None])
        rises = torch.rsub(away.abs(), 1).relu_()
        sides = away.sign_().mul_(rises > 0)  # -1 before, 1 after a point
        slopes = height / extent
        found[0].append((sides @ shared)[..., 0].mul_(slopes))
        by_height = (rises @ shared)[..., 0]
        found[1].append(((sides.abs_() @ shared)[..., 0].sub_(by_height)).mul_(slopes))
        found[2].append(by_height)
    by_place, by_radius, by_weight = (parts[0] if len(parts) == 1 else torch.cat(parts, 1) for parts in found)
    return by_place, by_radius.mul_(radii == clamped), by_weight


_POINTS = ByHand(_plain, _forward, _backward)
