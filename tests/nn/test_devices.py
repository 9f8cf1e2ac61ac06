"""What the library does on an accelerator, checked without one: few launches, no waiting, everything in its place."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, get_args

import pytest
import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from torch import Tensor, nn
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter
from torch.utils.data import DataLoader

from benchmarks.operators import OperatorCounter
from ckcnn import CKCNN, processes
from ckcnn.datamodules import SequenceBatch
from ckcnn.models.finite_loss import FiniteLoss
from ckcnn.nn import (
    CKBlock,
    CKConv,
    CKNet,
    CKTextNet,
    FFTConv,
    FourierKernel,
    KernelFactory,
    MAGNet,
    MLPKernel,
    MultiscaleSiren,
    PointKernel,
    PreNormBackbone,
    SeparableCKConv,
    Siren,
    kernel_penalty,
)
from ckcnn.nn.network import Readout
from ckcnn.nn.operators import KERNELS as OPENED
from ckcnn.nn.schedule import ACCELERATOR, CPU, schedule_for
from ckcnn.tasks import TASKS

# batch, channels, length, hidden channels: CharacterTrajectories, pMNIST in two sizes, raw speech
SHAPES = [(32, 3, 182, 30), (64, 1, 784, 30), (64, 1, 784, 100), (32, 1, 16000, 30)]
NETS: list[KernelFactory] = [Siren, partial(MultiscaleSiren, horizon=20), MLPKernel, FourierKernel]


WAITING = ("_local_scalar_dense", "item", "nonzero", "is_nonzero", "equal", "masked_select", "bincount", "_unique2")


class NoWaiting(TorchDispatchMode):
    """Fails where a device would have to answer its host, and where a tensor lands on another device."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = device

    def __torch_dispatch__(self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        assert name not in WAITING, name
        if name.startswith("index"):  # by truth values: how many are true?
            indices = args[1] if isinstance(args[1], list | tuple) else [args[1]]
            assert not any(isinstance(i, Tensor) and i.dtype in (torch.bool, torch.uint8) for i in indices), name
        kwargs = kwargs or {}
        if func in OPENED:
            with self:
                return OPENED[func](*args, **kwargs)
        result = func(*args, **kwargs)
        for tensor in tree_iter(result):
            if isinstance(tensor, Tensor):
                assert tensor.device.type == self.device, f"{name} makes a tensor on {tensor.device}"
        return result


@pytest.mark.parametrize("shape", SHAPES)
def test_launches_do_not_grow_with_the_shape(shape: tuple[int, int, int, int]) -> None:
    batch, channels, length, hidden = shape
    conv = partial(CKConv, horizon=length)
    layer, net = conv(hidden, hidden).to("meta"), CKNet(channels, hidden, 10, conv).to("meta")
    assert launches_of(layer, hidden, length) <= 60
    signal, target = torch.empty(batch, channels, length, device="meta"), torch.empty(batch, 10, device="meta")
    with OperatorCounter() as counter:
        nn.functional.cross_entropy(net(signal), target).backward()
    assert counter.launches <= 300, counter.names


@pytest.mark.parametrize("kernel", NETS)
def test_launches_of_all_kernel_nets(kernel: KernelFactory) -> None:
    layer = CKConv(30, 30, 784, kernel=kernel).to("meta")
    assert launches_of(layer, 30, 784) <= 60


@pytest.mark.parametrize(
    ("kernel", "window", "most"),
    [
        (Siren, "none", 56),
        (Siren, "channel", 72),
        (PointKernel, "none", 60),
        (PointKernel, "layer", 76),
        (partial(MAGNet, omega_0=3.0), "none", 79),
        (partial(MAGNet, omega_0=3.0), "channel", 95),
    ],
)
def test_launches_of_separable_layers_do_not_grow_either(kernel: Any, window: Any, most: int) -> None:
    """A window takes 16 of them; the four Gabor functions of MAGNet with linear maps in between take the most."""
    for channels, length in ((10, 182), (30, 16000)):
        layer = SeparableCKConv(channels, channels, length, kernel=kernel, window=window).to("meta")
        assert launches_of(layer, channels, length) == most


def launches_of(layer: nn.Module, channels: int, length: int) -> int:
    """The launches of a convolution, forward and backward."""
    x = torch.empty(32, channels, length, device="meta", requires_grad=True)
    with OperatorCounter() as counter:
        torch.autograd.grad(layer(x), [x, *layer.parameters()], torch.empty_like(x))
    return counter.launches


def test_slices_above_the_budget() -> None:
    layer, x = CKConv(4, 4, 1 << 20).to("meta"), torch.empty(64, 4, 1 << 20, device="meta")
    with OperatorCounter() as counter:
        layer(x)
    assert counter.names["_fft_r2c"] > 2  # two gigabytes of spectrum
    assert schedule_for(torch.device("cpu")) is CPU
    assert schedule_for(torch.device("cuda", 1)) is schedule_for(torch.device("meta")) is ACCELERATOR


@contextmanager
def autocast(device: str, dtype: torch.dtype | None) -> Iterator[None]:
    """Autocast of a device that need not be there, for which `torch.autocast` does nothing."""
    before = torch.is_autocast_enabled(device)
    torch.set_autocast_enabled(device, dtype is not None)
    if dtype is not None:
        torch.set_autocast_dtype(device, dtype)
    try:
        yield
    finally:
        torch.set_autocast_enabled(device, before)
        torch.clear_autocast_cache()


class Everything(nn.Module):
    """Every layer, kernel net, block and network."""

    def __init__(self) -> None:
        super().__init__()
        conv = partial(CKConv, horizon=20, kernel=partial(Siren, omega_0=5.0))
        separable = partial(SeparableCKConv, horizon=20)
        self.layers = nn.ModuleList([CKConv(3, 4, 20, window="layer")])
        self.layers.append(separable(3, 4, kernel=PointKernel, window="layer"))
        for number, kernel in enumerate((*NETS, partial(MAGNet, omega_0=3.0))):
            causal = number % 2 == 0
            self.layers.append(CKConv(3, 4, 20, kernel=kernel, causal=causal, weight_dropout=0.1 * causal))
            self.layers.append(separable(3, 4, kernel=kernel, causal=not causal, window="channel", skip=causal))
        self.others = nn.ModuleList([FFTConv(3, 4, 9), CKBlock(3, 4, conv, norm="step", dropout=0.1)])
        self.nets = nn.ModuleList(CKNet(3, 4, 5, conv, readout=way, dropout=0.1) for way in get_args(Readout))
        self.nets.append(CKNet(3, 4, 5, separable, backbone=PreNormBackbone, dropout=0.1))
        self.text = CKTextNet(7, 4, 3, conv)

    def place(self, device: str) -> None:
        """Give it empty parameters on a device that need not be there."""
        for module in self.modules():
            for values in (module._parameters, module._buffers):
                for name, value in values.items():
                    if value is not None:
                        empty = torch.empty_like(value, device=device)
                        values[name] = nn.Parameter(empty) if isinstance(value, nn.Parameter) else empty

    def forward(self, x: Tensor, lengths: Tensor) -> list[Tensor]:
        """All results for a signal ``(B, 3, T)``, that of a text included."""
        results = [layer(x) for layer in self.others]
        for layer in self.layers:
            results += [layer(x), layer(x, dt=0.5)]
            inner = layer.depthwise if isinstance(layer, SeparableCKConv) else layer
            results += [inner.kernel(20), inner.kernel_norm()]
        for net in self.nets:
            results += [net(x, lengths=lengths), kernel_penalty(net)]
        return [*results, self.text(lengths[:, None].expand(-1, x.shape[-1]))]


def run_everything(device: str, precision: torch.dtype | None = None) -> None:
    """Run every layer on a device, and let nobody wait for it; backward, too, unless it is CUDA.

    Autograd asks a real driver for its streams, so the backward pass runs on tensors without a device (meta).
    """
    everything = Everything()
    with nullcontext() if device == "meta" else FakeTensorMode(allow_non_fake_inputs=True):
        everything.place(device)
        x, lengths = torch.empty(2, 3, 20, device=device), torch.ones(2, dtype=torch.int64, device=device)
        with NoWaiting(device), autocast(device, precision) if precision else nullcontext():
            results = everything(x, lengths)
            if device != "cuda":
                torch.stack([result.float().sum() for result in results]).sum().backward()


def test_everything_is_made_without_weights() -> None:
    with torch.device("meta"):
        assert all(parameter.is_meta for parameter in Everything().parameters())


@pytest.mark.parametrize("device", ["cuda", "meta"])
def test_nothing_leaves_the_device_and_nobody_waits(device: str) -> None:
    """Plain, with `dt`, lengths and centred kernels; time stamps are looked at by value where a batch comes in."""
    run_everything(device)


@pytest.mark.parametrize(("device", "precision"), [("cuda", torch.float16), ("cpu", torch.bfloat16)])
def test_nobody_waits_in_half_precision(device: str, precision: torch.dtype) -> None:
    run_everything(device, precision)


@pytest.mark.parametrize("task", TASKS)
def test_a_model_asks_its_device_nothing(task: str) -> None:
    """What a training step runs forward, with loss and metrics, whose copies of their states break fake tensors."""
    facts = TASKS[task]
    outputs = 1 if facts.one_logit else 3
    with torch.device("meta"):
        model = CKCNN(1, outputs, task, horizon=20, hidden_channels=4, embedding_channels=4, kernel_penalty=1e-3)
        x = torch.zeros(2, 20, dtype=torch.int64) if facts.from_tokens else torch.randn(2, 1, 20)
        lengths = None if facts.every_step else torch.ones(2, dtype=torch.int64)
        y = torch.zeros(2, *facts.target_shape(outputs, 20), dtype=torch.int64)
        y = y.float() if facts.target == "value" else y
        y = y[:, None] if facts.ahead else y  # of the only channel
        with NoWaiting("meta"):
            for split in ("train", "val"):
                loss = model._step(SequenceBatch(x, y, lengths=lengths), split) + model.penalty()
                assert loss.device.type == "meta"


class Watch(Callback):
    """Lets no step ask for a value."""

    def __init__(self) -> None:
        self.mode, self.steps = NoWaiting("cpu"), 0

    def on_train_batch_start(self, trainer: Trainer, module: LightningModule, batch: Any, batch_idx: int) -> None:
        if batch_idx:  # after the first one, processes agree when to meet again
            self.mode.__enter__()

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if batch_idx:
            self.mode.__exit__(None, None, None)
            self.steps += 1


@pytest.mark.parametrize("schedule", ["one_cycle", "plateau"])
def test_a_training_step_asks_its_device_nothing(schedule: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it: Lightning's loop, backward, clipping, optimizer, schedule, and the check of the loss as on a GPU."""
    monkeypatch.setattr(FiniteLoss, "_free", lambda *_: False)
    monkeypatch.setattr(processes, "_SECONDS", math.inf)
    model = CKCNN(1, 3, "classification", horizon=20, hidden_channels=4, schedule=schedule, weight_decay=1e-3)
    batch, watch = SequenceBatch(torch.randn(2, 1, 20), torch.tensor([0, 2])), Watch()
    trainer = Trainer(
        accelerator="cpu", max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, gradient_clip_val=1.0, callbacks=[watch],
    )  # fmt: skip
    with warnings.catch_warnings(action="ignore"):
        trainer.fit(model, DataLoader([batch] * 5, batch_size=None))  # type: ignore[arg-type]
    assert watch.steps == 4


def test_half_precision_costs_no_casts() -> None:
    """The signal is cast where it is padded, the result where its bias is added: as many launches as in float32."""
    layer = CKConv(4, 4, 64).to("meta")
    launches = []
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.empty(2, 4, 64, device="meta", dtype=dtype, requires_grad=True)
        with OperatorCounter() as counter:
            torch.autograd.grad(layer(x), [x, *layer.parameters()], torch.empty_like(x))
        launches.append(counter.launches)
    assert launches[0] == launches[1]


def test_waiting_is_noticed() -> None:
    with pytest.raises(AssertionError, match="_local_scalar_dense"), NoWaiting("cpu"):
        bool(torch.ones(1) > 0)
    with pytest.raises(AssertionError, match="makes a tensor on cpu"), NoWaiting("meta"):
        torch.ones(1)
    x = torch.ones(3)
    with pytest.raises(AssertionError, match="index"), NoWaiting("cpu"):
        x[x > 0]
