"""Takes the picture of a page in the light and the dark theme: ``python docs/screenshot.py PAGE.html PICTURE.png``.

Writes ``PICTURE.png`` and ``PICTURE-dark.png``. It needs Chromium, and its pictures have few colours to be small.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

SIZE = (1180, 1400)
COLOURS = 128


def take(page: Path, picture: Path, dark: bool) -> None:
    """Write the upper part of a page as a picture."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("screenshots need Chromium; apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder, "page.png")
        options = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={SIZE[0]},{SIZE[1]}"]
        theme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
        command = [browser, *options, theme, f"--screenshot={whole}", page.resolve().as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        with Image.open(whole) as image:
            image.convert("RGB").quantize(COLOURS).save(picture, "png", optimize=True)


if __name__ == "__main__":
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    take(source, target, dark=False)
    take(source, target.with_stem(f"{target.stem}-dark"), dark=True)
