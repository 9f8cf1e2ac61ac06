"""`ckcnn presets`: one line for each row of the paper's tables, with the command that trains it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from ckcnn import presets
from ckcnn.data_options import DEFAULTS
from ckcnn.formatting import readable


def main(argv: Sequence[str]) -> int:
    """List the presets."""
    if argv and argv[0] in ("-h", "--help"):
        print("usage: ckcnn presets\n\nList the presets with their number of parameters and the paper's result.")
        return 0
    if argv:
        raise ValueError(f"ckcnn presets takes no arguments, got {' '.join(argv)!r}")
    table = Table("ckcnn fit --config ...", "parameters", "paper", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    for command, paper in rows():
        table.add_row(command, f"{paper['size']:,}" if "size" in paper else "-", figure(paper))
    console = Console(width=120, soft_wrap=True)
    console.print(table)
    console.print(
        f"\nFolder: {presets.FOLDER}; a file of the same name in the working folder wins.\n"
        f"Overlays, for --config after a preset: {', '.join(f'{name}.yaml' for name in presets.OVERLAYS)}.",
        highlight=False,
    )
    return 0


def rows() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What to write after ``--config``, and the paper's result."""
    for name in presets.names():
        content = presets.load(presets.FOLDER / f"{name}.yaml")
        for row in content.get("variants") or [{"when": {}, "paper": content.get("paper") or {}}]:
            flags = [_flag(key, value) for key, value in row["when"].items() if not _is_default(content, key, value)]
            yield " ".join([f"{name}.yaml", *flags]), row["paper"]


def _flag(key: str, value: Any) -> str:
    return "--config large.yaml" if key == "model.hidden_channels" else f"--{key} {value}"


def _is_default(content: Mapping[str, Any], key: str, value: Any) -> bool:
    return presets.value_of(content, key) == value or DEFAULTS.get(key.removeprefix("data.")) == value


def figure(paper: Mapping[str, Any]) -> str:
    """What the paper reports, as people write it."""
    figures = [(name, value) for name, value in paper.items() if name != "size"]
    return ", ".join(f"{name.removeprefix('test/')} {readable(name, value)}" for name, value in figures) or "-"
