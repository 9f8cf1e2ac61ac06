"""Features of a recording that are computed before it is stored: cepstra, from settings that a checkpoint keeps."""

# B batch, T samples, K coefficients, F frames

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

INT16 = 2.0**15  # a recording with 16 bits spans [-1, 1) in this unit

# The authors' features: 20 coefficients out of 64 mel bands, a window of 200 samples, a step of 100.
CEPSTRA: Mapping[str, Any] = {"kind": "mfcc", "coefficients": 20, "bands": 64, "window": 200, "step": 100}


def cepstra(settings: Mapping[str, Any], rate: int, whole: bool = True) -> Callable[[Tensor], Tensor]:
    """Return what maps recordings ``(B, T)`` in [-1, 1) to cepstral coefficients ``(B, K, F)``.

    Args:
        settings: such as `CEPSTRA`.
        rate: samples per second.
        whole: whether a recording is mirrored at both ends, half a window each; a piece of one is not.

    Raises:
        ValueError: if the settings are of a kind that this version does not know.
    """
    from torchaudio.transforms import MFCC

    if settings.get("kind") != "mfcc":
        raise ValueError(f"features must be of the kind mfcc, got {settings.get('kind')!r}")
    with warnings.catch_warnings():  # 64 bands are more than 101 frequencies can fill; the authors did so all the same
        warnings.filterwarnings("ignore", message="At least one mel filterbank has all zero values")
        return MFCC(
            sample_rate=rate,
            n_mfcc=settings["coefficients"],
            log_mels=True,
            melkwargs={
                "n_fft": settings["window"],
                "hop_length": settings["step"],
                "n_mels": settings["bands"],
                "center": whole,
            },
        )


def frames(samples: Tensor, settings: Mapping[str, Any]) -> Tensor:
    """Return how many frames recordings of these lengths have."""
    return samples // int(settings["step"]) + 1


def shortest(settings: Mapping[str, Any]) -> int:
    """Return how many samples a recording must have at least: half a window is mirrored at either end."""
    return int(settings["window"]) // 2 + 1
