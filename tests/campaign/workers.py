"""Processes that judge cases: one that hangs, runs out of memory or dies is a failure of its case alone."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from tests.campaign.case import Case
from tests.campaign.judge import Verdict, judge

_PATIENCE = 60.0  # seconds for one case, on a busy machine
_ADDRESSES = 24 << 30  # bytes that a process may map, so that a hungry case does not take the machine with it
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    ["ckcnn.cli.commands", "ckcnn.report.command", "ckcnn.search.command", "sktime.datasets"]
)


def judge_all(
    cases: list[Case], material: Path, workers: int, told: Callable[[Case, Verdict], None] = lambda case, verdict: None
) -> list[Verdict]:
    """Return the verdict of each case."""
    verdicts: dict[int, Verdict] = {}
    waiting = iter(enumerate(cases))
    lock = threading.Lock()

    def work() -> None:
        worker = _Worker(material)
        while True:
            with lock:
                number, case = next(waiting, (-1, None))
            if case is None:
                worker.end()
                return
            verdict = worker.judge(case)
            with lock:
                verdicts[number] = verdict
                told(case, verdict)

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [verdicts[number] for number in range(len(cases))]


class _Worker:
    """A process that judges one case after the other, and is replaced when it dies."""

    def __init__(self, material: Path) -> None:
        self.material = material
        self.start()

    def start(self) -> None:
        self.ours, theirs = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=_serve, args=(theirs, self.material))
        self.process.start()
        theirs.close()
        self.ours.recv()  # it has imported everything, which is no part of a case

    def judge(self, case: Case) -> Verdict:
        try:
            self.ours.send(case)
            if self.ours.poll(_PATIENCE):
                return self.ours.recv()
            problem = f"hangs for {_PATIENCE:.0f} s"
            self.process.kill()
        except (EOFError, OSError):
            self.process.join()
            problem = f"the process died (exit code {self.process.exitcode})"
        self.process.join()
        self.start()
        return Verdict(problem)

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self.ours.send(None)
        self.process.join()


def _serve(theirs: Connection, material: Path) -> None:
    from tests.campaign.inputs import KINDS

    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, _ADDRESSES))
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    torch.set_num_threads(1)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through=True)  # type: ignore[union-attr]
    theirs.send("ready")
    with tempfile.TemporaryDirectory(prefix="campaign-") as place:
        number = 0
        while (case := _next(theirs)) is not None:
            folder = Path(place) / f"case_{number}" / "here"
            folder.mkdir(parents=True)
            theirs.send(judge(case, KINDS[case.kind], folder, material))
            shutil.rmtree(folder.parent, ignore_errors=True)
            number += 1


def _next(theirs: Connection) -> Case | None:
    try:
        return theirs.recv()
    except EOFError:  # whoever wanted to know is gone
        return None
