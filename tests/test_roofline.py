"""What the roofline counts, against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from benchmarks.cases import SHAPES
from benchmarks.operators import OperatorCounter
from benchmarks.roofline import GPUS, all_reduce, count, efficiency, network_of


def test_products_transforms_and_copies() -> None:
    a, b = torch.empty(3, 4, device="meta"), torch.empty(4, 5, device="meta")
    with OperatorCounter() as counter:
        a @ b
        torch.addmm(torch.empty(5, device="meta"), a, b, out=torch.empty(3, 5, device="meta"))
        torch.fft.rfft(torch.empty(2, 16, device="meta"))
        torch.empty(7, device="meta").copy_(torch.empty(7, device="meta"))
        a.T[1:]
    assert [launch.name for launch in counter.list][:3] == ["mm", "addmm", "_fft_r2c"]
    product, into, transform, *_, copy = counter.list[:4]
    assert product.flops == into.flops == 2 * 3 * 4 * 5
    assert product.bytes == 4 * (12 + 20 + 15)
    assert into.bytes == 4 * (5 + 12 + 20 + 15)
    assert transform.flops == 2.5 * 32 * math.log2(16)
    assert copy.bytes == 2 * 4 * 7


def test_memory_is_that_of_live_tensors() -> None:
    with OperatorCounter(memory=True) as counter:
        x = torch.ones(1000, device="meta")
        for _ in range(5):
            x = x + 1
    assert counter.memory is not None
    assert counter.memory.peak == 2 * 4000


def test_cost_of_a_step() -> None:
    cost = count(*network_of(SHAPES[0]))
    for gpu in GPUS:
        assert cost.roofline(gpu) < cost.seconds(gpu)
        assert cost.seconds(gpu) >= 5e-6 * cost.counter.launches
        assert all_reduce(cost.gradient_bytes, 1, gpu) == 0
        assert 0 < efficiency(cost, gpu, 64) < efficiency(cost, gpu, 8) < efficiency(cost, gpu, 1) == 1
    assert all_reduce(3e9, 2, GPUS[0]) == pytest.approx(0.01 + 2e-5)
