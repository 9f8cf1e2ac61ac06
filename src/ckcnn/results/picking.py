"""Pick a run, a search or a pair of runs from a folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ckcnn.results.reading import Results, Run
from ckcnn.results.searches import Search

_PLACES = ("name", "runs", "ckpt_path")  # settings that say where a run lies, not what it is


def pick_run(found: Results, name: str = "", tested: bool = True) -> Run:
    """Return the run that was modified last.

    Args:
        found: what `load` has found.
        name: of a run, such as ``digits/version_0``, or of a folder of runs, such as ``digits``; empty for any.
        tested: whether only runs that `ckcnn test` has seen count.

    Raises:
        ValueError: if there is none; the message says what to do.
    """
    named = [run for run in found.runs if _is_in(run.name, name)]
    if not named:
        raise ValueError(_nothing("run", name, (run.name for run in found.runs), "ckcnn fit --config digits.yaml"))
    chosen = [run for run in named if run.tests or not tested]
    if not chosen:
        raise ValueError(f"{named[-1].name} is not tested yet: ckcnn test --ckpt_path {named[-1].folder.path}")
    return max(chosen, key=_last_epoch)


def pick_search(found: Results, name: str = "") -> Search:
    """Return the search that was modified last, optionally among those with a name.

    Raises:
        ValueError: if there is none with a complete trial; the message says what to do.
    """
    named = [search for search in found.searches if _is_in(search.name, name)]
    if not named:
        command = "ckcnn search --config digits.yaml --trials 12"
        raise ValueError(_nothing("search", name, (search.name for search in found.searches), command))
    chosen = [search for search in named if search.ranked]
    if not chosen:
        raise ValueError(f"{named[-1].name} has no complete trial; see {named[-1].path / 'search.csv'} for the reasons")
    return max(chosen, key=lambda search: _written(search.path / "search.csv"))


def pick_pair(found: Results, key: str, values: tuple[Any, Any]) -> tuple[Run, Run]:
    """The newest two tested runs that differ in one setting and in nothing else.

    Args:
        found: what `load` has found.
        key: the setting, such as ``data.missing``.
        values: that it has in the first and in the second run.

    Raises:
        ValueError: if there are no such runs.
    """
    first, second = (
        sorted((run for run in found.runs if run.tests and run.setting(key) == value), key=_last_epoch, reverse=True)
        for value in values
    )
    for one in first:
        for other in second:
            if _but(one.config, key) == _but(other.config, key):
                return one, other
    ways = " and ".join(f"--{key} {value}" for value in values)
    raise ValueError(f"no two tested runs differ only in {key}; train the same with {ways}, and test both")


def _is_in(name: str, wanted: str) -> bool:
    return not wanted or name == wanted or name.startswith(f"{wanted}/")


def _nothing(kind: str, name: str, known: Iterable[str], command: str) -> str:
    names = ", ".join(known)
    wanted = f"no {kind} {name!r}" if name else f"no {kind} yet"
    return f"there is {wanted}; " + (f"known are {names}" if names else f"make one with {command}")


def _last_epoch(run: Run) -> int:
    return _written(run.folder.metrics)


def _written(path: Path) -> int:
    """Return when a file was last modified; 0 if it does not exist."""
    return path.stat().st_mtime_ns if path.is_file() else 0


def _but(config: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return all settings except one and except the location of the run."""
    part, _, name = key.partition(".")
    others = {setting: value for setting, value in config.items() if setting not in _PLACES}
    group = dict(others.get(part) or {})
    inner = dict(group.pop("init_args", None) or {})
    return {**others, part: _without(group, name), f"{part}.init_args": _without(inner, name)}


def _without(settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {setting: value for setting, value in settings.items() if setting != name}
