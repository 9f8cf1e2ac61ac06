"""Processes of one training as torchrun starts them, but forked from one that has imported everything."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import torch
from lightning_utilities.core.rank_zero import rank_zero_only
from torch.distributed import TCPStore

from ckcnn.__main__ import main
from ckcnn.cli import processes

_CONTEXT = get_context("forkserver")
_THREADS_LEFT = 99  # the exit code of a process that keeps threads of its process group


class Ranks:
    """Processes that run the same function with the environment variables of torchrun.

    Args:
        number: of processes.
        folder: where they work; what each of them prints goes to ``rank_0.txt``, ``rank_1.txt`` and so on.
        function: of this module or of one that can be imported; its value is the exit code.
        arguments: of the function.
        data: the folder of prepared data.
    """

    def __init__(
        self,
        number: int,
        folder: Path,
        function: Callable[[Sequence[str]], int],
        arguments: Sequence[str],
        data: Path | None = None,
    ) -> None:
        processes.warm_up()
        self.folder = folder
        self._store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # torchrun has it, too
        self.processes: list[ForkServerProcess] = []
        for rank in range(number):
            environment = {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "GROUP_RANK": "0",
                "WORLD_SIZE": str(number),
                "LOCAL_WORLD_SIZE": str(number),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(self._store.port),
                "TORCHELASTIC_RUN_ID": "test",
                "TORCHELASTIC_RESTART_COUNT": "0",
                "TORCHELASTIC_USE_AGENT_STORE": "True",
            }
            variables = {"CKCNN_DATA": str(data or folder / "data"), **(environment if number > 1 else {})}
            self.processes.append(_CONTEXT.Process(target=_run, args=(folder, function, list(arguments), variables)))
            self.processes[-1].start()

    def wait(self, seconds: float = 300.0) -> list[int | None]:
        """Return the exit codes; who has not ended by then is killed."""
        deadline = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))
        for process in self.processes:
            if process.exitcode is None:
                process.kill()
        return [process.exitcode for process in self.processes]

    def printed(self, rank: int = 0) -> str:
        return (self.folder / f"rank_{rank}.txt").read_text()


def command(arguments: Sequence[str]) -> int:
    """Run ``python -m ckcnn`` as in a terminal: modules of the working folder are found."""
    sys.path.insert(0, "")
    return main(arguments)


def _run(
    folder: Path, function: Callable[[Sequence[str]], int], arguments: list[str], variables: dict[str, str]
) -> None:
    os.chdir(folder)
    with open(f"rank_{variables.get('RANK', 0)}.txt", "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ.update(variables)
    rank_zero_only.rank = int(variables.get("RANK", 0))  # Lightning asks when it is imported
    torch.set_num_threads(1)
    try:
        code = function(arguments)
    except BaseException:
        traceback.print_exc()
        code = 1
    if left := [name for name in _threads() if "gloo" in name or "tcpstore" in name]:
        print(f"threads that may abort Python while it exits: {left}")
        code = code or _THREADS_LEFT
    sys.exit(code)


def _threads() -> list[str]:
    """The names of the threads of this process, as Linux knows them."""
    return [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
