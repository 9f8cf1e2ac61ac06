"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the name `path` when it is safe on the disk.

    Whatever happens, `path` holds the old content or the whole new one, and nothing else stays behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        part = Path(file.name)
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            part.chmod(0o644)
            part.replace(path)
        except OSError as error:
            part.unlink()
            message = f"{error.strerror or error} while writing {path}"
            raise OSError(error.errno, f"{message}; the previous one is whole") from None
        except BaseException:
            part.unlink()
            raise
