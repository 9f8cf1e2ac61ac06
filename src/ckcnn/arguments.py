"""How commands of our own read their arguments."""

from __future__ import annotations

import argparse
from typing import Any


class Parser(argparse.ArgumentParser):
    """Raises instead of leaving the process, so that `main` of the package tells all mistakes in the same way."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options})

    def error(self, message: str) -> Any:
        raise ValueError(f"{message}; see {self.prog} --help")
