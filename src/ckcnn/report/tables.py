"""The tables of `ckcnn reproduce`, read from the Markdown files that it writes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_MOST = 2_000_000  # bytes; a table of the whole archive has a hundredth of that


@dataclass(frozen=True)
class Grid:
    """A table: its head, and its rows, each as long as the head."""

    head: list[str]
    rows: list[list[str]] = field(default_factory=list)


@dataclass(frozen=True)
class Document:
    """A file of tables.

    Attributes:
        title: its heading.
        blocks: paragraphs and tables, in their order.
    """

    title: str
    blocks: list[str | Grid]


def read_all(folder: Path, broken: dict[Path, str]) -> list[Document]:
    """Return every file of a folder that holds tables.

    Args:
        folder: where `ckcnn reproduce` has written them.
        broken: gets the files that cannot be read, and why.
    """
    documents = []
    for path in sorted(folder.glob("*.md")):
        try:
            documents.append(read(path))
        except (ValueError, OSError) as error:
            broken[path] = str(error)
    return documents


def read(path: Path) -> Document:
    """Return the tables of one file.

    Raises:
        ValueError: if it is not a file of tables.
    """
    if path.stat().st_size > _MOST:
        raise ValueError(f"expected tables of ckcnn reproduce, got {path.stat().st_size:,} bytes")
    text = path.read_text(encoding="utf-8")
    title, *parts = (part.strip("\n") for part in re.split(r"\n\s*\n", text.strip()))
    blocks: list[str | Grid] = [_grid(part) if part.startswith("|") else part for part in parts]
    if not title.startswith("# ") or not any(isinstance(block, Grid) for block in blocks):
        raise ValueError("expected a heading and tables as ckcnn reproduce writes them")
    return Document(title.removeprefix("# "), blocks)


def _grid(part: str) -> Grid:
    head, *rows = list(_cells(part))
    rows = [row for row in rows if set("".join(row)) - set("-: ")]
    if any(len(row) != len(head) for row in rows):
        raise ValueError("a row of a table has another number of cells than its head")
    return Grid(head, rows)


def _cells(part: str) -> Iterator[list[str]]:
    for line in part.splitlines():
        yield [re.sub(r"\*\*|`", "", cell).strip() for cell in line.strip().strip("|").split("|")]
