"""Checkpoints in which a value is missing or replaced, or whose bytes are damaged; and pickles with a payload."""

from __future__ import annotations

import pickle
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from ckcnn.runs import checkpoints
from tests.campaign.case import Expected, Kind, drawn
from tests.campaign.damage import ODD, change, spoil
from tests.campaign.judge import PAYLOAD
from tests.campaign.material import TINY_TRAINER

_strategy = st.fixed_dictionaries(
    {
        "how": st.sampled_from(["top", "top", "within", "within", "within", "other", "spoiled", "payload"]),
        "command": st.sampled_from(["test", "fit", "fit", "predict", "answer", "export", "report", "generate"]),
        "seed": st.integers(0, 10**6),
    }
)


def _draw(seed: int, count: int) -> list[tuple[Any, Expected]]:
    def expected(recipe: dict[str, Any]) -> Expected:
        if recipe["command"] == "report":
            return "fine"
        return "refused" if recipe["how"] in ("payload", "other") else "either"

    return [(recipe, expected(recipe)) for recipe in drawn(_strategy, seed, count)]


class _Payload:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path(PAYLOAD),))


def arrange(recipe: dict[str, Any], folder: Path, material: Path) -> list[str]:
    command, source = recipe["command"], random.Random(recipe["seed"])
    name = "interrupted" if command == "fit" else "digits"
    run = folder / f"runs/{name}/version_0"
    shutil.copytree(material / f"runs/{name}/version_0", run)
    paths = sorted(run.glob("checkpoints/*.ckpt"))
    if command == "generate":
        shutil.copy(material / "text.ckpt", folder / "text.ckpt")
        paths = [folder / "text.ckpt"]
    _damage(paths, recipe["how"], source)
    words = [*TINY_TRAINER, f"--data.root={material / 'data'}"]
    if command == "answer":
        np.savez(folder / "new.npz", x=np.zeros((2, 1, 64), dtype=np.float32))
        return ["predict", f"--ckpt_path={run}", "--input=new.npz", "--quiet"]
    return {
        "test": ["test", f"--ckpt_path={run}", *words],
        "fit": ["fit", f"--ckpt_path={run}", *words, "--trainer.max_epochs=2"],
        "predict": ["predict", f"--ckpt_path={run}", *words],
        "export": ["export", str(run), "--output", "made"],
        "report": ["report", "runs"],
        "generate": ["generate", "--ckpt_path=text.ckpt", "--prompt=ab", "--length=5"],
    }[command]


def _damage(paths: list[Path], how: str, source: random.Random) -> None:
    content = torch.load(paths[-1], weights_only=True)  # of an interrupted run the last one has most to tell
    for path in paths:
        path.unlink()  # they may be links to one file
    if how in ("top", "within"):
        changed = change(content, source, top=how == "top")
        for path in paths:
            checkpoints.save(changed, path)
    elif how == "other":
        for path in paths:
            torch.save(source.choice([*ODD, {"state_dict": {}}]), path)
    elif how == "payload":
        for path in paths:
            path.write_bytes(pickle.dumps(_Payload()))
            if source.random() < 0.5:
                torch.save({**content, "hyper_parameters": _Payload()}, path)
    else:
        checkpoints.save(content, paths[0])
        whole = spoil(paths[0].read_bytes(), source)
        for path in paths:
            path.write_bytes(whole)


KIND = Kind("checkpoints", _draw, arrange)
