"""Cepstra of sound that arrives piece by piece."""

# B streams, T new samples, K coefficients, F new frames, N samples of a window

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ckcnn.datamodules.features import cepstra, shortest


class LiveCepstra:
    """What `ckcnn.datamodules.features.cepstra` computes of a whole recording, frame by frame.

    A frame looks half a window ahead, so it is computed as soon as these samples are there. At either end of a
    recording half a window is mirrored: the first frame waits for as many samples, the last one for `finish`.

    Args:
        settings: of the features, as a checkpoint keeps them.
        rate: samples per second.
        batch: streams side by side.
    """

    def __init__(self, settings: Mapping[str, Any], rate: int, batch: int) -> None:
        self._compute = cepstra(settings, rate, whole=False)
        self._window, self._step, self._coefficients = (settings[name] for name in ("window", "step", "coefficients"))
        self.given = torch.zeros((), dtype=torch.int64)  # samples so far
        self.newest = torch.zeros(batch, self._window)  # which no frame has done with
        self.shortest = shortest(settings)  # samples of a recording

    def coming(self, new: int) -> int:
        """Return how many frames this many new samples complete."""
        return self._complete(int(self.given) + new) - self._complete(int(self.given))

    def push(self, sound: Tensor) -> Tensor:
        """Map new samples in [-1, 1], ``(B, T)``, to the frames that they complete, ``(B, K, F)``."""
        held, first = torch.cat([self.newest, sound], dim=1), self._complete(int(self.given))
        self.given += sound.shape[1]
        self.newest = held[:, -self._window :].clone()
        return self._frames(held, first, self._complete(int(self.given)))

    def finish(self) -> Tensor:
        """Return the frames that mirror the end of the recording, ``(B, K, F)``.

        Raises:
            ValueError: if the recording is too short for a frame.
        """
        if self.given < self.shortest:
            raise ValueError(
                f"a recording must have at least {self.shortest} samples for its cepstra, got {int(self.given)}"
            )
        padded = int(self.given) + 2 * (self._window // 2)
        return self._frames(self.newest, self._complete(int(self.given)), (padded - self._window) // self._step + 1)

    def reset(self) -> None:
        """Wait for a new recording."""
        self.given.zero_()

    def _complete(self, given: int) -> int:
        """How many frames have all their samples after so many."""
        return 0 if given < self.shortest else (given + self._window // 2 - self._window) // self._step + 1

    def _frames(self, sound: Tensor, first: int, stop: int) -> Tensor:
        """Frames `first` until before `stop`; `sound` ends with the newest sample."""
        if first == stop:
            return sound.new_empty(len(sound), self._coefficients, 0)
        start, last = first * self._step - self._window // 2, int(self.given) - 1
        places = torch.arange(start, start + (stop - first - 1) * self._step + self._window).abs()
        places = last - (last - places).abs()  # what lies before the start or after the end is mirrored
        return self._compute(sound[:, places - last - 1 + sound.shape[1]])
