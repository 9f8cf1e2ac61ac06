"""A model goes to the Hugging Face hub and comes back; the calls that would use the network are replaced."""

from __future__ import annotations

import inspect
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from ckcnn import CKCNN
from ckcnn.models import pretrained

huggingface_hub = pytest.importorskip("huggingface_hub")  # `make install` brings it


def copy_some(source: Path, to: Path, allow_patterns: list[str]) -> None:
    to.mkdir(parents=True, exist_ok=True)
    there = [path.name for path in source.iterdir()]
    for name in huggingface_hub.utils.filter_repo_objects(there, allow_patterns=allow_patterns):
        shutil.copy(source / name, to)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that answers for the hub; each call must fit the function of the library that it replaces."""
    place = tmp_path / "hub"

    def create_repo(self: Any, repo_id: str, *, private: bool, exist_ok: bool) -> None:
        huggingface_hub.utils.validate_repo_id(repo_id)
        (place / repo_id).mkdir(parents=True, exist_ok=exist_ok)
        (place / repo_id / "private").write_text(str(private))

    def upload_folder(self: Any, *, repo_id: str, folder_path: Path, allow_patterns: list[str]) -> Any:
        copy_some(folder_path, place / repo_id, allow_patterns)
        address = f"https://huggingface.co/{repo_id}/commit/0"
        return huggingface_hub.CommitInfo(commit_url=address, commit_message="", commit_description="", oid="0")

    def snapshot_download(repo_id: str, *, allow_patterns: list[str]) -> str:
        if not (place / repo_id).is_dir():
            raise FileNotFoundError(f"404: there is no {repo_id}.\nMore about it.")
        copy_some(place / repo_id, tmp_path / "downloaded", allow_patterns)
        return str(tmp_path / "downloaded")

    for owner, stand_in in (
        (huggingface_hub.HfApi, create_repo),
        (huggingface_hub.HfApi, upload_folder),
        (huggingface_hub, snapshot_download),
    ):
        known = inspect.signature(getattr(owner, stand_in.__name__)).parameters
        assert set(inspect.signature(stand_in).parameters) <= set(known)
        monkeypatch.setattr(owner, stand_in.__name__, stand_in)
    monkeypatch.chdir(tmp_path)
    return place


def test_a_model_goes_to_the_hub_and_comes_back(hub: Path, tmp_path: Path) -> None:
    model = CKCNN(2, 3, "classification", 20, hidden_channels=4, norm="step").eval()
    assert model.push_to_hub("somebody/letters") == "https://huggingface.co/somebody/letters"
    names = {path.name for path in (hub / "somebody/letters").iterdir()}
    assert names == {"private", pretrained.CONFIG, pretrained.WEIGHTS}
    assert (hub / "somebody/letters/private").read_text() == "True"
    back = CKCNN.from_pretrained("somebody/letters")
    x = torch.randn(3, 2, 20)
    assert torch.equal(back(x), model(x))
    assert {path.name for path in (tmp_path / "downloaded").iterdir()} == {pretrained.CONFIG, pretrained.WEIGHTS}


def test_only_the_two_files_of_a_folder_are_uploaded(hub: Path, tmp_path: Path) -> None:
    CKCNN(1, 2, "classification", 20, hidden_channels=4).save_pretrained("model")
    (tmp_path / "model/secret.txt").write_text("not for others")
    pretrained.push_folder(Path("model"), "somebody/letters", private=False)
    assert not (hub / "somebody/letters/secret.txt").exists()
    assert (hub / "somebody/letters/private").read_text() == "False"


def test_what_the_hub_refuses_is_one_sentence(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = CKCNN(1, 2, "classification", 20, hidden_channels=4)
    with pytest.raises(ValueError, match=r"there is no folder some/body, and the hub .*: 404: there is no some/body$"):
        CKCNN.from_pretrained("some/body")
    with pytest.raises(ValueError, match=r"holds no exported model \(config.json and model.safetensors\)$"):
        pretrained.push_folder(hub.parent, "somebody/letters")

    def refuse(*arguments: Any, **options: Any) -> None:
        raise PermissionError("401 Client Error.\nInvalid user token.")

    monkeypatch.setattr(huggingface_hub.HfApi, "create_repo", refuse)
    with pytest.raises(
        ValueError, match=r"^the hub did not take some/body: 401 Client Error; log in with: hf auth login$"
    ):
        model.push_to_hub("some/body")


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"pip install 'ckcnn\[hub\]'"):
        CKCNN(1, 2, "classification", 20, hidden_channels=4).push_to_hub("somebody/letters")
    with pytest.raises(ValueError, match=r"there is no folder somebody/letters; .* pip install 'ckcnn\[hub\]'"):
        CKCNN.from_pretrained("somebody/letters")
