"""Every random choice has its own generator, made from a seed and what it is for."""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from numpy.typing import NDArray


def generator(seed: int, purpose: str) -> torch.Generator:
    """A generator that depends on nothing but its arguments: the same on all ranks, after a resume, at test time.

    Example:
        >>> bool((torch.rand(3, generator=generator(0, "a")) == torch.rand(3, generator=generator(0, "a"))).all())
        True
    """
    digest = hashlib.sha256(f"{seed} {purpose}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def published_permutation(length: int, seed: int) -> NDArray[np.int64]:
    """The order of pixels that the authors drew: numpy's first permutation after seeding it.

    Example:
        >>> published_permutation(784, seed=0)[:8].tolist()
        [693, 85, 647, 392, 765, 14, 299, 711]
    """
    return np.random.RandomState(seed).permutation(length)
