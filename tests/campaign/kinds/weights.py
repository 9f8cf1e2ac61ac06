"""Files of weights and exported folders that nobody vouches for."""

from __future__ import annotations

import json
import pickle
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from tests.campaign.case import Expected, Kind, drawn
from tests.campaign.damage import ODD, change, spoil
from tests.campaign.judge import PAYLOAD

_strategy = st.fixed_dictionaries(
    {
        "how": st.sampled_from(["config", "config", "spoiled config", "spoiled weights", "import", "payload"]),
        "seed": st.integers(0, 10**6),
    }
)


def _draw(seed: int, count: int) -> list[tuple[Any, Expected]]:
    refused = ("import", "payload")
    return [(recipe, "refused" if recipe["how"] in refused else "either") for recipe in drawn(_strategy, seed, count)]


class _Payload:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path(PAYLOAD),))


def arrange(recipe: dict[str, Any], folder: Path, material: Path) -> list[str]:
    source, how = random.Random(recipe["seed"]), recipe["how"]
    if how in ("import", "payload"):
        odd = source.choice([*ODD, {"a": torch.zeros(3)}, {"a": torch.tensor(float("nan"))}, {1: torch.zeros(1)}])
        torch.save(odd if how == "import" else {"a": _Payload()}, folder / "their.pt")
        if source.random() < 0.3:
            content = pickle.dumps(_Payload()) if how == "payload" else source.randbytes(100)
            (folder / "their.pt").write_bytes(content)
        return ["import", "their.pt", "--config=smnist.yaml", "--output=made.ckpt"]
    made = folder / "exported"
    shutil.copytree(material / "exported", made)
    config, weights = made / "config.json", made / "model.safetensors"
    if how == "config":
        config.write_text(json.dumps(change(json.loads(config.read_text()), source)))
    elif how == "spoiled config":
        config.write_bytes(spoil(config.read_bytes(), source))
    else:
        weights.write_bytes(spoil(weights.read_bytes(), source))
    np.savez(folder / "new.npz", x=np.zeros((2, 1, 64), dtype=np.float32))
    return ["predict", "--ckpt_path=exported", "--input=new.npz", "--quiet"]


KIND = Kind("weights", _draw, arrange)
