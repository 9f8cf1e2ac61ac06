"""Train and test the missing runs, several side by side, until done or stopped."""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock, Timeout

from ckcnn.cli.processes import CommandProcess, alone
from ckcnn.formatting import count, duration, readable
from ckcnn.reproduce.description import Cell
from ckcnn.reproduce.jobs import Job, missing_tests, result_of
from ckcnn.results import Run
from ckcnn.runs.stopping import Stop

_POLL = 0.2  # seconds


@dataclass
class Runner:
    """Trains jobs and tests their cells.

    Attributes:
        cells: all cells of the tables.
        stop: asked all the time.
        others: options of ``ckcnn fit`` and ``test`` for every run, such as where the data is.
        shares: environment variables for each of the runs that go side by side.
        threads: for each of them; None for what torch takes.
        tell: called with a line about what happens.
    """

    cells: Sequence[Cell]
    stop: Stop
    others: Sequence[str] = ()
    shares: Sequence[Mapping[str, str]] = ({},)
    threads: int | None = None
    tell: Callable[[str], None] = print
    failures: dict[str, str] = field(default_factory=dict)

    def run(self, jobs: Sequence[Job]) -> None:
        """Run until everything is done or it is time to stop; record failures of single jobs."""
        waiting: queue.SimpleQueue[tuple[int, Job]] = queue.SimpleQueue()
        for number, job in enumerate(jobs, 1):
            waiting.put((number, job))

        def work(share: Mapping[str, str]) -> None:
            while not self.stop.now():
                try:
                    number, job = waiting.get_nowait()
                except queue.Empty:
                    return
                self._do(job, f"{number}/{len(jobs)} {job.name}", share)

        with ThreadPoolExecutor(len(self.shares)) as pool:
            for worker in [pool.submit(work, share) for share in self.shares]:
                worker.result()

    def _do(self, job: Job, title: str, share: Mapping[str, str]) -> None:
        folder = job.runs / job.name
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".lock", timeout=0)
        try:
            with lock:
                self._train(job, title, share)
                self._test(job, title, share)
        except Timeout:
            self.tell(f"{title}: another process is working on it")
        except ValueError as error:  # a broken file in the run folder
            self._fail(job, title, str(error))

    def _train(self, job: Job, title: str, share: Mapping[str, str]) -> None:
        run = job.run()
        if run is not None and job.is_finished(run):
            return
        begun = f"resumes after epoch {len(run.epochs)}" if run is not None and run.epochs else "begins"
        self.tell(f"{title}: {begun}, {count(job.epochs, 'epoch')} at most")
        reason = self._command([*job.fit(), "--trainer.enable_progress_bar=false"], job, share)
        run = job.run()
        if reason:
            self._fail(job, title, reason)
        elif run is not None:
            cut = "" if job.is_finished(run) else " so far, interrupted"
            self.tell(f"{title}: {count(len(run.epochs), 'epoch')} in {duration(run.seconds)}{cut}")

    def _test(self, job: Job, title: str, share: Mapping[str, str]) -> None:
        run = job.run()
        if run is None or run.folder.best() is None or job.name in self.failures:
            return
        cells = [cell for cell in self.cells if cell.training == job.training]
        wanted = missing_tests(run, cells)
        for words in wanted:
            if reason := self._command(words, job, share, to_the_end=True):
                self._fail(job, title, reason)
                return
        if wanted and (run := job.run()):
            self.tell(f"{title}: {outcome(run, cells)}")

    def _command(self, words: Sequence[str], job: Job, share: Mapping[str, str], to_the_end: bool = False) -> str:
        """Run a ``ckcnn`` command; return why it failed, or None if it succeeded or can be resumed."""
        log: Path = job.runs / job.name / "log.txt"
        process = CommandProcess.start([*words, *self.others], log, {**alone(os.environ), **share}, self.threads)
        try:
            while not process.wait(_POLL):
                if self.stop.now() and not to_the_end:
                    process.stop()
        finally:
            if not process.wait(0):
                process.stop()
        return "" if process.was_terminated() else process.failure()

    def _fail(self, job: Job, title: str, reason: str) -> None:
        self.failures[job.name] = reason
        self.tell(f"{title}: failed: {reason}")


def outcome(run: Run, cells: Sequence[Cell]) -> str:
    """Return a run's result at its training rate, or at the first other rate, beside the paper's."""
    cell = next((cell for cell in cells if cell.step == cell.training_step), cells[0])
    test = result_of(run, cell)
    ours = None if test is None else test["metrics"].get(f"test/{cell.metric}")
    paper = "" if cell.paper is None else f", the paper has {readable(cell.metric, cell.paper)}"
    return f"{cell.metric} {readable(cell.metric, ours)}{paper}"
