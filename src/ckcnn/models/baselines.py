"""GRU, LSTM and TCN under the same LightningModule, as large as the CKCNN that they are compared with."""

# B batch, C channels, H hidden channels, T time

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from ckcnn.checks import check_counts, check_fraction
from ckcnn.models.ckcnn import CKCNN
from ckcnn.models.optimization import Schedule
from ckcnn.models.own_metrics import OwnMetrics
from ckcnn.models.sequence_module import SequenceModule
from ckcnn.nn.forecast import FromLastValue
from ckcnn.nn.lengths import check_lengths, last_valid
from ckcnn.tasks import TASKS, Mode


class Baseline(SequenceModule):
    """A sequence model to compare with, of about the size of a CKCNN.

    Args:
        in_channels: channels of the signal, a fact of the data like the next four.
        out_channels: classes, or values to predict.
        task: kind of problem.
        horizon: length of a training sequence in samples; a TCN is made deep enough to see all of it.
        dt: ignored: these models do not use the sampling rate.
        size: number of parameters to aim at; by default that of the CKCNN with these `hidden_channels`, `num_blocks`
            and `embedding_channels`, for a fair comparison.
        hidden_channels: channels of that CKCNN.
        num_blocks: residual blocks of that CKCNN.
        embedding_channels: size of a token's embedding, for language.
        dropout: dropout probability before the linear read-out.
        input_dropout: dropout probability of the input.
        learning_rate: see `SequenceModule`.
        schedule: see `SequenceModule`.
        patience: see `SequenceModule`.
        decay: see `SequenceModule`.
        weight_decay: see `SequenceModule`.
        label_smoothing: see `SequenceModule`.
        warm_up: see `SequenceModule`.
        loss: see `SequenceModule`.
        metrics: see `SequenceModule`.
        monitor: see `SequenceModule`.
        mode: see `SequenceModule`.
    """

    takes_times = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        task: str,
        horizon: int,
        dt: dict[str, float] | None = None,
        size: int | None = None,
        hidden_channels: int = 30,
        num_blocks: int = 2,
        embedding_channels: int = 100,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        learning_rate: float = 1e-3,
        schedule: Schedule = "plateau",
        patience: int = 20,
        decay: float = 5.0,
        weight_decay: float = 0.0,
        label_smoothing: float = 0.0,
        warm_up: float = 0.3,
        loss: nn.Module | None = None,
        metrics: OwnMetrics = None,
        monitor: str | None = None,
        mode: Mode | None = None,
    ) -> None:
        training = (learning_rate, schedule, patience, decay, weight_decay, label_smoothing, warm_up)
        super().__init__(task, out_channels, dt, *training, loss, metrics, monitor, mode)
        self.save_hyperparameters(ignore=["loss", "metrics"])
        check_fraction("dropout", dropout)
        check_fraction("input_dropout", input_dropout)
        if size is None:
            with torch.device("meta"):
                rival = CKCNN(
                    in_channels=in_channels,
                    out_channels=out_channels,
                    task=task,
                    horizon=horizon,
                    hidden_channels=hidden_channels,
                    num_blocks=num_blocks,
                    embedding_channels=embedding_channels,
                )
            size = count_parameters(rival)
        check_counts(size=size)
        from_tokens = TASKS[task].from_tokens
        make = partial(
            BaselineNet,
            body=partial(self.body, horizon=horizon),
            in_channels=embedding_channels if from_tokens else in_channels,
            out_channels=out_channels,
            vocabulary=out_channels if from_tokens else 0,
            every_step=TASKS[task].every_step,
            dropout=dropout,
            input_dropout=input_dropout,
        )
        net = make(hidden=_fit_width(make, size))
        self.net = FromLastValue(net) if TASKS[task].ahead else net

    @staticmethod
    def body(in_channels: int, hidden: int, horizon: int) -> nn.Module:
        """The part that differs: a causal map ``(B, C, T) -> (B, H, T)``."""
        raise NotImplementedError


