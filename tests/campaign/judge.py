"""Runs one case in this process, and says what was wrong with how it ended."""

from __future__ import annotations

import contextlib
import os
import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.campaign.case import Case, Kind

PAYLOAD = "executed.txt"  # what a payload would write
_MOST_MEMORY = 1 << 30  # bytes more than before
_LONGEST = 700  # characters of a message
# What only libraries say, or Python, or a message whose gaps nobody filled.
_RAW = (
    r"must be ,",
    r"must be\s*$",
    r"Traceback",
    r"<class '",
    r"<function ",
    r"<[\w.]+ object at",
    r"0x[0-9a-f]{6,}",
    r"object has no attribute",
    r"object is not (?:subscriptable|iterable|callable)",
    r"object cannot be interpreted",
    r"NoneType",
    r"unsupported operand",
    r"not supported between instances",
    r"unhashable type",
    r"positional argument",
    r"unexpected keyword",
    r"Parser key",
    r"parser key",
    r"Expected a <",
    r"Expected an? (?:typing|dot import)",
    r"Does not validate",
    r"MisconfigurationException",
    r"invalid literal for",
    r"could not convert string",
    r"could not broadcast",
    r"list indices must be",
    r"string indices must be",
    r"dict\(\)|dictionary update sequence",
    r"not enough values to unpack|too many values to unpack",
    r"sqlite3|sqlalchemy|SQLAlchemy|alembic",
    r"Error\(s\) in loading state_dict",
    r"Missing key\(s\)",
    r"weights_only",
    r"\[Errno ",
    r"Unable to (?:synchronously )?open|Can't (?:synchronously )?",
    r"(?:^|\s)(?:Key|Value|Type|Attribute|Index|Runtime|Assertion|Zero\w+|Overflow|Recursion|Unicode\w+)Error\b",
    r"codec can't decode",
    r"in \"<unicode string>\"|in \"<byte string>\"",
    r"Tensor\(|tensor\(",
    r"torch\.Size",
    r"np\.(?:int|float|str_|bool)",
    r"Namespace\(",
)


@dataclass(frozen=True)
class Verdict:
    """How a case ended.

    Attributes:
        problem: empty if all is well.
        said: the message, for those who look for better ones.
    """

    problem: str
    said: str = ""


def judge(case: Case, kind: Kind, folder: Path, material: Path) -> Verdict:
    """Run a case in an empty folder."""
    argv = kind.arrange(case.recipe, folder, material)
    before = _files(folder)
    memory = _reset_peak()
    with (folder.parent / f"{folder.name}.log").open("w+b") as log, _inside(folder), _into(log):
        try:
            code = (kind.run or _run)(argv)
        except BaseException as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {error}"[:300]
            return Verdict(f"traceback {text} ({place.filename.rpartition('/')[2]}:{place.lineno})")
    output = Path(log.name).read_text(encoding="utf-8", errors="replace")
    left = sorted(_files(folder) - before)
    problem = (
        _payload(folder)
        or _memory(memory)
        or _ending(case, code, output, left)
        or kind.check(case.recipe, folder, code, output)
    )
    return Verdict(problem, _message(output))


def _run(argv: list[str]) -> int:
    from ckcnn.__main__ import main

    try:
        return main(argv)
    except SystemExit as error:  # of the parser, for --help
        return int(error.code or 0)


def _ending(case: Case, code: int, output: str, left: list[str]) -> str:
    if "Traceback (most recent call last)" in output:
        return f"traceback printed: {output[-300:]}"
    if part := [name for name in left if name.endswith((".tmp", ".part", ".link"))]:
        return f"leaves {part[0]}"
    if code == 0:
        return "accepted" if case.expect == "refused" else _warnings(output)
    if case.expect == "fine":
        return f"refused: {_message(output)[:300]}"
    if code == 1:  # training began, and says how it ended; its run folder is what there is to look at
        return _refusal(code, output, alone=False)
    return _refusal(code, output) or (f"leaves {', '.join(left[:3])}" if left else "")


def _refusal(code: int, output: str, alone: bool = True) -> str:
    errors = [line for line in output.split("\n") if line.startswith("ckcnn: error: ")]
    if len(errors) != 1:
        return f"exit code {code} with {len(errors)} messages: {output[-300:]}"
    message = errors[0]
    if alone and output.rstrip("\n").rpartition("\n")[2] != message:
        return f"more than one line for a message: {output[-400:]}"
    if len(message) > _LONGEST:
        return f"a message of {len(message)} characters: {message[:300]}"
    if len(message.removeprefix("ckcnn: error: ").strip()) < 15:
        return f"says nothing: {message}"
    raw = next((pattern for pattern in _RAW if re.search(pattern, message)), None)
    if raw:
        return f"raw text {raw!r}: {message[:400]}"
    return _warnings(output)


def _warnings(output: str) -> str:
    found = re.search(r"^.*\bWarning: .*$", output, re.MULTILINE)
    return f"warns: {found[0][:300]}" if found else ""


def _message(output: str) -> str:
    found = re.search(r"^ckcnn: error: (.*)$", output, re.MULTILINE)
    return found[1] if found else ""


def _payload(folder: Path) -> str:
    return "executed a payload" if any(path.name == PAYLOAD for path in folder.rglob("*")) else ""


def _files(folder: Path) -> set[str]:
    """All files and folders, but for a whole cache of prepared data, which is used again."""
    whole = {path.parent for path in folder.rglob("*.h5") if path.parent.name == "cache"}
    found = [path for path in folder.rglob("*") if path not in whole and path.parent not in whole]
    return {path.relative_to(folder).as_posix() for path in found}


def _reset_peak() -> int:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak restarts
    return _status("VmRSS")


def _memory(before: int) -> str:
    grown = _status("VmHWM") - before
    return f"took {grown >> 20} MB" if grown > _MOST_MEMORY else ""


def _status(name: str) -> int:
    try:
        found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) << 10 if found else 0


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def _into(log: IO[bytes]) -> Iterator[None]:
    """Everything that is printed goes to a file, also what libraries in C print."""
    kept = os.dup(1), os.dup(2)
    try:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        yield
    finally:
        for number, copy in enumerate(kept, 1):
            os.dup2(copy, number)
            os.close(copy)
