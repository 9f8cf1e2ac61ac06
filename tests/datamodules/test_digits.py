from __future__ import annotations

from pathlib import Path

import torch
from sklearn.datasets import load_digits

from ckcnn.datamodules import Digits


def test_real_digits(tmp_path: Path) -> None:
    module = Digits(root=tmp_path, standardise="none")
    module.prepare_data()
    module.setup()
    assert {name: len(rows) for name, rows in module.splits.items()} == {"train": 1257, "val": 270, "test": 270}
    images, labels = load_digits(return_X_y=True)
    batch = module.dataset("val").__getitems__(range(270))
    assert torch.equal(batch.x[:, 0], torch.from_numpy(images[module.splits["val"]]).float())
    assert batch.y.tolist() == labels[module.splits["val"]].tolist()
