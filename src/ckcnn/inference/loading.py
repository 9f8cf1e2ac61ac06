"""From a run folder, a checkpoint or an exported folder to a model that predicts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

import ckcnn
from ckcnn import datamodules, presets
from ckcnn.datamodules import SequenceDataModule
from ckcnn.datamodules.preprocessing import Preprocessing
from ckcnn.inference.model import TrainedModel
from ckcnn.models import pretrained
from ckcnn.models.own_net import NetFactory, OwnNet, needs_net, with_stored_arguments
from ckcnn.models.sequence_module import SequenceModule, inference_settings, inference_weights
from ckcnn.results.learned import network_of
from ckcnn.runs import checkpoints
from ckcnn.runs.checkpoint_structure import settings_of
from ckcnn.runs.folder import RunFolder

_NAME_IT = "name it: --model.net {name}, or ckcnn.load(path, net={name}) in Python"


def load(
    path: str | os.PathLike[str],
    device: str | torch.device | None = None,
    *,
    data: SequenceDataModule | None = None,
    model_class: type[SequenceModule] | None = None,
    net: NetFactory | None = None,
) -> TrainedModel:
    """Return a trained model that takes raw measurements.

    Args:
        path: a run folder (its best checkpoint), a checkpoint, or a folder that ``ckcnn export`` wrote.
        device: where to compute; the CPU by default.
        data: the data module of the training, for a checkpoint of an earlier version, which does not hold what was done
            to raw sequences.
        model_class: your own `SequenceModule`, if the model is one.
        net: your own network or its class, if the model is an `ckcnn.OwnNet`; a class gets the stored arguments.

    Raises:
        ValueError: if there is no such model, or its files are damaged.
    """
    content, source = read_artefact(Path(path).expanduser())
    net, takes_times = _network(content, source, model_class, net)
    state = content.get("preprocessing")
    return TrainedModel(
        net=_on_device(net.eval(), device or "cpu"),
        task=str(settings_of(content, source)["task"]),
        preprocessing=_described(data)
        if state is None and data is not None
        else state and Preprocessing.from_state(state),
        takes_times=takes_times,
        content=content,
        source=source,
    )


def read_artefact(path: Path) -> tuple[dict[str, Any], Path]:
    """Read what a run folder, a checkpoint or an exported folder holds, and return it with the file that it is from.

    Raises:
        ValueError: if `path` is none of them.
    """
    if path.is_dir() and pretrained.is_folder(path):
        return pretrained.read_folder(path), path
    if path.is_dir():
        run = RunFolder.of(path)
        if run is None or run.path != path:
            raise ValueError(
                f"{path} is neither a run folder (config.yaml and checkpoints) nor an exported model "
                f"({pretrained.CONFIG} and {pretrained.WEIGHTS})"
            )
        path = run.best() or run.checkpoint("last")
    content = checkpoints.load(path)
    if "preprocessing" not in content and (run := RunFolder.of(path)) is not None:
        derived = _from_data(run)
        content |= {} if derived is None else {"preprocessing": derived.state()}
    return content, path


def save_folder(path: str | os.PathLike[str], folder: str | os.PathLike[str]) -> None:
    """Write a run or a checkpoint as ``config.json`` and ``model.safetensors``.

    Args:
        path: a run folder (its best checkpoint) or a checkpoint.
        folder: where to write; it is made if it is not there.
    """
    content, _ = read_artefact(Path(path).expanduser())
    pretrained.write_folder(content, Path(folder).expanduser())


def _network(
    content: Mapping[str, Any], source: Path, model_class: type[SequenceModule] | None, net: NetFactory | None
) -> tuple[nn.Module, bool]:
    """The network, and whether it takes time stamps."""
    name = str(content["model_class"])
    kind = model_class or (getattr(ckcnn, name) if name in ckcnn.MODELS else None)
    if kind is None and "network" in content:  # a subclass of CKCNN; its network is one of ours
        return network_of(content, source), True
    if kind is None:
        raise ValueError(f"{source} holds a {name}, which is not part of ckcnn; pass its class as model_class")
    own = _own_net(content, source, kind, net)
    try:
        model = kind(**inference_settings(content), **own)
        model.load_state_dict(inference_weights(content))
    except (KeyError, TypeError, AttributeError, RuntimeError):
        raise ValueError(
            f"{source} does not hold what its settings say: its weights belong to a different network"
        ) from None
    return model.net, model.takes_times


def _own_net(
    content: Mapping[str, Any], source: Path, kind: type[SequenceModule], net: NetFactory | None
) -> dict[str, Any]:
    """The network of the user's own, for a model that takes one."""
    if not issubclass(kind, OwnNet):
        if net is not None:
            raise ValueError(
                f"{source} holds a {content['model_class']}, which builds its network itself; leave out net"
            )
        return {}
    stored = content.get("net")
    if net is None:
        raise ValueError(f"{source}: {needs_net(stored, _NAME_IT)}")
    return {"net": with_stored_arguments(net, stored)}


def _on_device(net: nn.Module, device: str | torch.device) -> nn.Module:
    try:
        if torch.device(device).type != "meta":  # which holds no values
            return net.to(device)
    except (RuntimeError, AssertionError, NotImplementedError):  # torch's words for a device that is not there
        pass
    raise ValueError(f"device must be one of this machine, such as cpu or cuda, got {str(device)!r}")


def _described(data: SequenceDataModule) -> Preprocessing:
    data.prepare_data()
    data.setup()
    return data.preprocessing


def _from_data(run: RunFolder) -> Preprocessing | None:
    """What an earlier version did not store, from the data of the run, as far as that is still there."""
    settings = presets.load(run.config).get("data") or {}
    kind = getattr(datamodules, str(settings.get("class_path", "")).rpartition(".")[2], None)
    if not isinstance(kind, type) or not issubclass(kind, SequenceDataModule):
        return None
    try:
        arguments = settings.get("init_args") or {}
        data = kind(**arguments)
        data.may_prepare = arguments.get("root") is None and arguments.get("cache") is None
        return None if data.absent_files() else _described(data)
    except (ValueError, TypeError, OSError):  # it is not; `TrainedModel` says what to do when it is asked
        return None
