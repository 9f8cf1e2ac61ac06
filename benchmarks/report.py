"""How long `ckcnn report` takes for many runs, and how long a browser takes to open the page.

python -m benchmarks.report [RUNS]
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import yaml

from ckcnn import CKCNN
from ckcnn.__main__ import main as ckcnn
from ckcnn.runs import checkpoints, metrics_table

_EPOCHS, _CLASSES, _ROUNDS = 200, 20, 3


def main(runs: int = 200) -> None:
    """Make run folders of the size of CharacterTrajectories, write the page, and open it."""
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(runs):
            _make_run(folder / f"runs/preset_{number // 20}/version_{number % 20}")
        page = folder / "report.html"
        start = time.perf_counter()
        ckcnn(["report", str(folder / "runs"), "--output", str(page)])
        print(f"{time.perf_counter() - start:.1f} s after the imports, {page.stat().st_size / 1e6:.1f} MB")
        if browser := shutil.which("chromium") or shutil.which("google-chrome"):
            blank = folder / "blank.html"
            blank.write_text("<p>")
            seconds = [min(_open(browser, path, folder) for _ in range(_ROUNDS)) for path in (page, blank)]
            print(f"the browser takes {seconds[0] - seconds[1]:.1f} s more than for an empty page ({seconds[1]:.1f} s)")


def _make_run(path: Path) -> None:
    path.mkdir(parents=True)
    model = CKCNN(3, _CLASSES, "classification", 182)
    content = {"state_dict": model.state_dict(), "hyper_parameters": dict(model.hparams), "model_class": "CKCNN"}
    checkpoints.save(content, path / f"checkpoints/best-{_EPOCHS - 1}.ckpt")
    options = {key: value for key, value in model.hparams.items() if key != "dt"}
    config = {"seed_everything": 0, "model": {"class_path": "ckcnn.CKCNN", "init_args": options}}
    (path / "config.yaml").write_text(yaml.safe_dump(config | {"paper": {"test/accuracy": 0.99}}))
    names = ("train/accuracy", "train/loss", "val/accuracy", "val/loss", "seconds")
    rows = [
        {"epoch": epoch, "step": epoch, **dict(zip(names, torch.rand(5).tolist(), strict=True))}
        for epoch in range(_EPOCHS)
    ]
    metrics_table.write(path / "metrics.csv", rows)
    data = {"task": "classification", "dt": {"test": 1.0}, "drop_rate": 0.0}
    confusion = (20 * torch.eye(_CLASSES) + (torch.rand(_CLASSES, _CLASSES) < 0.1)).int().tolist()
    test = {"metrics": {"test/accuracy": 0.98}, "data": data, "confusion": confusion, "earlier": []}
    (path / "results.json").write_text(json.dumps(test))


def _open(browser: str, page: Path, folder: Path) -> float:
    words = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    start = time.perf_counter()
    subprocess.run([*words, f"--screenshot={folder / 'x.png'}", page.as_uri()], check=True, capture_output=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
