"""Seconds of one epoch of bare batches over sequential MNIST: ``CKCNN_DATA=... python -m benchmarks.loading``.

It should stay below 2 s on two cores. The files must lie in the folder, see ``ckcnn data``.
"""

from __future__ import annotations

import tempfile
import time
from typing import Any

from ckcnn.datamodules import SequentialMNIST

_CASES: dict[str, dict[str, Any]] = {
    "sMNIST": {},
    "pMNIST": {"permuted": True},
    "sMNIST, two workers": {"num_workers": 2},
    "sMNIST, half of the pixels dropped": {"drop_rate": 0.5},
    "sMNIST, half of the pixels gone, with time stamps": {"drop_rate": 0.5, "missing": "times"},
}


def main() -> None:
    """Print one line for each case."""
    with tempfile.TemporaryDirectory() as cache:
        for name, options in _CASES.items():
            module = SequentialMNIST(cache=cache, **options)
            module.prepare_data()
            module.setup()
            loader = module.train_dataloader()
            start = time.perf_counter()
            seen = sum(len(batch.x) for batch in loader)
            seconds = time.perf_counter() - start
            print(f"{name}: {seconds:.2f} s for {seen:,} images, {1e3 * seconds / len(loader):.2f} ms a batch")


if __name__ == "__main__":
    main()
