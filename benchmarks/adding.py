"""Where a run of the adding problem goes wrong: ``python -m benchmarks.adding RUN_FOLDER``.

Prints how much of the mean squared error comes from sequences whose second number is near their end.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ckcnn import results
from ckcnn.datamodules import AddingProblem, SequenceBatch

NEAR = 6  # steps


def errors(net: nn.Module, batches: Iterable[SequenceBatch]) -> tuple[Tensor, Tensor]:
    """The square error of every sequence, and how many steps before its last one the second number is."""
    squares, lags = [], []
    with torch.no_grad():
        for batch in batches:
            squares.append((net(batch.x) - batch.y.view(-1, 1)).square().flatten())
            lags.append(batch.x[:, 1].flip(1).argmax(1))
    return torch.cat(squares), torch.cat(lags)


def describe(squares: Tensor, lags: Tensor) -> str:
    """The error, and what the sequences with a late number have to do with it."""
    near = lags < NEAR
    late = f"{int(near.sum())} of {len(near)} with a number in the last {NEAR} steps"
    share = squares[near].sum() / squares.sum()
    return f"{squares.mean():.2e}; {late}: {share:.0%} of the error, all others: {squares[~near].mean():.2e}"


def main() -> None:
    """Print a line for each split."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="of one run of adding.yaml")
    (run,) = results.load(parser.parse_args().folder).runs
    data = AddingProblem(**{**run.config["data"]["init_args"], "batch_size": 100})
    data.prepare_data()
    data.setup()
    net = run.network().eval()
    for name, loader in (("validation", data.val_dataloader()), ("test", data.test_dataloader())):
        print(f"{name}: {describe(*errors(net, loader))}")


if __name__ == "__main__":
    main()
