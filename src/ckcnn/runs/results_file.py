"""The output of a test: a small table, and ``results.json`` in the run folder."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

import ckcnn
from ckcnn.data_options import DEFAULTS, TREATMENTS
from ckcnn.files import replacing
from ckcnn.formatting import readable
from ckcnn.runs.folder import RunFolder


def write(run: RunFolder, result: dict[str, Any]) -> None:
    """Put a test into ``results.json``: the newest at the top, earlier ones with other settings under ``earlier``."""
    same = ("checkpoint", "data", "coarse")
    earlier = [other for other in _known(run.results) if any(other.get(key) != result.get(key) for key in same)]
    with replacing(run.results) as file:
        file.write((json.dumps({**result, "earlier": earlier}, indent=2) + "\n").encode())


def _known(path: Path) -> list[dict[str, Any]]:
    """Return the tests in a file; an unreadable file is renamed, so that no new test is lost."""
    if not path.exists():
        return []
    try:
        newest = json.loads(path.read_text(encoding="utf-8"))
        return [test for test in (newest, *newest.pop("earlier", [])) if isinstance(test, dict) and test]
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        path.replace(path.with_name(f"{path.name}.broken"))
        return []


def describe(
    metrics: Mapping[str, float],
    run: RunFolder,
    choice: Any,
    config: Any,
    model: Any,
    data: Any,
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the full record of a test: results, checkpoint, data and versions."""
    inside = choice.checkpoint.is_relative_to(run.path)
    return {
        "metrics": dict(metrics),
        "monitor": config.monitor and dict(config.monitor),
        "paper": config.paper and dict(config.paper),
        "preset": choice.name,
        "model": model.network_name,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "checkpoint": str(choice.checkpoint.relative_to(run.path) if inside else choice.checkpoint),
        "epoch": choice.content.get("epoch"),
        "step": choice.content.get("global_step"),
        "seed": config.seed_everything,
        "data": {
            "class": type(data).__name__,
            **facts,
            **{name: getattr(data, name, DEFAULTS[name]) for name in TREATMENTS},
            "sizes": {split: len(rows) for split, rows in getattr(data, "splits", {}).items()},
        },
        "coarse": model.hparams.get("coarse"),  # None: as the network reads its kernels by default
        "classes": list(getattr(data, "classes", ())) or None,
        "confusion": model.confused,
        **provenance(),
    }


def provenance() -> dict[str, Any]:
    """Return the machine and the versions that produced a result."""
    packages = ("torch", "pytorch-lightning", "torchmetrics")
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"ckcnn": ckcnn.__version__, "python": platform.python_version()}
        | {package: version(package) for package in packages},
        "git_commit": git_commit(),
        "machine": machine(),
    }


def machine() -> str:
    """Return the name of the processor and the number of cores."""
    if torch.cuda.is_available():
        return f"{torch.cuda.device_count()} x {torch.cuda.get_device_name()}"
    listed = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*:\s*(.+)$", listed.read_text() if listed.is_file() else "", re.MULTILINE)
    return f"{names[0] if names else platform.processor() or platform.machine()}, {os.cpu_count()} cores"


def git_commit() -> str | None:
    """Return the git commit of the sources, with ``+`` if they have changes; None outside a checkout."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
        changed = subprocess.run([*git, "status", "--porcelain", "-uno"], check=True, capture_output=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("+" if changed else "")


def print_table(metrics: Mapping[str, float], paper: Mapping[str, Any] | None) -> None:
    """Show the metrics, beside those of the paper where it has them."""
    table = Table("metric", "value", "paper", box=None, pad_edge=False)
    for name, value in metrics.items():
        table.add_row(name, readable(name, value), readable(name, (paper or {}).get(name)))
    Console(soft_wrap=True).print(table)
