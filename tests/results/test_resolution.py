"""Kernels on finer grids: the same function, and how much of it the training grid cannot hold."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from ckcnn.nn import CKConv, KernelNet
from ckcnn.results import resolution

HORIZON = 65


class Waves(KernelNet):
    """Kernel ``k`` is a cosine with a known number of periods for each training sample, and a slow one below it."""

    def __init__(self, outputs: int) -> None:
        super().__init__(nn.Linear(3, outputs))
        with torch.no_grad():
            self.read_out.bias.zero_()
            self.read_out.weight.copy_(torch.tensor([[1.0, 0, 0], [0, 1.0, 0], [0.2, 0, 1.0], [0, 0, 0.5]]))

    def basis(self, p: Tensor) -> Tensor:
        lags = (1 - p) * (HORIZON - 1) / 2
        return torch.stack([torch.cos(2 * math.pi * f * lags) for f in (0.25, 0.4, 0.75)])


@pytest.fixture
def layer() -> CKConv:
    return CKConv(2, 2, HORIZON, kernel=Waves)


def test_every_grid_shows_the_same_function(layer: CKConv) -> None:
    lags, values = resolution.sampled(layer, 1, False)
    fine_lags, fine = resolution.sampled(layer, 8, False)
    assert values.shape == (2, 2, HORIZON)
    assert not values.requires_grad
    torch.testing.assert_close(fine[..., ::8], values)
    torch.testing.assert_close(fine_lags[::8], lags)
    torch.testing.assert_close(fine[0, 1], torch.cos(2 * math.pi * 0.4 * fine_lags), atol=1e-4, rtol=0)


def test_a_centred_kernel_has_the_present_in_the_middle() -> None:
    lags, values = resolution.sampled(CKConv(1, 1, 9, causal=False), 4, False)
    assert lags[[0, 16, -1]].tolist() == [-4.0, 0.0, 4.0]
    assert values.shape == (1, 1, 33)
    assert (values != 0).all()


def test_the_spectrum_has_its_peaks_where_the_waves_are(layer: CKConv) -> None:
    frequencies, amplitudes = resolution.spectrum(resolution.sampled(layer, 8, False)[1], 1 / 8)
    assert frequencies[-1] == pytest.approx(4, abs=0.02)
    peaks = frequencies[amplitudes.flatten(0, 1).argmax(1)]
    torch.testing.assert_close(peaks, torch.tensor([0.25, 0.4, 0.75, 0.75]), atol=0.02, rtol=0)
    assert amplitudes[0, 0].max() == pytest.approx(0.5, abs=0.02)  # half of a cosine; the other half is at -0.25


def test_the_kernel_with_the_most_beyond_the_training_grid(layer: CKConv) -> None:
    assert resolution.finest(layer) == (1, 0)
    kernel = resolution.fine_kernel(layer, 1, 0)
    assert kernel.channels == "0 → 1"
    assert kernel.step == 1 / 8
    torch.testing.assert_close(kernel.fine[::8], kernel.values)


def test_the_share_beyond_the_training_grid(layer: CKConv) -> None:
    expected = 1.25 / (2.25 + 0.04 + 1)  # of the squared weights
    assert resolution.share_above(layer, 8, smoothed=False) == pytest.approx(expected, abs=0.01)


def test_smoothing_takes_more_away_on_a_grid_that_is_less_fine(layer: CKConv) -> None:
    off = [
        1 - resolution.share_above(layer, factor) / resolution.share_above(layer, factor, smoothed=False)
        for factor in (2, 4, 8)
    ]
    assert off[0] > 2 * off[1] > 4 * off[2] > 0


def test_the_window_lies_where_the_fast_part_is() -> None:
    lags = torch.arange(0, 64.0001, 1 / 8)
    burst = torch.exp(-((lags - 20) ** 2) / 8) * torch.sin(2 * math.pi * 0.8 * lags)
    slow = 5 * torch.cos(2 * math.pi * lags / 40)
    kernel = resolution.FineKernel("0 → 0", lags[::8], (slow + burst)[::8], lags, slow + burst, slow)
    low, high = kernel.window(10)
    assert high - low == 10
    assert low < 18 < 22 < high
    assert kernel.window(500) == (0.0, 64.0)  # not more than there is


def test_a_grid_cannot_be_a_bit_finer(layer: CKConv) -> None:
    for factor in (0, 1.5):
        with pytest.raises(ValueError, match="factor must be a whole number above 0"):
            resolution.sampled(layer, factor, True)  # type: ignore[arg-type]
