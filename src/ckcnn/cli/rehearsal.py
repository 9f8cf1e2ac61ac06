"""A run that is only put together: settings, data and model are made, nothing is trained or written."""

from __future__ import annotations

from typing import Any

import torch

from ckcnn.cli.lightning_cli import CKCNNCLI


class Rehearsal(CKCNNCLI):
    """Makes data and model of a run, but nothing that trains or writes."""

    def instantiate_trainer(self, **kwargs: Any) -> Any:
        return None


class WeightlessRehearsal(Rehearsal):
    """The same without the memory for the weights."""

    def instantiate_classes(self) -> None:
        try:
            with torch.device("meta"):
                super().instantiate_classes()
        except (RuntimeError, NotImplementedError):  # a model of the user's that computes with its weights
            super().instantiate_classes()
