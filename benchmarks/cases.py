"""What is measured: the shapes of the paper's benchmarks and the models that run on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

import ckcnn
from benchmarks.bound import bare_step
from benchmarks.textbook import TextbookConv
from ckcnn.nn import CKConv, CKNet, keep_memory

NUM_BLOCKS = 2


@dataclass(frozen=True)
class Shape:
    """Input and width of a network, how many rounds it gets, and how often its step is timed in each."""

    name: str
    batch: int
    in_channels: int
    length: int
    hidden: int
    classes: int
    rounds: int
    steps: int


SHAPES = (
    Shape("CT", 32, 3, 182, 30, 20, rounds=25, steps=10),
    Shape("pMNIST 100k", 64, 1, 784, 30, 10, rounds=9, steps=3),
    Shape("pMNIST 1M", 64, 1, 784, 100, 10, rounds=3, steps=1),
    Shape("SC_raw", 32, 1, 16000, 30, 10, rounds=3, steps=1),
)
LENGTHS = tuple(Shape(f"{length:,} samples", 8, 1, length, 30, 10, rounds=9, steps=3) for length in (2000, 8000, 32000))
MODELS = ("ckcnn", "ckcnn, default malloc", "textbook", "GRU", "LSTM", "TCN")
BOUND = "bound"


def make_step(model: str, shape: Shape) -> Callable[[], None]:
    """A function that does one training step: forward, backward, Adam."""
    torch.manual_seed(0)
    if model in ("ckcnn", BOUND):
        keep_memory()
    if model == BOUND:
        channels = [shape.in_channels] + [shape.hidden] * (2 * NUM_BLOCKS)
        return bare_step(shape.batch, channels, shape.length)
    net = _make_net(model, shape)
    x = torch.randn(shape.batch, shape.in_channels, shape.length)
    y = torch.randint(shape.classes, (shape.batch,))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()

    return step


def _make_net(model: str, shape: Shape) -> nn.Module:
    layer = TextbookConv if model == "textbook" else CKConv
    conv = partial(layer, horizon=shape.length)
    if model in ("GRU", "LSTM", "TCN"):
        facts = (shape.in_channels, shape.classes, "classification", shape.length)
        return getattr(ckcnn, model)(*facts, hidden_channels=shape.hidden, num_blocks=NUM_BLOCKS).net
    return CKNet(shape.in_channels, shape.hidden, shape.classes, conv, NUM_BLOCKS)