class GRU(Baseline):
    """One gated recurrent layer; see `Baseline`."""

    @staticmethod
    def body(in_channels: int, hidden: int, horizon: int) -> nn.Module:
        return Recurrent(nn.GRU, in_channels, hidden)


class LSTM(Baseline):
    """One layer of long short-term memory; see `Baseline`."""

    @staticmethod
    def body(in_channels: int, hidden: int, horizon: int) -> nn.Module:
        return Recurrent(nn.LSTM, in_channels, hidden)


class TCN(Baseline):
    """Dilated causal convolutions (Bai et al., 2018); see `Baseline`."""

    @staticmethod
    def body(in_channels: int, hidden: int, horizon: int) -> nn.Module:
        return TemporalConvolutions(in_channels, hidden, horizon)


class BaselineNet(nn.Module):
    """Embedding or input dropout, a causal body, and a linear read-out of the last step or of all."""

    def __init__(
        self,
        body: Callable[[int, int], nn.Module],
        in_channels: int,
        hidden: int,
        out_channels: int,
        vocabulary: int = 0,
        every_step: bool = False,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, in_channels) if vocabulary else None
        self.input_dropout, self.dropout = nn.Dropout(input_dropout), nn.Dropout(dropout)
        self.body, self.head, self.every_step = body(in_channels, hidden), nn.Linear(hidden, out_channels), every_step

    def forward(self, x: Tensor, dt: float = 1.0, times: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """Map ``(B, C, T)``, or tokens ``(B, T)``, to the output of the task; these models ignore `dt`."""
        if times is not None:
            raise ValueError("GRU, LSTM and TCN take no time stamps; use --data.missing mask")
        if self.embedding is not None:
            x = self.embedding(x).mT
        if lengths is not None:
            check_lengths(lengths, x.shape[0], x.shape[-1])
        y = self.dropout(self.body(self.input_dropout(x)))
        if self.every_step:
            return self.head(y.mT).mT
        return self.head(y[..., -1] if lengths is None else last_valid(y, lengths))


class Recurrent(nn.Module):
    """One recurrent layer."""

    def __init__(self, kind: type[nn.GRU] | type[nn.LSTM], in_channels: int, hidden: int) -> None:
        super().__init__()
        self.layer = kind(in_channels, hidden, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.mT.contiguous())[0].mT


class TemporalConvolutions(nn.Module):
    """Residual blocks of two dilated causal convolutions of width 7, as many as it takes to see `length` samples."""

    WIDTH = 7

    def __init__(self, in_channels: int, hidden: int, length: int) -> None:
        super().__init__()
        levels = max(1, math.ceil(math.log2((length - 1) / (2 * (self.WIDTH - 1)) + 1)))
        channels = [in_channels] + [hidden] * levels
        self.blocks = nn.Sequential(*(_TemporalBlock(channels[i], hidden, 2**i) for i in range(levels)))

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(x)


class _TemporalBlock(nn.Module):
    def __init__(self, in_channels: int, hidden: int, dilation: int) -> None:
        super().__init__()
        width = TemporalConvolutions.WIDTH
        self.past = (width - 1) * dilation
        self.first = nn.Conv1d(in_channels, hidden, width, dilation=dilation)
        self.second = nn.Conv1d(hidden, hidden, width, dilation=dilation)
        self.shortcut = nn.Identity() if in_channels == hidden else nn.Conv1d(in_channels, hidden, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.first(nn.functional.pad(x, (self.past, 0))))
        y = torch.relu(self.second(nn.functional.pad(y, (self.past, 0))))
        return torch.relu(y + self.shortcut(x))


def count_parameters(module: nn.Module) -> int:
    """The number of trained values."""
    return sum(parameter.numel() for parameter in module.parameters())


def _fit_width(make: Callable[..., nn.Module], size: int) -> int:
    """The width whose network comes closest to a number of parameters."""
    with torch.device("meta"):
        low, high = 1, 2
        while count_parameters(make(hidden=high)) < size:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if count_parameters(make(hidden=middle)) < size else (low, middle)
        return min((low, high), key=lambda width: abs(count_parameters(make(hidden=width)) - size))
