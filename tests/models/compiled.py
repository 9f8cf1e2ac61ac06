"""Trains in two processes, plain, compiled or with sharded parameters, and writes the weights to ``weights.pt``."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn

import torch
from pytorch_lightning import Trainer
from torch import Tensor, distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader

from ckcnn import CKCNN
from ckcnn.datamodules import SequenceBatch

STEPS = 3


def make_model() -> CKCNN:
    torch.manual_seed(0)
    return CKCNN(1, 3, "classification", horizon=12, hidden_channels=4, num_blocks=1, omega_0=5.0).double()


def batches(rank: int) -> list[SequenceBatch]:
    """What a process trains on; no two see the same."""
    generator = torch.Generator().manual_seed(rank)
    shapes = [(4, 1, 12 + step) for step in range(STEPS)]  # lengths differ, so nothing may be fixed to one of them
    signals = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    return [SequenceBatch(x, torch.randint(3, (4,), generator=generator)) for x in signals]


def with_ddp(compiled: bool) -> dict[str, Tensor]:
    """Train with Lightning, and return the weights."""
    model = make_model()
    if compiled:
        model.net.compile(fullgraph=True, backend="aot_eager", dynamic=True)
    trainer = Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, use_distributed_sampler=False, precision="64-true",
    )  # fmt: skip
    trainer.fit(model, DataLoader(batches(trainer.global_rank), batch_size=None))  # type: ignore[arg-type]
    return model.net.state_dict()


def with_shards(compiled: bool) -> dict[str, Tensor]:
    """Train with `fully_shard` of PyTorch, and return the whole weights."""
    model = make_model()
    fully_shard(model.net, mesh=init_device_mesh("cpu", (2,)))
    if compiled:
        model.net.compile(backend="aot_eager", dynamic=True)
    optimizer = model.make_optimizer()
    for batch in batches(distributed.get_rank()):
        optimizer.zero_grad()
        model.task.loss(model.net(batch.x), batch.y).backward()
        optimizer.step()
    return {name: value.full_tensor() for name, value in model.net.state_dict().items()}


WAYS: dict[str, Callable[[], dict[str, Tensor]]] = {
    "ddp": partial(with_ddp, compiled=False),
    "compiled ddp": partial(with_ddp, compiled=True),
    "shards": partial(with_shards, compiled=False),
    "compiled shards": partial(with_shards, compiled=True),
}


def train(arguments: Sequence[str]) -> NoReturn:
    """Train in this process, one of two, in each of some ways."""
    warnings.simplefilter("ignore")
    weights = {way: WAYS[way]() for way in arguments}
    if distributed.get_rank() == 0:
        torch.save(weights, "weights.pt")
    distributed.barrier()
    sys.stdout.flush()
    os._exit(0)  # PyTorch never ends the threads of a device mesh, which may abort Python while it exits
