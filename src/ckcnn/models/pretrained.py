"""A trained model as a folder of two files, ``config.json`` and ``model.safetensors``, the layout of the hub."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from ckcnn.files import replacing

CONFIG, WEIGHTS = "config.json", "model.safetensors"
_TENSORS = "preprocessing."  # tensors of the preprocessing among the weights
_PLAIN = ("model_class", "hyper_parameters", "network", "net", "made_by", "imported_from")
_CHECKSUM = "sha256"  # of the weights in the settings, and of the settings in the weights


def write_folder(content: Mapping[str, Any], folder: Path) -> None:
    """Write what a checkpoint holds of a trained model, without what only training needs.

    Raises:
        ValueError: if a file has the name of the folder.
    """
    from safetensors.torch import save

    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; choose a folder for {CONFIG} and {WEIGHTS}")
    config: dict[str, Any] = {name: _plain(content[name]) for name in _PLAIN if name in content}
    tensors = dict(content["state_dict"])
    if content.get("preprocessing") is not None:
        state = content["preprocessing"]
        tensors |= {f"{_TENSORS}{name}": value for name, value in state.items() if isinstance(value, Tensor)}
        config["preprocessing"] = {name: value for name, value in state.items() if not isinstance(value, Tensor)}
    # Layers may share a tensor; in the file each has its own.
    whole = {name: value.detach().cpu().clone().contiguous() for name, value in tensors.items()}
    weights = save(whole, metadata={"format": "pt", _CHECKSUM: _checksum_of(config)})
    config[_CHECKSUM] = hashlib.sha256(weights).hexdigest()
    with replacing(folder / WEIGHTS) as file:
        file.write(weights)
    with replacing(folder / CONFIG) as file:
        file.write((json.dumps(config, indent=2) + "\n").encode())


def is_folder(path: Path) -> bool:
    """Return whether a folder was written by `write_folder`."""
    return (path / CONFIG).is_file() and (path / WEIGHTS).is_file()


def read_folder(folder: Path) -> dict[str, Any]:
    """Read what `write_folder` wrote; nothing in the files is run.

    Raises:
        ValueError: if the folder holds no such files, or they are damaged.
    """
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import load

    if not is_folder(folder):
        raise ValueError(f"{folder} holds no exported model ({CONFIG} and {WEIGHTS}); ckcnn export writes one")
    try:
        content = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        weights = (folder / WEIGHTS).read_bytes()
        tensors = load(weights)
        with safe_open(folder / WEIGHTS, framework="pt") as file:
            expected = (file.metadata() or {}).get(_CHECKSUM)
    except (json.JSONDecodeError, UnicodeDecodeError, SafetensorError, RecursionError):
        raise ValueError(f"{folder} holds no whole exported model (damaged, or other files); export it again") from None
    if not isinstance(content, dict) or not {"model_class", "hyper_parameters"} <= content.keys():
        raise ValueError(f"{folder / CONFIG} is not of ckcnn: it names no model_class with its hyper_parameters")
    _check_both(folder, content, content.pop(_CHECKSUM, None), weights, expected)
    kept = {name.removeprefix(_TENSORS): value for name, value in tensors.items() if name.startswith(_TENSORS)}
    content["state_dict"] = {name: value for name, value in tensors.items() if not name.startswith(_TENSORS)}
    if isinstance(content.get("preprocessing"), dict):
        content["preprocessing"] |= kept
    return content


def _check_both(
    folder: Path, config: Mapping[str, Any], of_weights: str | None, weights: bytes, of_config: str | None
) -> None:
    """Compare the checksums that each file keeps of the other one; a folder of an earlier version has none."""
    if of_weights is None and of_config is None:
        return
    found = {WEIGHTS: hashlib.sha256(weights).hexdigest() == of_weights, CONFIG: _checksum_of(config) == of_config}
    if damaged := [name for name, same in found.items() if not same]:
        raise ValueError(f"{folder / damaged[0]} is damaged: its checksum does not match; export it again")


def _checksum_of(config: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def find_folder(name: str | Path) -> Path:
    """Return the folder of an exported model: as named, or else downloaded from the Hugging Face hub.

    Raises:
        ValueError: if there is no such folder and `huggingface_hub` is not installed, or does not find it either.
    """
    path = Path(name)
    if path.is_dir() or len(path.parts) != 2 or path.is_absolute():  # on the hub it would be owner/name
        return path
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise ValueError(
            f"there is no folder {path}; to download a model of this name, pip install 'ckcnn[hub]'"
        ) from None
    try:
        return Path(snapshot_download(str(name), allow_patterns=[CONFIG, WEIGHTS]))
    except Exception as error:  # the hub raises its own errors and those of the network
        raise ValueError(f"there is no folder {path}, and the hub did not give it: {_reason(error)}") from None


def push_folder(folder: Path, repository: str, private: bool = True) -> str:
    """Upload an exported model to the Hugging Face hub and return its address.

    Args:
        folder: what `write_folder` wrote.
        repository: ``owner/name``; it is made if it is not there.
        private: whether a new repository is visible to its owner alone.

    Raises:
        ValueError: if the folder holds no exported model, `huggingface_hub` is not installed, or the hub refuses it.
    """
    if not is_folder(folder):
        raise ValueError(f"{folder} holds no exported model ({CONFIG} and {WEIGHTS})")
    try:
        from huggingface_hub import HfApi
    except ImportError:
        raise ValueError("uploading needs huggingface_hub: pip install 'ckcnn[hub]'") from None
    hub = HfApi()
    try:
        hub.create_repo(repository, private=private, exist_ok=True)
        commit = hub.upload_folder(repo_id=repository, folder_path=folder, allow_patterns=[CONFIG, WEIGHTS])
    except Exception as error:  # the hub raises its own errors and those of the network
        raise ValueError(f"the hub did not take {repository}: {_reason(error)}; log in with: hf auth login") from None
    return str(commit.repo_url)


def _reason(error: Exception) -> str:
    """The first line of what a library says, without its full stop."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(" .") if lines else type(error).__name__


def _plain(value: Any) -> Any:
    """Settings as JSON knows them: Lightning keeps some of them in mappings of its own."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, tuple | list) else value
