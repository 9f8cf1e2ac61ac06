"""Print the lowest versions that setup.cfg allows, as constraints for pip; ``make test-oldest`` tests with them."""

from __future__ import annotations

import re
import sys
from configparser import ConfigParser
from pathlib import Path


def floors(text: str) -> dict[str, str]:
    """Return the lowest version of every package that a ``setup.cfg`` requires, development tools included.

    Raises:
        ValueError: if a requirement has no floor, because nothing could be tested for it.
    """
    config = ConfigParser()
    config.read_string(text)
    lines = config["options"]["install_requires"] + config["options.extras_require"]["dev"]
    found = {}
    for line in filter(None, map(str.strip, lines.splitlines())):
        match = re.match(r"([\w.-]+)(?:\[[\w,]+\])? *>=([\w.]+)", line)
        if match is None:
            raise ValueError(f"setup.cfg requires {line!r} without a floor; write {line} >=VERSION,<MAJOR")
        found[match[1]] = match[2]
    return found


if __name__ == "__main__":
    for name, version in floors(Path("setup.cfg").read_text()).items():
        sys.stdout.write(f"{name}=={version}\n")
