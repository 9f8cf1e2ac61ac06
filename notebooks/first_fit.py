"""The smallest honest training: scikit-learn's 8x8 digits, read pixel by pixel as sequences of 64 steps.

Real data inside a dependency, nothing to download: ``make fit``, or ``python notebooks/first_fit.py``.
"""

from __future__ import annotations

import time
from functools import partial

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

from ckcnn.nn import CKConv, CKNet, Siren, keep_memory

EPOCHS, BATCH = 20, 64


def load() -> list[torch.Tensor]:
    """Standardised pixels ``(N, 1, 64)`` and labels, training and test: x, x, y, y."""
    images, labels = load_digits(return_X_y=True)
    x = torch.tensor(images, dtype=torch.float32)[:, None]
    y = torch.tensor(labels)
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.2, stratify=y, random_state=0)
    return [(part - x_train.mean()) / x_train.std() for part in (x_train, x_test)] + [y_train, y_test]


def main(epochs: int = EPOCHS) -> float:
    """Trains, reports each epoch, and returns the accuracy on the test digits."""
    torch.manual_seed(0)
    keep_memory()
    x_train, x_test, y_train, y_test = load()
    conv = partial(CKConv, horizon=64, kernel=partial(Siren, omega_0=50.0))
    net = CKNet(in_channels=1, hidden_channels=30, out_channels=10, conv=conv, dropout=0.1, input_dropout=0.1)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    steps = epochs * -(-len(x_train) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=steps)
    size = sum(parameter.numel() for parameter in net.parameters())
    print(f"{len(x_train)} digits to learn from, {len(x_test)} to test on; a network of {size:,} parameters")
    start = time.perf_counter()
    for epoch in range(1, epochs + 1):
        net.train()
        total = 0.0
        for rows in torch.randperm(len(x_train)).split(BATCH):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x_train[rows]), y_train[rows])
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(rows)
        print(f"epoch {epoch:2}  loss {total / len(x_train):.4f}  {time.perf_counter() - start:5.1f} s", flush=True)
    net.eval()
    with torch.no_grad():
        accuracy = (net(x_test).argmax(1) == y_test).float().mean().item()
    print(f"test accuracy {100 * accuracy:.2f} %")
    return accuracy


if __name__ == "__main__":
    main()
