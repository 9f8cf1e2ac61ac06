"""The options of ``ckcnn search``; all others are those of ``ckcnn fit``."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Sequence
from typing import get_args

from ckcnn.checks.hints import nearest
from ckcnn.checks.memory import check_room
from ckcnn.cli.arguments import Parser, seconds
from ckcnn.cli.messages import TOP
from ckcnn.search.strategies import Pruner, Strategy

_TRIAL = 300e6  # bytes of a process that trains, at least
_OF_FIT = (*TOP, "early_stopping", "paper", "variants")


def parse(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Split arguments into options of the search and options for every trial.

    Raises:
        ValueError: for a value that is none.
    """
    parser = _parser()
    options, others = parser.parse_known_args(list(argv))
    if found := [word for word in others if word.split("=")[0] == "--ckpt_path"]:
        raise ValueError(f"{found[0]} is not for a search: trials start from scratch; repeat its command to resume it")
    if unknown := [word for word in others if re.match(r"--\w+(=|$)", word) and word[2:].split("=")[0] not in _OF_FIT]:
        own = re.findall(r"--\w+", parser.format_usage())  # argparse has no other public list of its options
        known = ["--help", *own, *(f"--{name}" for name in _OF_FIT)]
        raise ValueError(f"there is no option {unknown[0]}; {nearest(unknown[0], known)}")
    if options.low > options.high:
        raise ValueError(f"--low must not be above --high, got {options.low:g} and {options.high:g}")
    check_room(f"{options.workers} trials side by side", _TRIAL * options.workers, "give fewer --workers")
    return options, others


def _parser() -> Parser:
    parser = Parser(
        prog="ckcnn search",
        description="Find the omega_0, and other settings, with the best validation metric. Every option of ckcnn "
        "fit (--config, --trainer.max_epochs, --data.drop_rate ...) holds for every trial; the test set stays unseen. "
        "The same command resumes a search; on several machines with one --storage, they share the work.",
        epilog="example: ckcnn search --config pmnist.yaml --trials 100 --workers 4 --budget 12h",
    )
    search = parser.add_argument_group("what to search")
    search.add_argument("--low", type=float, default=1.0, help="smallest omega_0 (default: 1)")
    search.add_argument("--high", type=float, default=100.0, help="largest omega_0 (default: 100)")
    search.add_argument(
        "--space",
        action="append",
        default=[],
        metavar="KEY=VALUES",
        help="another setting to search: model.dropout=0.0:0.3, model.learning_rate=1e-4:1e-2:log or "
        "model.hidden_channels=20,30,40; as often as you like",
    )
    how = parser.add_argument_group("how")
    how.add_argument("--trials", type=_positive, default=50, help="how many, of all workers together (default: 50)")
    how.add_argument(
        "--strategy", choices=get_args(Strategy), default="tpe", help="how values are chosen (default: tpe)"
    )
    how.add_argument("--pruner", choices=get_args(Pruner), default="median", help="stops bad trials (default: median)")
    how.add_argument(
        "--budget", type=seconds, default=math.inf, metavar="TIME", help="end after this time: 90s, 30m, 2h, 1h30m, 1d"
    )
    how.add_argument("--workers", type=_positive, default=1, help="trials side by side on this machine (default: 1)")
    where = parser.add_argument_group("where")
    where.add_argument("--name", help="of the study and its folder in --runs (default: PRESET_search)")
    where.add_argument("--runs", default="runs", help="folder of all runs (default: runs)")
    where.add_argument(
        "--storage",
        help="sqlite:///FILE, postgresql://USER@HOST/DATABASE, or the path of a journal file "
        "(default: search.db in the folder of the study)",
    )
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1, got {text!r}")
    return int(text)
