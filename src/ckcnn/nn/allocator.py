"""Lets the C library keep freed memory, as PyTorch itself does on a GPU."""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # of glibc's malloc.h


def keep_memory() -> bool:
    """Make this process keep freed memory for its next tensors instead of returning it to the system.

    Call it once at the start of a program that trains on a CPU. By default glibc hands large tensors back as soon as
    they are freed, and each training step pays for fetching and clearing the same pages again. The process then stays
    as large as it was at its peak.

    Returns:
        Whether the C library took the setting; others than glibc have none.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_MMAP_MAX, 0)) and bool(mallopt(_M_TRIM_THRESHOLD, -1))
