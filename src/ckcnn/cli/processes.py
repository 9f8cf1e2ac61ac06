"""A command in its own process, such as ``ckcnn fit``, with its output in a file.

The processes are forked from a server that has imported everything once and done nothing else. So a command starts at
once, gives back all its memory, and may end in any way without harm to who started it.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from multiprocessing import connection, forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["ckcnn.cli.commands"])
_SAFE_PATH = "PYTHONSAFEPATH"  # Python's own
_GIVE_UP = 60.0  # seconds to save after SIGTERM


@cache
def warm_up() -> None:
    """Start the server, once, which imports while this process does something else.

    It does not look for modules in the working folder, where a clone would be a folder ``ckcnn`` that is no package.
    """
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before


def shares(workers: int, gpus: int, visible: str | None) -> list[dict[str, str]]:
    """The environment of each of the processes that run side by side: its own GPUs, as far as there are enough."""
    if workers == 1 or gpus == 0:
        return [{} for _ in range(workers)]
    names = visible.split(",") if visible else [str(index) for index in range(gpus)]
    mine = [names[index::workers] or [names[index % len(names)]] for index in range(workers)]
    return [{"CUDA_VISIBLE_DEVICES": ",".join(own)} for own in mine]


def alone(environment: Mapping[str, str]) -> dict[str, str]:
    """Without what makes a process part of the SLURM job of its parent: it must not requeue it, nor join others."""
    return {name: value for name, value in environment.items() if not name.startswith("SLURM_")}


def threads(workers: int) -> int | None:
    """Threads of each process; more of them than cores would be many times slower."""
    if workers == 1:
        return None
    return int(os.environ.get("OMP_NUM_THREADS") or max(1, (os.cpu_count() or 1) // workers))


@dataclass(frozen=True)
class CommandProcess:
    """A running command."""

    process: ForkServerProcess
    log: Path

    @classmethod
    def start(
        cls, arguments: list[str], log: Path, environment: Mapping[str, str], threads: int | None
    ) -> CommandProcess:
        """Start it.

        Args:
            arguments: of ``ckcnn``: a command and its options.
            log: the file for its output.
            environment: its environment variables.
            threads: how many it may use; None for what torch takes.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        warm_up()
        process = _CONTEXT.Process(target=_run, args=(arguments, log, dict(environment), threads))
        process.start()
        return cls(process, log)

    def wait(self, seconds: float) -> bool:
        """Whether it has ended, after this time at most."""
        return bool(connection.wait([self.process.sentinel], seconds))

    def stop(self) -> None:
        """Ask it to save and end, as SIGTERM does, and see to it."""
        self.process.terminate()
        if not self.wait(_GIVE_UP):
            self.process.kill()
        self.process.join()

    def was_terminated(self) -> bool:
        """Whether SIGTERM ended it; what it had done is saved if it had begun to train."""
        self.process.join()
        return self.process.exitcode in (-signal.SIGTERM, 128 + signal.SIGTERM)

    def was_killed(self) -> bool:
        """Whether a signal ended it that it could do nothing about, such as SIGKILL, or a crash."""
        self.process.join()
        return (self.process.exitcode or 0) < 0 and not self.was_terminated()

    def failure(self) -> str:
        """Why it ended, in one line; empty if it ended well."""
        self.process.join()
        code = self.process.exitcode or 0
        if code == 0:
            return ""
        if code == -signal.SIGKILL:
            return "killed by signal 9, by somebody or because the memory ran out"
        if code < 0:
            return f"ended by signal {-code}"
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1].removeprefix("ckcnn: error: ") if lines else f"ended with exit code {code}"


def _run(arguments: list[str], log: Path, environment: dict[str, str], threads: int | None) -> None:
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ.clear()
    os.environ.update(environment)
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    # Lightning starts the other processes of a run on several devices with these.
    sys.argv = ["ckcnn", *arguments]
    sys.modules["__main__"].__spec__ = importlib.util.find_spec("ckcnn.__main__")
    from ckcnn.__main__ import main

    sys.exit(main(sys.argv[1:]))


def _end_with_the_parent() -> None:
    """Without it nobody waits for this process, and another may already have resumed its work."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
