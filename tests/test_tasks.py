"""Losses and metrics of every task, against sums written out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from sklearn.metrics import roc_auc_score

from ckcnn.tasks import IGNORED, TASKS
from ckcnn.tasks.metrics import WeightedMean


def test_classification() -> None:
    scores, target = torch.randn(20, 5), torch.randint(5, (20,))
    expected = -torch.stack([scores[i].log_softmax(0)[target[i]] for i in range(20)]).mean()
    assert torch.allclose(TASKS["classification"].loss(scores, target), expected)
    metrics = TASKS["classification"].collection(5, "val")
    for part in (slice(0, 13), slice(13, 20)):  # batches of different sizes
        metrics.update(scores[part], target[part])
    right = sum(int(scores[i].argmax() == target[i]) for i in range(20))
    assert metrics.compute()["val/accuracy"].item() == pytest.approx(right / 20)


def test_every_step_leaves_out_what_does_not_count() -> None:
    scores, target = torch.randn(3, 4, 7), torch.randint(4, (3, 7))
    target[0, 2:] = IGNORED
    counted = [(b, t) for b in range(3) for t in range(7) if target[b, t] != IGNORED]
    expected = -torch.stack([scores[b, :, t].log_softmax(0)[target[b, t]] for b, t in counted]).mean()
    assert torch.allclose(TASKS["every_step"].loss(scores, target), expected)
    metrics = TASKS["every_step"].collection(4, "test")
    metrics.update(scores, target)
    right = sum(int(scores[b, :, t].argmax() == target[b, t]) for b, t in counted)
    assert metrics.compute()["test/accuracy"].item() == pytest.approx(right / len(counted))


def test_early_stopping_watches_what_chooses_the_best_epoch_or_the_loss() -> None:
    watched = {name: task.stopping for name, task in TASKS.items()}
    assert watched.pop("every_step") == ("loss", "min")
    assert watched == {name: (TASKS[name].monitor, TASKS[name].mode) for name in watched}


def test_only_classes_of_whole_sequences_are_confused() -> None:
    assert {name for name, task in TASKS.items() if task.confusion} == {"classification", "binary"}
    assert TASKS["binary"].confusion is not None
    confusion = TASKS["binary"].confusion(1)
    confusion.update(torch.tensor([[-2.0], [3.0], [1.0]]), torch.tensor([0, 1, 0]))
    assert confusion.compute().tolist() == [[1, 1], [0, 1]], "rows are classes, columns answers"


def test_binary() -> None:
    scores, target = torch.randn(50, 1), torch.randint(2, (50,))
    chance = scores[:, 0].sigmoid()
    expected = -torch.where(target == 1, chance.log(), (1 - chance).log()).mean()
    assert torch.allclose(TASKS["binary"].loss(scores, target), expected)
    metrics = TASKS["binary"].collection(1, "val")
    metrics.update(scores, target)
    values = metrics.compute()
    assert values["val/auroc"].item() == pytest.approx(roc_auc_score(target, scores[:, 0]), abs=1e-6)
    assert values["val/accuracy"].item() == pytest.approx(((scores[:, 0] > 0) == (target == 1)).float().mean().item())


def test_regression() -> None:
    values, target = torch.randn(9, 2), torch.randn(9, 2)
    expected = ((values - target) ** 2).mean()
    assert torch.allclose(TASKS["regression"].loss(values, target), expected)
    metrics = TASKS["regression"].collection(2, "val")
    metrics.update(values, target)
    assert torch.allclose(metrics.compute()["val/mse"], expected)


def test_language_counts_bits_of_all_characters_alike() -> None:
    metrics = TASKS["language"].collection(6, "val")
    total, count = 0.0, 0
    for steps in (10, 3):  # the last window is shorter
        scores, target = torch.randn(2, 6, steps), torch.randint(6, (2, steps))
        target[:, :1] = IGNORED
        metrics.update(scores, target)
        for b in range(2):
            for t in range(1, steps):
                total -= scores[b, :, t].log_softmax(0)[target[b, t]].item() / math.log(2)
                count += 1
    assert metrics.compute()["val/bpc"].item() == pytest.approx(total / count, rel=1e-5)


def test_answers_are_what_a_person_would_read() -> None:
    assert TASKS["classification"].answer(torch.tensor([[0.1, 2.0], [3.0, -1.0]])).tolist() == [1, 0]
    assert TASKS["binary"].answer(torch.tensor([[0.0]])).tolist() == [0.5]
    assert TASKS["every_step"].answer(torch.zeros(2, 3, 4)).shape == (2, 4)


def test_the_mean_loss_weighs_batches_and_shows_what_is_no_number() -> None:
    mean = WeightedMean()
    mean.update(torch.tensor(1.0), torch.tensor(3))
    mean.update(torch.tensor(5.0), torch.tensor(1))
    assert mean.compute().item() == 2.0
    mean.update(torch.tensor(float("nan")), torch.tensor(1))
    assert mean.compute().isnan()
