"""`ckcnn generate`: what a trained language model writes after a prompt."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ckcnn.cli.arguments import Parser
from ckcnn.cli.quiet import make_quiet
from ckcnn.inference.generate import EXAMPLE, TextGenerator


def main(argv: Sequence[str]) -> int:
    """Write the prompt and what follows it, as it arises."""
    options = _parser().parse_args(list(argv))
    make_quiet()
    generator = TextGenerator.of(options.ckpt_path)
    characters = generator.generate(
        options.prompt, options.length, options.temperature, options.top_k, options.seed
    )  # checks all of them first
    start = time.perf_counter()
    sys.stdout.write(options.prompt)
    for character in characters:
        sys.stdout.write(character)
        sys.stdout.flush()
    sys.stdout.write("\n")
    print(f"{options.length / (time.perf_counter() - start):,.0f} characters per second", file=sys.stderr)
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="ckcnn generate",
        description="Continue a text with a trained language model.",
        epilog=f"example: {EXAMPLE} --temperature 0.8 --top_k 20",
    )
    parser.add_argument(
        "--ckpt_path", type=Path, required=True, metavar="RUN", help="a run folder, a checkpoint, or an exported folder"
    )
    parser.add_argument("--prompt", required=True, metavar="TEXT", help="the text to continue")
    parser.add_argument("--length", type=int, default=500, help="characters to write (default: 500)")
    parser.add_argument(
        "--temperature",
        type=float,
        default=0.8,
        help="below 1 prefers likely characters, 0 always takes the likeliest (default: 0.8)",
    )
    parser.add_argument("--top_k", type=int, metavar="K", help="draw from the K likeliest characters (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (default: 0)")
    return parser
