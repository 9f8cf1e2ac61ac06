"""Which options of ``ckcnn fit`` make another training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ckcnn.data_options import PLACES
from ckcnn.presets import plain_value


def split_options(words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Split options into settings of model and data, which name another training, and the rest.

    Example:
        >>> split_options(["--model.omega_0", "30", "--data.root=/data", "--trainer.devices=2"])
        ({'model.omega_0': 30}, ['--data.root=/data', '--trainer.devices=2'])
    """
    changes, others, waiting = {}, [], list(words)
    while waiting:
        word = waiting.pop(0)
        key, sign, text = word.removeprefix("--").replace(".init_args", "").partition("=")
        part, _, name = key.partition(".")
        if not word.startswith("--") or part not in ("model", "data") or name in PLACES:
            others.append(word)
        elif sign or waiting:
            changes[key] = plain_value(text if sign else waiting.pop(0))
        else:
            raise ValueError(f"{word} needs a value")
    return changes, others
