"""The processes of one training: what they agree on without making every step wait, and how they part."""

from __future__ import annotations

import time

import torch
from torch import Tensor, distributed

_SECONDS = 2.0  # between two questions: a cluster that stops a job gives it 30 or more
_STEPS = 50  # between two questions, at most


class Agreement:
    """Asks all processes a question every few steps.

    A question costs a collective operation and, on a GPU, a wait for everything that is queued there. So it is asked
    about every two seconds, after the same step in all processes: with the answer they learn how long the slowest of
    them takes for a step, which says how many steps it is to the next question.
    """

    def __init__(self) -> None:
        self._interval, self._steps, self._since = 1, 0, time.monotonic()

    def due(self) -> bool:
        """Count a step, and return whether the question is to be asked after it."""
        self._steps += 1
        return self._steps >= self._interval

    def lowest(self, value: Tensor) -> float:
        """Return the smallest value of any process; all of them must ask.

        Args:
            value: a number of this process, on its device.
        """
        seconds = (time.monotonic() - self._since) / max(1, self._steps)
        votes = torch.stack([value, value.new_full((), -seconds)])
        if distributed.is_available() and distributed.is_initialized():
            distributed.all_reduce(votes, distributed.ReduceOp.MIN)
        lowest, slowest = votes.tolist()
        self._interval = round(min(_STEPS, max(1.0, _SECONDS / max(-slowest, 1e-9))))
        self._steps, self._since = 0, time.monotonic()
        return float(lowest)


def leave_process_group() -> None:
    """End the connections to the other processes, and with them the threads that serve them.

    Lightning does so for NCCL alone. A thread of gloo that outlives the interpreter and then drops a Python object
    aborts the process, after all work is done.
    """
    if distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()
