"""Markdown prose wraps at 100 characters; tables and code may be longer, and so may one word, picture or command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WRITTEN = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
PAGES = sorted(page for page in WRITTEN if not {"_build", "tables"} & set(page.parts))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_prose_wraps(page: Path) -> None:
    text = re.sub(r"(?ms)^ *```.*?^ *```", "", page.read_text())
    lines = [line for line in text.splitlines() if len(line) > 100 and not line.startswith("|")]
    wholes = re.compile(r"!?\[[^]]*\]\([^)]*\)\)?|`[^`]*`")
    assert [line for line in lines if " " in wholes.sub("", line.removeprefix("- ")).strip()] == []
