"""Checkpoints from the weights that the paper's authors published."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ckcnn.reference.model import ReferenceCKCNN
from ckcnn.reference.translation import recognise, translate
from ckcnn.reference.weights_file import read_tensors

WORDS = {
    "in_channels": "channels",
    "out_channels": "classes",
    "hidden_channels": "hidden channels",
    "horizon": "training length",
}


def import_weights(path: str | os.PathLike[str], omega_0: float, **arguments: Any) -> dict[str, Any]:
    """Make a checkpoint of a `ReferenceCKCNN` from a file of the authors.

    Args:
        path: file with their weights; it is not trusted.
        omega_0: the exact value of the run, which is in no file.
        arguments: others of `ReferenceCKCNN`. What the file contains must agree with it, and may be left out.

    Returns:
        What Lightning and `ReferenceCKCNN.load_from_checkpoint` load, all plain values and tensors.

    Raises:
        ValueError: if the file cannot be used, or is another model than the arguments ask for.
    """
    tensors = read_tensors(path)
    try:
        facts = recognise(tensors)
    except ValueError as error:
        raise ValueError(f"{path} is not one of the authors' models: {error}") from None
    different = [name for name in facts if arguments.get(name) not in (None, facts[name])]
    if different:
        differences = ", ".join(f"{WORDS.get(name, name)} {facts[name]}, not {arguments[name]}" for name in different)
        raise ValueError(f"{path} is a different model: it has {differences}; ckcnn import --list shows its preset")
    settings = {**facts, **arguments, "omega_0": omega_0}
    if "horizon" not in settings:
        raise ValueError(f"{path} does not contain the length of the training sequences; give it as horizon")
    model = ReferenceCKCNN(**settings)
    model.load_state_dict(translate(tensors, facts))
    return {
        "model_class": ReferenceCKCNN.__name__,
        "hyper_parameters": dict(model.hparams),
        "network": model.network_settings(),
        "state_dict": dict(model.state_dict()),
        "imported_from": Path(path).name,
        "pytorch-lightning_version": version("pytorch-lightning"),
        "epoch": 0,
        "global_step": 0,
        "optimizer_states": [],  # training can resume from here with a new optimizer
        "lr_schedulers": [],
    }
