"""One model in its own process: ``python -m benchmarks.worker MODEL SHAPE``, driven over its standard streams.

It answers "time" with the seconds of a few steps and "peak" with the bytes that training needed above the bare process.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import torch

from benchmarks.cases import LENGTHS, SHAPES, make_step


def main(model: str, shape_name: str) -> None:
    """Serve requests until the input ends."""
    shape = next(shape for shape in (*SHAPES, *LENGTHS) if shape.name == shape_name)
    torch.randn(1).mul(2)
    bare = peak_bytes()
    step = make_step(model, shape)
    for line in sys.stdin:
        if line.strip() == "peak":
            print(json.dumps(peak_bytes() - bare), flush=True)
            continue
        step()  # the neighbour has had the cache: warm up again
        seconds = []
        for _ in range(shape.steps):
            start = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - start)
        print(json.dumps(seconds), flush=True)


def peak_bytes() -> int:
    """The most memory this process has had, not counting what it inherits from the one that started it."""
    status = Path("/proc/self/status")
    if not status.exists():  # not Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) * 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
