"""Losses and metrics of every task, against sums written out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from sklearn.metrics import f1_score, roc_auc_score
from torchmetrics.classification import MulticlassAccuracy

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


def test_the_counts_of_accuracy_are_those_of_torchmetrics() -> None:
    """A run that was interrupted may hold counts of either."""
    theirs = MulticlassAccuracy(4, average="micro", ignore_index=IGNORED)
    ours = TASKS["every_step"].metrics(4)["accuracy"]
    for _ in range(2):
        scores, target = torch.randn(3, 4, 7), torch.randint(4, (3, 7))
        target[0, 2:] = IGNORED
        theirs.update(scores, target)
        ours.update(scores, target)
    assert ours.metric_state == theirs.metric_state


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


def test_labels_that_a_sequence_has_or_has_not() -> None:
    scores, target = torch.randn(50, 3), torch.randint(2, (50, 3))
    target[:, 1] = 0  # a label that no sequence has
    chance = scores.sigmoid()
    expected = -torch.where(target == 1, chance.log(), (1 - chance).log()).mean()
    task = TASKS["multi_label"]
    assert torch.allclose(task.loss(scores, target), expected)
    metrics = task.collection(3, "val")
    for part in (slice(0, 20), slice(20, 50)):
        metrics.update(scores[part], target[part])
    values = metrics.compute()
    each = [roc_auc_score(target[:, label], scores[:, label]) for label in (0, 2)]
    assert values["val/auroc"].item() == pytest.approx(sum(each) / 2, abs=1e-6)
    f1 = f1_score(target, scores > 0, average="macro", zero_division=0)
    assert values["val/f1"].item() == pytest.approx(f1, abs=1e-6)
    assert values["val/accuracy"].item() == pytest.approx(((scores > 0) == (target == 1)).float().mean().item())


def test_steps_without_a_value_do_not_count() -> None:
    values, target = torch.randn(3, 2, 7, requires_grad=True), torch.randn(3, 2, 7)
    target[0, :, 4:] = math.nan
    errors = [(values[b, o, t] - target[b, o, t]) for b in range(3) for o in range(2) for t in range(7) if b or t < 4]
    task = TASKS["step_regression"]
    loss = task.loss(values, target)
    assert torch.allclose(loss, torch.stack(errors).square().mean())
    loss.backward()
    assert values.grad is not None
    assert not values.grad[0, :, 4:].any()
    assert values.grad[1].all()
    metrics = task.collection(2, "val")
    metrics.update(values.detach()[:1], target[:1])
    metrics.update(values.detach()[1:], target[1:])
    found = metrics.compute()
    assert torch.allclose(found["val/mse"], torch.stack(errors).square().mean())
    assert torch.allclose(found["val/mae"], torch.stack(errors).abs().mean())
    assert int(task.counted(target).sum()) == len(errors)


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
