"""Run folders of which one file is missing, damaged or holds other values, for every command that reads them."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from tests.campaign.case import Expected, Kind, drawn
from tests.campaign.damage import ODD, change, spoil
from tests.campaign.material import TINY_TRAINER

_FILES = ("config.yaml", "config.yaml", "results.json", "results.json", "metrics.csv", "search.csv")
_COMMANDS = ("report", "report", "report", "test", "validate", "predict", "fit", "export")
_strategy = st.fixed_dictionaries(
    {
        "file": st.sampled_from(_FILES),
        "how": st.sampled_from(["changed", "changed", "changed", "other", "spoiled", "gone", "folder"]),
        "command": st.sampled_from(_COMMANDS),
        "seed": st.integers(0, 10**6),
    }
)
_SEARCH = "trial,state,val/accuracy,model.omega_0,val_loss,best_epoch,epochs,seconds,folder,reason,mode\n"
_SEARCH += "0,complete,0.5,10.0,0.1,1,2,3.0,trial_0,,max\n"


def _draw(seed: int, count: int) -> list[tuple[Any, Expected]]:
    return [(recipe, "fine" if recipe["command"] == "report" else "either") for recipe in drawn(_strategy, seed, count)]


def arrange(recipe: dict[str, Any], folder: Path, material: Path) -> list[str]:
    name = "interrupted" if recipe["command"] == "fit" else "digits"
    run = folder / f"runs/{name}/version_1"
    for version in ("version_0", "version_1"):
        shutil.copytree(material / f"runs/{name}/version_0", run.with_name(version))
    if recipe["file"] == "search.csv":
        run = folder / "runs/search"
        run.mkdir()
        (run / "search.csv").write_text(_SEARCH)
    _damage(run / recipe["file"], recipe["how"], random.Random(recipe["seed"]))
    if recipe["command"] == "report":
        return ["report", "runs"]
    words = [*TINY_TRAINER, f"--data.root={material / 'data'}"]
    if recipe["command"] == "export":
        return ["export", str(run), "--output", "made"]
    if recipe["command"] == "fit":
        return ["fit", f"--ckpt_path={run}", *words, "--trainer.max_epochs=2"]
    return [recipe["command"], f"--ckpt_path={run}", *words]


def _damage(path: Path, how: str, source: random.Random) -> None:
    content = path.read_bytes()
    if how == "gone":
        path.unlink()
    elif how == "folder":
        path.unlink()
        path.mkdir()
    elif how == "spoiled":
        path.write_bytes(spoil(content, source))
    elif how == "other":
        path.write_text(json.dumps(source.choice(ODD)))
    elif path.suffix == ".yaml":
        path.write_text(yaml.safe_dump(change(yaml.safe_load(content), source)))
    elif path.suffix == ".json":
        path.write_text(json.dumps(change(json.loads(content), source)))
    else:
        rows = [line.split(",") for line in content.decode().splitlines()]
        row = source.choice(rows)
        row[source.randrange(len(row))] = str(source.choice(ODD))
        path.write_text("\n".join(map(",".join, rows)) + "\n")


def _check(recipe: dict[str, Any], folder: Path, code: int, output: str) -> str:
    """One broken run never hides the others."""
    if recipe["command"] != "report":
        return ""
    page = folder / "report.html"
    if not page.is_file() or "digits/version_0" not in page.read_text():
        return "the report does not show the good run"
    return ""


KIND = Kind("run folders", _draw, arrange, check=_check)
