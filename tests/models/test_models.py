"""The LightningModules: every task trains, the sampling step reaches every layer, baselines are of the same size."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning import Trainer
from torch.utils.data import DataLoader
from torchmetrics import MeanMetric
from torchmetrics.classification import MulticlassCohenKappa, MulticlassF1Score, MulticlassHammingDistance

import ckcnn
from ckcnn import CKCNN, GRU, LSTM, TCN
from ckcnn.datamodules import SequenceBatch
from ckcnn.models.baselines import count_parameters
from ckcnn.models.finite_loss import DivergenceError
from ckcnn.models.optimization import check_steps
from ckcnn.models.own_metrics import computed
from ckcnn.models.sequence_module import SequenceModule
from ckcnn.nn import CKConv, MultiscaleSiren, kernel_penalty, network

MODELS: tuple[type[SequenceModule], ...] = (CKCNN, GRU, LSTM, TCN)
FACTS = {
    "classification": {"in_channels": 2, "out_channels": 3},
    "binary": {"in_channels": 2, "out_channels": 1},
    "regression": {"in_channels": 2, "out_channels": 2},
    "every_step": {"in_channels": 2, "out_channels": 3},
    "language": {"in_channels": 1, "out_channels": 5},
}


def make(kind: type[SequenceModule], task: str, **options: Any) -> SequenceModule:
    return kind(**{**FACTS[task], "task": task, "horizon": 12, "hidden_channels": 6, **options})


def batch_of(task: str, count: int = 8, steps: int = 12) -> SequenceBatch:
    outputs = FACTS[task]["out_channels"]
    x = torch.randn(count, 2, steps)
    if task == "language":
        return SequenceBatch(torch.randint(outputs, (count, steps)), torch.randint(outputs, (count, steps)))
    if task == "every_step":
        return SequenceBatch(x, torch.randint(outputs, (count, steps)))
    if task == "regression":
        return SequenceBatch(x, torch.randn(count, outputs))
    return SequenceBatch(x, torch.arange(count) % max(2, outputs))


@pytest.mark.parametrize("task", FACTS)
@pytest.mark.parametrize("kind", MODELS)
def test_learns_one_batch(kind: type[SequenceModule], task: str) -> None:
    model, batch = make(kind, task), batch_of(task)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = model.task.loss(model.answers(batch, "train"), batch.y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("kind", MODELS[1:])
@pytest.mark.parametrize(("facts", "hidden"), [((1, 10, "classification", 784), 30), ((1, 10, "every_step", 120), 10)])
def test_baselines_are_as_large_as_the_ckcnn(kind: Any, facts: tuple[Any, ...], hidden: int) -> None:
    size = count_parameters(CKCNN(*facts, hidden_channels=hidden))
    assert count_parameters(kind(*facts, hidden_channels=hidden)) == pytest.approx(size, rel=0.06)
    assert count_parameters(kind(*facts, size=30_000)) == pytest.approx(30_000, rel=0.06)


def test_tcn_sees_the_whole_sequence() -> None:
    model = make(TCN, "regression", size=5000)
    x = torch.randn(1, 2, 12, requires_grad=True)
    model(x).sum().backward()
    assert x.grad is not None
    assert x.grad[0].abs().sum(0).min() > 0


def test_forward_is_that_of_the_network() -> None:
    model, batch = make(CKCNN, "classification", norm="step"), batch_of("classification")
    options = {"times": torch.arange(12.0).repeat(8, 1) * 1.5, "lengths": torch.full((8,), 7)}
    assert torch.equal(model(batch.x, **options), model.net(batch.x, **options))
    with pytest.raises(ValueError, match=r"forward takes tensors, got a SequenceBatch; call model\.answers\(batch\)"):
        model(batch)


class Bare:
    """The least that a data module has to say."""

    in_channels, out_channels, task, horizon = 2, 3, "classification", 12


def test_facts_come_from_a_data_module() -> None:
    model = CKCNN.for_data(Bare(), hidden_channels=4, horizon=6)
    facts = {"in_channels": 2, "out_channels": 3, "task": "classification", "horizon": 6}
    assert facts.items() <= model.hparams.items()
    assert model.dt == {"train": 1.0, "val": 1.0, "test": 1.0}
    with pytest.raises(ValueError, match=r"got a object without in_channels, out_channels, task, horizon"):
        CKCNN.for_data(object())  # type: ignore[arg-type]


def test_metrics_of_your_own_say_which_direction_is_better() -> None:
    metrics = {"hamming": MulticlassHammingDistance(3), "kappa": MulticlassCohenKappa(3)}
    model = make(CKCNN, "classification", metrics=metrics, monitor="hamming")
    assert (model.monitor, model.mode, model.stopping) == ("val/hamming", "min", ("val/hamming", "min"))
    assert "metrics" not in model.hparams
    with pytest.raises(ValueError, match=r"monitor must be one of accuracy, loss, got 'f1'"):
        make(CKCNN, "classification", monitor="f1")
    with pytest.raises(ValueError, match="does not say whether a good value is large or small; set mode to max or min"):
        make(CKCNN, "classification", metrics={"mean": MeanMetric()}, monitor="mean")


@pytest.mark.parametrize(("task", "loss"), [("binary", "BCEWithLogitsLoss"), ("classification", "CrossEntropyLoss")])
def test_a_loss_of_your_own(task: str, loss: str) -> None:
    """Those of torch give what the task does."""
    model, batch = make(CKCNN, task, loss=getattr(torch.nn, loss)()), batch_of(task)
    expected = model.task.loss(model.answers(batch), batch.y)
    assert torch.allclose(model._step(batch, "val"), expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": torch.nn.GELU()}, r"the loss GELU must be computed from answers of shape \(\d+, \d+\) and targets"),
        ({"loss": torch.nn.CrossEntropyLoss(reduction="none")}, "the loss CrossEntropyLoss must be one number, got sh"),
        ({"metrics": {"mean": MeanMetric()}}, r"the metric val/mean must be computed from answers of shape"),
    ],
)
def test_a_loss_or_a_metric_that_does_not_fit(options: dict[str, Any], message: str) -> None:
    model = make(CKCNN, "classification", **options)
    with pytest.raises(ValueError, match=message):
        model._step(batch_of("classification"), "val")


@pytest.mark.parametrize("name", ["", "a.b", "a/b"])
def test_names_of_metrics(name: str) -> None:
    with pytest.raises(ValueError, match="the name of a metric must be of letters, digits, - and _, got"):
        make(CKCNN, "classification", metrics={name: MeanMetric()})


def test_a_metric_that_is_no_single_number() -> None:
    model = make(CKCNN, "classification", metrics={"f1": MulticlassF1Score(3, average=None)})
    model._step(batch_of("classification"), "val")
    with pytest.raises(ValueError, match=r"the metric val/f1 must be one number, got \(3,\); set its average"):
        computed(model._own("val"))


def test_a_cycle_that_ends_before_the_run() -> None:
    optimizer = make(CKCNN, "classification").make_optimizer()
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=10)
    check_steps(cycle, 10)
    with pytest.raises(ValueError, match=r"OneCycleLR must last as long as the run, 11 steps, got 10; set its total_s"):
        check_steps(cycle, 11)


def test_a_language_model_must_not_see_what_it_predicts() -> None:
    with pytest.raises(ValueError, match="must not see it; leave causal true"):
        make(CKCNN, "language", causal=False)


def test_baselines_refuse_time_stamps() -> None:
    batch = SequenceBatch(torch.randn(2, 2, 12), torch.zeros(2), times=torch.arange(12.0).repeat(2, 1))
    with pytest.raises(ValueError, match=r"take no time stamps; use --data\.missing mask"):
        make(GRU, "classification").answers(batch)


def test_the_step_of_a_split_reaches_every_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    forward = CKConv.forward

    def spy(self: CKConv, x: torch.Tensor, dt: float = 1.0, times: torch.Tensor | None = None) -> torch.Tensor:
        seen.append(dt)
        return forward(self, x, dt, times)

    monkeypatch.setattr(CKConv, "forward", spy)
    model = make(CKCNN, "classification", dt={"train": 1.0, "val": 1.0, "test": 4.0})
    model.answers(batch_of("classification"), "train")
    model.answers(batch_of("classification", steps=3), "test")
    assert seen == [1.0] * 4 + [4.0] * 4


@pytest.mark.parametrize("kind", MODELS)
def test_lengths_are_checked_by_networks_on_a_cpu(kind: type[SequenceModule]) -> None:
    with pytest.raises(ValueError, match=r"lengths must lie in 1 ... 12, got 0 ... 12"):
        make(kind, "classification")(torch.randn(2, 2, 12), lengths=torch.tensor([0, 12]))


def test_lengths_are_checked_before_a_batch_leaves_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "check_lengths", lambda *_: None)  # which does nothing on an accelerator
    batch = batch_of("classification")._replace(lengths=torch.full((8,), 13))
    trainer = Trainer(
        accelerator="cpu", max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False,
    )  # fmt: skip
    model = make(CKCNN, "classification", norm="step")
    with warnings.catch_warnings(action="ignore"), pytest.raises(ValueError, match=r"lengths must lie in 1 ... 12"):
        trainer.fit(model, DataLoader([batch], batch_size=None))  # type: ignore[arg-type]


def test_last_valid_step_is_read_where_lengths_are_known() -> None:
    model, lengths = make(CKCNN, "classification", norm="step"), torch.tensor([5, 12])
    x = torch.randn(2, 2, 12)
    padded = x.clone()
    padded[0, :, 5:] = 9.0
    answers = [model(signal, lengths=lengths) for signal in (x, padded)]
    assert torch.allclose(*answers, atol=1e-5)


def test_penalty_is_the_norm_of_the_kernels() -> None:
    model = make(CKCNN, "classification", kernel_penalty=0.5)
    assert torch.allclose(torch.as_tensor(model.penalty()), 0.5 * kernel_penalty(model.net))
    assert make(CKCNN, "classification").penalty() == 0.0


@pytest.mark.parametrize("task", FACTS)
def test_labels_are_smoothed_where_they_are_classes(task: str) -> None:
    """A cross entropy of one value would be zero whatever the network answers."""
    model, batch = make(CKCNN, task, label_smoothing=0.1).eval(), batch_of(task)
    loss = model._step(batch, "train")
    plain = model.task.loss(model.answers(batch, "train"), batch.y)
    assert (loss == plain) == (task in ("binary", "regression"))


def test_omega_0_auto_follows_from_the_horizon() -> None:
    model = make(CKCNN, "classification", omega_0="auto")
    nets = [module for module in model.modules() if isinstance(module, MultiscaleSiren)]
    assert nets
    assert {net.horizon for net in nets} == {model.hparams["horizon"]}
    assert model(batch_of("classification").x).shape == (8, 3)


@pytest.mark.parametrize("kernel", ["relu", "leaky_relu", "swish", "fourier"])
def test_other_kernels(kernel: str) -> None:
    assert make(CKCNN, "classification", kernel=kernel)(batch_of("classification").x).shape == (8, 3)


@pytest.mark.parametrize("kernel", ["relu", "leaky_relu", "swish"])
def test_kernels_without_an_omega_0_take_auto_as_they_take_any_other(kernel: str) -> None:
    sizes = {count_parameters(make(CKCNN, "classification", kernel=kernel, omega_0=value)) for value in ("auto", 30.0)}
    assert len(sizes) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schedule": "step"}, "schedule must be one of plateau, one_cycle, cosine, constant, "),
        ({"learning_rate": 0.0}, "learning_rate must be a positive number, got 0.0"),
        ({"decay": 1.0}, "decay must be a number above 1"),
        ({"weight_decay": -1.0}, "weight_decay must be 0 or a positive number, got -1.0"),
        ({"label_smoothing": 1.0}, r"label_smoothing must lie in \[0, 1\), got 1.0"),
        ({"warm_up": -0.1}, r"warm_up must lie in \[0, 1\], the part of the schedule, got -0.1"),
        ({"kernel_rate": -1.0}, "kernel_rate must be 0 or a positive number, got -1.0"),
        ({"window_rate": float("inf")}, "window_rate must be 0 or a positive number, got inf"),
        ({"sigma_0": 1e300}, "sigma_0 must be a positive number from 1e-4 to 1e4"),
        ({"radius": 0.0}, r"radius must lie in \[0.0001, 1\], got 0.0"),
        (
            {"kernel": "points", "conv": "separable", "radius": 1e-4},
            r"all kernels are zero on the .* need a larger radius",
        ),
        ({"kernel_penalty": -1.0}, "kernel_penalty must be 0 or a positive number, got -1.0"),
        ({"kernel": "cosine"}, "kernel must be one of sine, relu"),
        ({"omega_0": "auto", "kernel": "fourier"}, "omega_0 auto is for the sine kernel without init, .* 'fourier'"),
        ({"omega_0": "auto", "init": "paper"}, "omega_0 auto is for the sine kernel without init, .* init 'paper'"),
        ({"kernel": "fourier", "init": "siren"}, "the fourier kernel has one way to start"),
        ({"init": "zero"}, "init must be one of siren, paper, reference"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(CKCNN, "classification", **options)


@pytest.mark.parametrize("steps", [1, 4, 9, 10, 11, 100])
def test_a_cycle_may_have_any_number_of_steps(steps: int) -> None:
    """With 10 steps, a tenth of them is one step, for which torch divides by zero."""
    for warm_up in (0.0, 0.1, 0.25, 1.0):
        model = make(CKCNN, "classification", schedule="one_cycle", learning_rate=0.5, warm_up=warm_up)
        optimizer = model.make_optimizer()
        schedule = model.make_schedule(optimizer, steps)
        rates = []
        for _ in range(steps):
            rates += [group["lr"] for group in optimizer.param_groups]
            optimizer.step()
            schedule.step() if len(rates) < steps else None
        assert 0 < min(rates) <= max(rates) <= 0.5


def test_unknown_task() -> None:
    with pytest.raises(ValueError, match="task must be one of classification, binary, regression, "):
        CKCNN(1, 2, "sorting", 12)


def test_a_loss_that_is_no_number_stops_the_run(tmp_path: Path) -> None:
    model = make(CKCNN, "classification", omega_0=17.5, learning_rate=0.25)
    batch = batch_of("classification")
    bad = batch._replace(x=batch.x * float("inf"))
    loader = torch.utils.data.DataLoader([batch, batch, bad, batch], batch_size=None)
    trainer = Trainer(
        max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, default_root_dir=tmp_path,
        enable_model_summary=False, accelerator="cpu",
    )  # fmt: skip
    message = r"the loss became NaN or infinite at step 2 \(epoch 0\), learning rate 0.25, omega_0 17.5; try a smaller"
    with warnings.catch_warnings(action="ignore"), pytest.raises(DivergenceError, match=message):
        trainer.fit(model, loader)
    assert all(parameter.isfinite().all() for parameter in model.parameters())  # stopped before the step


def test_the_package_names_its_models() -> None:
    assert [getattr(ckcnn, name).__name__ for name in ckcnn.MODELS] == [
        "CKCNN",
        "GRU",
        "LSTM",
        "TCN",
        "OwnNet",
        "ReferenceCKCNN",
    ]
    with pytest.raises(AttributeError, match="no attribute 'CNN'"):
        ckcnn.CNN  # noqa: B018
