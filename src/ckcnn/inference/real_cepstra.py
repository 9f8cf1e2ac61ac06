"""Cepstra of sound without complex numbers, for runtimes that lack them."""

# B batch, T samples, N samples of a window, K coefficients, M mel bands, F frames, W frequencies

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ckcnn.datamodules.features import cepstra, shortest

_LOG_OFFSET = 1e-6  # torchaudio's


class RealCepstra(nn.Module):
    """What `ckcnn.datamodules.features.cepstra` computes, its Fourier transform as a convolution with waves.

    Args:
        settings: of the features, as a checkpoint keeps them.
        rate: samples per second.
    """

    waves: Tensor
    bands: Tensor
    cosines: Tensor

    def __init__(self, settings: Mapping[str, Any], rate: int | None) -> None:
        super().__init__()
        if rate is None:
            raise ValueError("the checkpoint is damaged: it has features of sound without a sampling rate")
        known: Any = cepstra(settings, rate)
        spectrogram, self.step = known.MelSpectrogram.spectrogram, int(settings["step"])
        samples = int(settings["window"])
        angle = torch.arange(samples, dtype=torch.float64) * 2 * math.pi / samples
        frequencies = torch.arange(samples // 2 + 1, dtype=torch.float64)[:, None]
        waves = torch.cat([(frequencies * angle).cos(), (frequencies * angle).sin()])  # (2 W, N)
        self.register_buffer("waves", (waves * spectrogram.window).float()[:, None])
        self.register_buffer("bands", known.MelSpectrogram.mel_scale.fb)  # (W, M)
        self.register_buffer("cosines", known.dct_mat)  # (M, K)
        self.shortest = shortest(settings)  # samples of a recording

    def forward(self, sound: Tensor) -> Tensor:
        """Map sound ``(B, T)`` in [-1, 1] to coefficients ``(B, K, F)``."""
        half = self.shortest - 1
        padded = F.pad(sound[:, None], (half, half), mode="reflect")
        real, imaginary = F.conv1d(padded, self.waves, stride=self.step).chunk(2, dim=1)  # (B, W, F)
        power = (real.square() + imaginary.square()).mT  # (B, F, W)
        return ((power @ self.bands + _LOG_OFFSET).log() @ self.cosines).mT
