"""The continuous-kernel network as a LightningModule; its arguments are the options of the command line."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar

from torch import Tensor, nn

from ckcnn.checks import check_not_negative
from ckcnn.models.networks import Block, Convolution, Kernel, NetworkOptions, Omega0, Readout
from ckcnn.models.optimization import Schedule
from ckcnn.models.own_metrics import OwnMetrics
from ckcnn.models.parameter_groups import parameter_groups
from ckcnn.models.sequence_module import SequenceModule
from ckcnn.nn import CKConv, kernel_penalty
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
        horizon: memory length in training samples; by default the length of a training sequence. A shorter memory
            forgets older samples, a longer one is for signals longer than those of training.
        dt: sampling step of each split in training samples; 1 by default.
        hidden_channels: channels of each block.
        num_blocks: number of residual blocks.
        omega_0: how fast the kernels can oscillate at the start, for ``sine``, ``fourier`` and ``magnet`` kernels;
            ``"auto"`` derives the frequencies from the horizon, so that there is nothing to tune.
        kernel: kernel net: the non-linearity of its layers, or ``magnet`` (FlexConv, CCNN), or ``points`` (SMPConv).
        kernel_hidden: width of the kernel net, or number of kernel points per channel.
        init: initial weights of the kernel net; by default those of `ckcnn.nn`, ``"reference"`` for those of the
            authors' code.
        norm: ``"global"`` normalises over channels and time, as the authors do; ``"step"`` over channels alone, which
            is causal. By default ``"step"`` for language, otherwise ``"global"``.
        readout: for one output per sequence, read the ``"last"`` step (the last valid one where lengths are known) or
            the ``"mean"`` of all steps.
        dropout: dropout probability of the activations.
        input_dropout: dropout probability of the input.
        weight_dropout: dropout probability of the sampled kernels.
        embedding_channels: size of a token's embedding, for language.
        embedding_dropout: dropout probability of the embedding, for language.
        kernel_penalty: weight of the kernel norms in the loss; the paper calls it weight decay.
        learning_rate: see `SequenceModule`.
        schedule: see `SequenceModule`.
        patience: see `SequenceModule`.
        decay: see `SequenceModule`.
        block: residual block: ``"paper"``, or that of CCNN and S4, ``"pre_norm"`` or ``"pre_norm_gated"``.
        conv: ``"dense"`` mixes all channels in each convolution, ``"depthwise"`` mixes none, ``"separable"`` is a
            depthwise and a 1x1 convolution.
        stem: first layer of a pre-norm network: a ``"linear"`` map of each step, or a ``"conv"``.
        window: what kernels are multiplied by: nothing, or a Gaussian with one learned width per ``"layer"`` (FlexConv)
            or per ``"channel"``.
        sigma_0: initial width of a ``"layer"`` window, as a fraction of half the horizon.
        causal: whether kernels see only the past; otherwise half of the memory is in the future.
        activation: activation of the pre-norm blocks.
        learn_omega_0: whether each sine kernel learns its omega_0, starting from `omega_0`.
        radius: initial radius of the kernel ``points``, as a fraction of half the horizon; about one sample.
        kernel_rate: learning rate of the kernel nets, as a multiple of `learning_rate`.
        window_rate: learning rate of the windows, as a multiple of `learning_rate`.
        coarse: how kernels are read at a lower rate: ``"scaled"`` by the step (the paper, and the default of dense
            convolutions), or ``"interpolated"``, as for a signal of straight lines between its samples.
        weight_decay: weight decay of AdamW; kernel nets, windows, norms and biases have none.
        label_smoothing: see `SequenceModule`.
        warm_up: see `SequenceModule`.
        loss: see `SequenceModule`.
        metrics: see `SequenceModule`.
        monitor: see `SequenceModule`.
        mode: see `SequenceModule`.
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
