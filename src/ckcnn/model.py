"""The continuous-kernel network as a LightningModule; its arguments are the options of the command line."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Literal, get_args

from torch import Tensor, nn

from ckcnn.nn import (
    CKConv,
    CKNet,
    CKTextNet,
    FourierKernel,
    KernelFactory,
    MLPKernel,
    MultiscaleSiren,
    Siren,
    kernel_penalty,
)
from ckcnn.nn.checks import check_choice, check_not_negative
from ckcnn.training import Schedule, SequenceModule

Kernel = Literal["sine", "relu", "leaky_relu", "swish", "fourier"]
Omega0 = float | Literal["auto"]


class CKCNN(SequenceModule):
    """Residual blocks of continuous-kernel convolutions, for any task (paper, Sec. 5 and Appx. E).

    The first five arguments are facts of the data; the command line takes them from the data module.

    Args:
        in_channels: channels of the signal.
        out_channels: classes, or values to predict.
        task: ``classification``, ``binary``, ``regression``, ``every_step`` or ``language``.
        horizon: length of the memory, in training samples.
        dt: sampling step of each split in training samples; 1 by default.
        hidden_channels: channels of the blocks.
        num_blocks: residual blocks.
        omega_0: prior on how fast the kernels oscillate, for ``sine`` and ``fourier``; ``"auto"`` gives a sine kernel
            all frequencies that the horizon can hold, and there is nothing to choose.
        kernel: non-linearity of the kernel net.
        kernel_hidden: width of the kernel net.
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
        norm: Literal["global", "step"] | None = None,
        readout: Literal["last", "mean"] = "last",
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
    ) -> None:
        super().__init__(task, out_channels, dt, learning_rate, schedule, patience, decay)
        self.save_hyperparameters()
        check_not_negative("kernel_penalty", kernel_penalty)
        factory = kernel_factory(kernel, omega_0, kernel_hidden, init, horizon)
        conv = partial(self.convolution, horizon=horizon, kernel=factory, weight_dropout=weight_dropout)
        self.net: nn.Module
        if task == "language":
            self.net = CKTextNet(
                *(out_channels, embedding_channels, hidden_channels, conv, num_blocks),
                *(norm or "step", dropout, embedding_dropout),
            )
        else:
            steps = "every_step" if task == "every_step" else readout
            self.net = CKNet(
                *(in_channels, hidden_channels, out_channels, conv, num_blocks),
                *(norm or "global", steps, dropout, input_dropout),
            )

    def penalty(self) -> Tensor | float:
        """The norms of the kernels, where they are asked for."""
        weight: float = self.hparams["kernel_penalty"]
        return weight * kernel_penalty(self.net) if weight else 0.0


def kernel_factory(kernel: Kernel, omega_0: Omega0, hidden: int, init: str | None, horizon: int) -> KernelFactory:
    """What makes the kernel nets, from plain options."""
    check_choice("kernel", kernel, get_args(Kernel))
    start: dict[str, Any] = {} if init is None else {"init": init}
    if omega_0 == "auto":
        if kernel != "sine" or init is not None:
            raise ValueError(f"omega_0 auto is for the sine kernel without init, got kernel {kernel!r}, init {init!r}")
        return partial(MultiscaleSiren, horizon=horizon, hidden=hidden)
    if kernel == "sine":
        return partial(Siren, omega_0=omega_0, hidden=hidden, **start)
    if kernel == "fourier":
        if init is not None:
            raise ValueError(f"the fourier kernel has one way to start, leave init out (got {init!r})")
        return partial(FourierKernel, omega_0=omega_0, hidden=hidden)
    return partial(MLPKernel, activation=kernel, hidden=hidden, **start)
