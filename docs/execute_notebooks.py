"""Executes the notebooks for the documentation: ``python docs/execute_notebooks.py [NAME ...]``.

The notebooks themselves are kept without outputs. `docs/tutorials/notebooks` holds the same notebooks with the outputs
of real runs, so that building the documentation trains nothing. The working folder must hold ``runs``, with the runs
that the notebooks ask for, and ``data``. A notebook is executed only if its code has changed.
"""

from __future__ import annotations

import base64
import io
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from PIL import Image

SOURCES = Path(__file__).parents[1] / "notebooks"
EXECUTED = Path(__file__).parent / "tutorials/notebooks"
COLOURS = 64  # enough for line plots, at a third of the size


def sources(notebook: Any) -> list[tuple[str, str]]:
    """Kind and text of each cell, with links that lead to the same page from here."""
    return [(cell.cell_type, cell.source.replace("](../docs/", "](../../")) for cell in notebook.cells]


def _small(picture: str) -> str:
    """A PNG with fewer colours."""
    with Image.open(io.BytesIO(base64.b64decode(picture))) as image:
        written = io.BytesIO()
        image.convert("RGB").quantize(COLOURS).save(written, "png", optimize=True)
    return base64.b64encode(written.getvalue()).decode()


def _without_machine(text: str) -> str:
    """The text with paths as they are in a clone of your own, and without the colours of a terminal."""
    return re.sub(r"\x1b\[[\d;]*m", "", text).replace(str(Path.cwd()), "/home/you/ckcnn")


def _joined(outputs: list[Any]) -> list[Any]:
    """Outputs in which printed text that came in pieces is in one."""
    joined: list[Any] = []
    for output in outputs:
        if joined and output.get("name", "") == joined[-1].get("name", None):
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def _clean(output: Any) -> Any:
    if "text" in output:
        output.text = _without_machine(output.text)
    for kind, content in output.get("data", {}).items():
        output.data[kind] = _small(content) if kind == "image/png" else _without_machine(content)
    output.get("metadata", {}).clear()
    return output


def execute(name: str) -> Any:
    """The notebook with outputs, executed in a folder beside ``runs`` and ``data``."""
    notebook = nbformat.read(SOURCES / f"{name}.ipynb", as_version=4)
    folder = Path("notebooks")
    folder.mkdir(exist_ok=True)
    NotebookClient(notebook, timeout=1800, resources={"metadata": {"path": str(folder)}}).execute()
    for cell in notebook.cells:
        cell.metadata.clear()
        if cell.cell_type == "code":
            cell.outputs = _joined([_clean(output) for output in cell.outputs])
    return notebook


def update(name: str) -> None:
    """Write the executed notebook; execute it only if its code has changed."""
    fresh, path = nbformat.read(SOURCES / f"{name}.ipynb", as_version=4), EXECUTED / f"{name}.ipynb"
    code = [text for kind, text in sources(fresh) if kind == "code"]
    kept = nbformat.read(path, as_version=4) if path.exists() else None
    if kept is None or [cell.source for cell in kept.cells if cell.cell_type == "code"] != code:
        kept = execute(name)
    outputs = iter([cell for cell in kept.cells if cell.cell_type == "code"])
    fresh.cells = [next(outputs) if cell.cell_type == "code" else cell for cell in fresh.cells]
    for cell, (_, text) in zip(fresh.cells, sources(fresh), strict=True):
        cell.source = text
    EXECUTED.mkdir(exist_ok=True)
    nbformat.write(fresh, path)


if __name__ == "__main__":
    for one in sys.argv[1:] or sorted(path.stem for path in SOURCES.glob("*.ipynb")):
        sys.stdout.write(f"{one}\n")
        update(re.sub(r"\.ipynb$", "", one))
