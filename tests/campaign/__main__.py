"""``python -m tests.campaign``: the whole campaign, and the table of what was tried and what failed."""

from __future__ import annotations

import argparse
import sys

from tests.campaign import inputs, kills
from tests.campaign.case import Case
from tests.campaign.judge import Verdict


def main() -> int:
    """Print the table; the exit code is 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description="Tries bad input of all kinds.")
    parser.add_argument("--seed", type=int, default=0, help="of the cases (default: 0)")
    parser.add_argument("--count", type=int, default=2_000, help="inputs to try (default: 2000)")
    parser.add_argument("--kills", type=int, default=100, help="stops of running trainings (default: 100)")
    parser.add_argument("--kind", help="try this kind alone; kills for the stops of trainings")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--messages", action="store_true", help="print how every case ended")
    options = parser.parse_args()

    def told(case: Case, verdict: Verdict) -> None:
        if verdict.problem:
            print(f"{case.kind} {case.recipe}\n    {verdict.problem}", file=sys.stderr, flush=True)
        elif options.messages and verdict.said:
            print(f"{case.kind} {str(case.recipe)[:150]}\n    said: {verdict.said}", flush=True)

    def told_of_kill(what: str, problem: str) -> None:
        if problem:
            print(f"{what}\n    {problem}", file=sys.stderr, flush=True)
        elif options.messages:
            print(f"{what}\n    as if it had never been stopped", flush=True)

    rows = (
        [] if options.kind == "kills" else inputs.run(options.seed, options.count, options.workers, options.kind, told)
    )
    if options.kind in (None, "kills"):
        rows += kills.run(options.seed, options.kills, options.workers, told_of_kill)
    print(f"{'kind':24} {'tried':>6} {'failed':>6}")
    for name, tried, failed, _ in rows:
        print(f"{name:24} {tried:6} {failed:6}")
    print(f"{'all':24} {sum(row[1] for row in rows):6} {sum(row[2] for row in rows):6}")
    return int(any(failed for _, _, failed, _ in rows))


if __name__ == "__main__":
    sys.exit(main())
