"""A network of your own under the training of a CKCNN, with its presets, schedules, checkpoints and searches."""

# B batch, C channels, T time, O outputs

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol, Self

from torch import Tensor, nn

from ckcnn.checks import check_not_negative
from ckcnn.compat.jsonargparse import unwrapped
from ckcnn.models import optimization
from ckcnn.models.optimization import Schedule
from ckcnn.models.own_metrics import OwnMetrics
from ckcnn.models.parameter_groups import parameter_groups
from ckcnn.models.sequence_module import SequenceModule, inference_settings, inference_weights
from ckcnn.nn import kernel_penalty
from ckcnn.nn.forecast import FromLastValue
from ckcnn.nn.knows_less import KnowsLess, taken
from ckcnn.tasks import TASKS, Mode


class NetFactory(Protocol):
    """A class, or what makes a network: it is given those of these facts of the data that it has arguments for."""

    def __call__(self, *, in_channels: int, out_channels: int, horizon: int) -> nn.Module:
        """Return the network."""


class OwnNet(SequenceModule):
    """A network of your own, trained, saved, tested and searched like a `ckcnn.CKCNN`.

    Its ``forward`` maps signals ``(B, C, T)``, or tokens ``(B, T)``, to ``(B, out_channels)``, or to
    ``(B, out_channels, T)`` for a task with an answer at every step. Of `dt`, `times` and `lengths` it is given those
    that it takes; see `ckcnn.CKCNN.forward`. The first four arguments and `dt` are facts of the data.

    Args:
        in_channels: channels of the signal.
        out_channels: classes, or values to predict.
        task: kind of problem, a key of `ckcnn.tasks.TASKS`.
        horizon: length of a training sequence in samples.
        net: the network, or what makes it, such as its class. A class is given the facts `in_channels`, `out_channels`
            and `horizon` for arguments of these names.
        dt: sampling step of each split in training samples; 1 by default.
        learning_rate: see `SequenceModule`, as the next three.
        schedule: how the learning rate changes.
        patience: epochs.
        decay: what a plateau divides by.
        weight_decay: of AdamW; kernel nets, windows, norms and biases have none.
        label_smoothing: of the training loss of a classifier.
        warm_up: fraction of a ``"one_cycle"`` or ``"cosine"`` schedule in which the learning rate rises.
        kernel_penalty: weight of the norms of the sampled kernels in the loss, if it has layers of `ckcnn.nn`.
        kernel_rate: learning rate of the kernel nets of such layers, as a multiple of that of the rest.
        window_rate: the same for their windows.
        loss: see `SequenceModule`, as the next three.
        metrics: beside those of the task.
        monitor: the metric that chooses the best epoch.
        mode: whether a good value of it is large or small.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from ckcnn import OwnNet
        >>> class Pool(nn.Module):
        ...     def __init__(self, in_channels, out_channels, width=8):
        ...         super().__init__()
        ...         self.conv = nn.Conv1d(in_channels, width, 5)
        ...         self.head = nn.Linear(width, out_channels)
        ...
        ...     def forward(self, x):
        ...         return self.head(self.conv(x).relu().mean(-1))
        >>> model = OwnNet(1, 10, "classification", horizon=64, net=Pool)
        >>> model(torch.randn(2, 1, 64)).shape
        torch.Size([2, 10])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        task: str,
        horizon: int,
        net: NetFactory,
        dt: dict[str, float] | None = None,
        learning_rate: float = 1e-3,
        schedule: Schedule = "plateau",
        patience: int = 20,
        decay: float = 5.0,
        weight_decay: float = 0.0,
        label_smoothing: float = 0.0,
        warm_up: float = 0.3,
        kernel_penalty: float = 0.0,
        kernel_rate: float = 1.0,
        window_rate: float = 1.0,
        loss: nn.Module | None = None,
        metrics: OwnMetrics = None,
        monitor: str | None = None,
        mode: Mode | None = None,
    ) -> None:
        training = (learning_rate, schedule, patience, decay, weight_decay, label_smoothing, warm_up)
        super().__init__(task, out_channels, dt, *training, loss, metrics, monitor, mode)
        self.save_hyperparameters(ignore=["net", "loss", "metrics"])
        rates = {"kernel_penalty": kernel_penalty, "kernel_rate": kernel_rate, "window_rate": window_rate}
        for name, value in rates.items():
            check_not_negative(name, value)
        self.factory = net if isinstance(net, nn.Module) else unwrapped(net)
        own = net if isinstance(net, nn.Module) else _made(self.factory, in_channels, out_channels, horizon)
        self.takes_times = "times" in taken(own)
        whole = KnowsLess.around(own)
        self.net = FromLastValue(whole) if TASKS[task].ahead else whole
        self.network_name = type(own).__name__

    def forward(self, x: Tensor, dt: float = 1.0, times: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """What the network answers; see `SequenceModule.forward`.

        Raises:
            ValueError: if its answer has another shape than the task needs.
        """
        answers = super().forward(x, dt, times, lengths)
        outputs: tuple[int, ...] = (self.hparams["out_channels"],)
        if self.task.ahead:
            outputs = (x.shape[1], outputs[0] // x.shape[1])
        wanted = (len(x), *outputs, *((x.shape[-1],) if self.task.every_step else ()))
        if answers.shape != wanted:
            raise ValueError(
                f"the task {self.hparams['task']} needs answers of shape {wanted} for x of shape {tuple(x.shape)}, "
                f"{self.network_name} gave {tuple(answers.shape)}"
            )
        return answers

    def own_parts(self) -> dict[str, Any]:
        return {"net": self.factory, **super().own_parts()}

    def training_settings(self) -> dict[str, Any]:
        return {**super().training_settings(), "net": self.described_net()}

    def artefact(self) -> dict[str, Any]:
        return {**super().artefact(), "net": self.described_net()}

    def described_net(self) -> dict[str, Any]:
        """Return the class of the network and the arguments that it was given: plain values, and how objects print."""
        factory = type(self.factory) if isinstance(self.factory, nn.Module) else self.factory
        named, given = optimization.described(factory), optimization.keywords(factory)
        values = named["init_args"]
        objects = [name for name, value in values.items() if isinstance(value, str) and value != given[name]]
        return {**named, "objects": {name: values.pop(name) for name in objects}}

    def parameter_groups(self, learning_rate: float, weight_decay: float) -> list[dict[str, Any]]:
        rates = (self.hparams["kernel_rate"], self.hparams["window_rate"])
        return parameter_groups(self.net, learning_rate, weight_decay, *rates)

    def penalty(self) -> Tensor | float:
        """The norms of the kernels, where they are asked for."""
        weight: float = self.hparams["kernel_penalty"]
        return weight * kernel_penalty(self.net) if weight else 0.0

    @classmethod
    def from_artefact(cls, content: Mapping[str, Any], net: NetFactory | None = None) -> Self:
        """Return the model that `artefact` describes, ready to be evaluated or trained further.

        Args:
            content: of a checkpoint or an exported folder.
            net: the network, or its class, which is given the stored arguments; a file alone never says what to import.

        Raises:
            ValueError: if there is none.
        """
        stored = content.get("net")
        if net is None:
            raise ValueError(needs_net(stored, "pass its class, net={name}"))
        model = cls(**inference_settings(content), net=with_stored_arguments(net, stored))
        model.load_state_dict(inference_weights(content))
        model.on_load_checkpoint(dict(content))
        return model.eval()


def needs_net(stored: Any, what_to_do: str) -> str:
    """Return the message that only the user can name the network of a file.

    Args:
        stored: what the file says about it.
        what_to_do: the way to name it, with ``{name}`` for its path.
    """
    name = stored.get("class_path") if isinstance(stored, Mapping) else None
    return (
        f"the model has a network of its own, {name or 'whose class it does not say'}, which is not imported because a "
        f"file names it; if you trust it, {what_to_do.format(name=name or 'package.YourNet')}"
    )


def with_stored_arguments(net: NetFactory, stored: Any) -> NetFactory:
    """Return what makes a network with the plain values that a file holds for its arguments.

    Args:
        net: the network or what makes it.
        stored: what `OwnNet.described_net` said.
    """
    arguments = stored.get("init_args") if isinstance(stored, Mapping) else None
    if isinstance(net, nn.Module) or not isinstance(arguments, Mapping):
        return net
    return partial(unwrapped(net), **arguments)


def _made(factory: Callable[..., nn.Module], in_channels: int, out_channels: int, horizon: int) -> nn.Module:
    facts = {"in_channels": in_channels, "out_channels": out_channels, "horizon": horizon}
    given = optimization.keywords(factory)
    known = inspect.signature(factory).parameters
    net = factory(**{name: value for name, value in facts.items() if name in known and name not in given})
    if not isinstance(net, nn.Module):
        raise ValueError(
            f"net must make a torch.nn.Module, {optimization.described(factory)['class_path']} made {net!r}"
        )
    return net
