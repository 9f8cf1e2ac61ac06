"""GRU, LSTM and TCN classifiers of about a given number of parameters."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class Recurrent(nn.Module):
    """One recurrent layer, read at the last step."""

    def __init__(self, kind: type[nn.GRU] | type[nn.LSTM], in_channels: int, classes: int, parameters: int) -> None:
        super().__init__()
        gates = 3 if kind is nn.GRU else 4
        linear = gates * (in_channels + 2) + classes
        hidden = round((math.sqrt(linear**2 + 4 * gates * parameters) - linear) / (2 * gates))
        self.layer = kind(in_channels, hidden, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x.mT.contiguous())[0][:, -1])


class TCN(nn.Module):
    """Dilated causal convolutions of width 7, two in a residual block, as many blocks as it takes to see `length`."""

    WIDTH = 7

    def __init__(self, in_channels: int, classes: int, parameters: int, length: int) -> None:
        super().__init__()
        reach = 2 * (self.WIDTH - 1)
        levels = math.ceil(math.log2((length - 1) / reach + 1))
        hidden = round(math.sqrt(parameters / ((2 * levels - 1) * self.WIDTH)))  # the first convolution is small
        channels = [in_channels] + [hidden] * levels
        self.blocks = nn.ModuleList(_Block(channels[i], hidden, 2**i) for i in range(levels))
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x[..., -1])


class _Block(nn.Module):
    def __init__(self, in_channels: int, hidden: int, dilation: int) -> None:
        super().__init__()
        self.past = (TCN.WIDTH - 1) * dilation
        self.first = nn.Conv1d(in_channels, hidden, TCN.WIDTH, dilation=dilation)
        self.second = nn.Conv1d(hidden, hidden, TCN.WIDTH, dilation=dilation)
        self.shortcut = nn.Identity() if in_channels == hidden else nn.Conv1d(in_channels, hidden, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.first(nn.functional.pad(x, (self.past, 0))))
        y = torch.relu(self.second(nn.functional.pad(y, (self.past, 0))))
        return torch.relu(y + self.shortcut(x))
