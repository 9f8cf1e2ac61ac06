"""How much of a convolution is done at once: whole operators on an accelerator, cache-sized pieces on a CPU."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

_MB = 1 << 20


@dataclass(frozen=True)
class Schedule:
    """The budget of one convolution, in bytes. Whatever fits is done in one piece; more is cut into slices.

    Args:
        kernel_bytes: spectrum of the kernel that exists at once.
        signal_bytes: spectrum of the signal between its transform and its transposition.
        keep_bytes: spectrum of the signal, and of the kernel, that may be kept for the backward pass; larger ones are
            computed again, which halves the memory of a layer.
    """

    kernel_bytes: int
    signal_bytes: int
    keep_bytes: int

    def frequencies_at_once(self, out_channels: int, in_channels: int, dtype: torch.dtype) -> int:
        """Frequencies of one slice of a kernel spectrum of this complex type."""
        return max(1, self.kernel_bytes // (out_channels * in_channels * dtype.itemsize))

    def channels_at_once(self, frequencies: int, batch: int, dtype: torch.dtype) -> int:
        """Channels of one piece of a signal; the batch stays whole, since the transposition writes lines of it."""
        return max(1, self.signal_bytes // (frequencies * batch * dtype.itemsize))


CPU = Schedule(kernel_bytes=8 * _MB, signal_bytes=2 * _MB, keep_bytes=64 * _MB)
"""Slices of about the last-level cache, pieces of about a core's second-level cache."""

CPU_DEPTHWISE = replace(CPU, signal_bytes=4 * _MB, keep_bytes=320 * _MB)
"""Nothing but the signal competes for the cache, and its spectrum is all that a layer keeps."""

ACCELERATOR = Schedule(kernel_bytes=1024 * _MB, signal_bytes=1024 * _MB, keep_bytes=256 * _MB)
"""Each launch costs microseconds and should move megabytes, so pieces are cut only where memory would run out."""


def schedule_for(device: torch.device, depthwise: bool = False) -> Schedule:
    """Return the schedule of a device. Tensors without a device of their own (meta) are planned like an accelerator."""
    if device.type != "cpu":
        return ACCELERATOR
    return CPU_DEPTHWISE if depthwise else CPU
