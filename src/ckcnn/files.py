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


def check_output(path: Path, *endings: str) -> None:
    """What ``--output`` names must be a file that can be written; told before the work begins.

    Raises:
        ValueError: if it is not.
    """
    if path.suffix not in endings:
        wanted = " or ".join(filter(None, [", ".join(endings[:-1]), endings[-1]]))
        raise ValueError(f"--output must end in {wanted}, got {path}")
    if path.is_dir():
        raise ValueError(f"--output {path} is a folder; choose another name")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"--output {path} lies in a folder that does not exist; make it first")
