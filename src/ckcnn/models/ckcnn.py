"""The continuous-kernel network as a LightningModule; its arguments are the options of the command line."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar

from torch import Tensor, nn

from ckcnn.models.networks import Block, Convolution, Kernel, NetworkOptions, Omega0, Readout
from ckcnn.models.optimization import Schedule
from ckcnn.models.own_metrics import OwnMetrics
from ckcnn.models.parameter_groups import parameter_groups
from ckcnn.models.sequence_module import SequenceModule
from ckcnn.nn import CKConv, kernel_penalty
from ckcnn.nn.checks import check_not_negative
from ckcnn.nn.kernel_window import Window
from ckcnn.nn.normalization import Norm
from ckcnn.nn.positions import Coarse
from ckcnn.nn.prenorm import Activation, Stem
from ckcnn.tasks import Mode


class CKCNN(SequenceModule):
    """Residual blocks of continuous-kernel convolutions, for any task (paper, Sec. 5 and Appx. E).

    The first five arguments are facts of the data; the command line takes them from the data module.

    Args:
        in_channels: channels of the signal.
        out_channels: classes, or values to predict.
        task: ``classification``, ``binary``, ``regression``, ``every_step`` or ``language``.
        horizon: length of the memory, in training samples; by default that of a training sequence. A shorter one
            forgets what is older, a longer one is for signals that are longer than those of training.
        dt: sampling step of each split in training samples; 1 by default.
        hidden_channels: channels of the blocks.
        num_blocks: residual blocks.
        omega_0: prior on how fast the kernels oscillate, for ``sine``, ``fourier`` and ``magnet``; ``"auto"`` gives a
            sine kernel all frequencies that the horizon can hold, a ``magnet`` those that its products can, and there
            is nothing to choose.
        kernel: the kernel net: its non-linearity, or ``magnet`` (FlexConv, CCNN), or ``points`` (SMPConv).
        kernel_hidden: width of the kernel net, or number of points of a channel.
        init: how the kernel net starts; by default as `ckcnn.nn` finds right, ``"reference"`` as the authors' runs did.
        norm: ``"global"`` is the authors', over channels and time; ``"step"``, over channels alone, is causal. By
            default ``"step"`` for language, otherwise ``"global"``.
        readout: ``"last"`` step (the last valid one where lengths are known) or ``"mean"``, for one answer a sequence.
        dropout: of the activations.
        input_dropout: of the input values.
        weight_dropout: of the sampled kernel values.
        embedding_channels: size of the embedding of a token, for language.
        embedding_dropout: of the embedded values, for language.
        kernel_penalty: weight of the norms of the sampled kernels in the loss; the paper calls it weight decay.
        learning_rate: of Adam; for ``"one_cycle"`` the highest one.
        schedule: see `SequenceModule`.
        patience: epochs without improvement before a plateau lowers the learning rate.
        decay: what a plateau divides the learning rate by.
        block: the ``"paper"``'s residual block, or that of CCNN and S4: ``"pre_norm"``, ``"pre_norm_gated"``.
        conv: ``"dense"`` mixes all channels in each convolution, ``"depthwise"`` none, ``"separable"`` is a depthwise
            and a 1x1 convolution.
        stem: how a pre-norm network begins: a ``"linear"`` map of each step, or a ``"conv"``.
        window: what kernels are multiplied by: nothing, a Gaussian with one learned width a ``"layer"`` (FlexConv), or
            one a ``"channel"``.
        sigma_0: where the width of a ``"layer"`` starts, as a fraction of half of the horizon.
        causal: whether the memory lies in the past; otherwise half of it lies in the future.
        activation: of the pre-norm blocks.
        learn_omega_0: whether each sine kernel learns its omega_0, starting from the one given.
        radius: where the radii of the kernel ``points`` start, as a fraction of half of the horizon; about one sample.
        kernel_rate: learning rate of the kernel nets, as a multiple of that of the rest.
        window_rate: the same for the windows.
        coarse: how kernels are read at a lower rate: ``"scaled"`` by the step (the paper, and the default of dense
            convolutions), or ``"interpolated"``, as for a signal of straight lines between its samples.
        weight_decay: of AdamW; kernel nets, windows, norms and biases have none.
        label_smoothing: of the training loss of a classifier.
        warm_up: fraction of a ``"one_cycle"`` or ``"cosine"`` schedule in which the learning rate rises.
        loss: see `SequenceModule`, as the next three.
        metrics: beside those of the task.
        monitor: the metric that chooses the best epoch.
        mode: whether a good value of it is large or small.
    """

    convolution: ClassVar[type[CKConv]] = CKConv

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        task: str,
        horizon: int,
        dt: dict[str, float] | None = None,
        hidden_channels: int = 30,
        num_blocks: int = 2,
        omega_0: Omega0 = 30.0,
        kernel: Kernel = "sine",
        kernel_hidden: int = 32,
        init: str | None = None,
        norm: Norm | None = None,
        readout: Readout = "last",
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        weight_dropout: float = 0.0,
        embedding_channels: int = 100,
        embedding_dropout: float = 0.0,
        kernel_penalty: float = 0.0,
        learning_rate: float = 1e-3,
        schedule: Schedule = "plateau",
        patience: int = 20,
        decay: float = 5.0,
        block: Block = "paper",
        conv: Convolution = "dense",
        stem: Stem = "linear",
        window: Window = "none",
        sigma_0: float = 0.075,
        causal: bool = True,
        activation: Activation = "gelu",
        learn_omega_0: bool = False,
        radius: float = 0.002,
        kernel_rate: float = 1.0,
        window_rate: float = 1.0,
        weight_decay: float = 0.0,
        label_smoothing: float = 0.0,
        warm_up: float = 0.3,
        loss: nn.Module | None = None,
        metrics: OwnMetrics = None,
        monitor: str | None = None,
        mode: Mode | None = None,
        coarse: Coarse | None = None,
    ) -> None:
        training = (learning_rate, schedule, patience, decay, weight_decay, label_smoothing, warm_up)
        super().__init__(task, out_channels, dt, *training, loss, metrics, monitor, mode)
        self.save_hyperparameters(ignore=["loss", "metrics"])
        check_not_negative("kernel_penalty", kernel_penalty)
        self.options = NetworkOptions(
            in_channels=in_channels,
            out_channels=out_channels,
            task=task,
            horizon=horizon,
            hidden_channels=hidden_channels,
            num_blocks=num_blocks,
            omega_0=omega_0,
            kernel=kernel,
            kernel_hidden=kernel_hidden,
            init=init,
            norm=norm,
            readout=readout,
            dropout=dropout,
            input_dropout=input_dropout,
            weight_dropout=weight_dropout,
            embedding_channels=embedding_channels,
            embedding_dropout=embedding_dropout,
            block=block,
            conv=conv,
            stem=stem,
            window=window,
            sigma_0=sigma_0,
            causal=causal,
            activation=activation,
            learn_omega_0=learn_omega_0,
            radius=radius,
            kernel_rate=kernel_rate,
            window_rate=window_rate,
            coarse=coarse,
        )
        self.net = self.options.build(self.convolution)

    def network_settings(self) -> dict[str, Any]:
        """Return what makes the network, so that it can be built without this class, which may be a user's own."""
        return {"convolution": self.convolution.__name__, **asdict(self.options)}

    def artefact(self) -> dict[str, Any]:
        return {**super().artefact(), "network": self.network_settings()}

    def parameter_groups(self, learning_rate: float, weight_decay: float) -> list[dict[str, Any]]:
        return parameter_groups(
            self.net, learning_rate, weight_decay, self.options.kernel_rate, self.options.window_rate
        )

    def penalty(self) -> Tensor | float:
        """The norms of the kernels, where they are asked for."""
        weight: float = self.hparams["kernel_penalty"]
        return weight * kernel_penalty(self.net) if weight else 0.0
