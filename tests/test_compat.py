"""What ckcnn needs of other libraries without being promised it: one test for each part, which says what broke.

When a test fails here, a new version of a library has changed something that `ckcnn.compat` relies on: mend it there.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import os
import pkgutil
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

import pytest
import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.utilities.exceptions import SIGTERMException
from torch import Tensor
from torch.utils.data import DataLoader

from ckcnn import compat

CANARIES: list[str] = []


def canary(part: str, sentence: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a test fail with a sentence, whatever went wrong in it.

    Args:
        part: the module and name in `ckcnn.compat` that it is about.
        sentence: what broke, and what ckcnn uses it for.
    """
    CANARIES.append(part)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(*args: Any, **kwargs: Any) -> None:
            try:
                test(*args, **kwargs)
            except Exception as error:
                pytest.fail(f"{sentence}; mend ckcnn.compat.{part} ({type(error).__name__}: {error})")

        return run

    return decorate


class Tiny(LightningModule):
    """The smallest module that trains."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch: Tensor, index: int) -> Tensor:
        return self.layer(batch).sum()

    def on_train_epoch_end(self) -> None:
        self.log("train/loss", 1.0)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def train(*callbacks: Callback, **options: Any) -> Trainer:
    """Trains on four batches; returns the trainer, also if SIGTERM stopped it."""
    trainer = Trainer(
        accelerator="cpu",
        max_epochs=1,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=list(callbacks),
        **options,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            trainer.fit(Tiny(), DataLoader(torch.ones(4, 1)))  # type: ignore[arg-type]
        except SIGTERMException:
            trainer.stopped = True  # type: ignore[attr-defined]
    return trainer


@canary(
    "lightning.begin_epoch_again",
    "Lightning keeps the iterator of the training batches elsewhere; "
    "ckcnn uses it so that a run with a data module of somebody's own resumes with the order of its sequences",
)
def test_an_epoch_begins_again() -> None:
    from ckcnn.compat.lightning import begin_epoch_again

    class Seeded(Callback):
        def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
            torch.manual_seed(3)
            begin_epoch_again(trainer)

    class Noted(Callback):
        def __init__(self) -> None:
            self.order: list[float] = []

        def on_train_batch_start(self, trainer: Trainer, module: LightningModule, batch: Tensor, index: int) -> None:
            self.order.append(batch.item())

    def order(seed: int) -> list[float]:
        torch.manual_seed(seed)
        noted, loader = Noted(), DataLoader(torch.arange(20.0)[:, None], shuffle=True, num_workers=1)
        options: dict[str, Any] = {"logger": False, "enable_progress_bar": False, "enable_checkpointing": False}
        trainer = Trainer(accelerator="cpu", max_epochs=1, callbacks=[Seeded(), noted], **options)
        with warnings.catch_warnings(action="ignore"):
            trainer.fit(Tiny(), loader)
        return noted.order

    first = order(0)
    assert sorted(first) == [float(n) for n in range(20)]
    assert order(1) == first


@canary(
    "torch.is_fake",
    "torch has other tensors without values than FakeTensor now; ckcnn uses it to leave out checks that need values",
)
def test_tensors_without_values_are_known() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    from ckcnn.compat.torch import is_fake

    with FakeTensorMode():
        assert is_fake(torch.ones(2))
    assert not is_fake(torch.ones(2))


@canary(
    "torch.is_lost_process",
    "PyTorch tells in other words that a process is gone; ckcnn uses them to say so in one sentence",
)
def test_a_lost_process_is_recognised(tmp_path: Path) -> None:
    script = """
import os, sys, torch
from torch import distributed
from ckcnn.compat.torch import is_lost_process
distributed.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=int(sys.argv[2]), world_size=2)
distributed.all_reduce(torch.zeros(1))
if sys.argv[2] == "1":
    os._exit(0)
try:
    distributed.all_reduce(torch.zeros(1))
except RuntimeError as error:
    assert is_lost_process(error), error
    assert not is_lost_process(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    os._exit(7)
"""
    start = [sys.executable, "-c", script, str(tmp_path / "store")]
    other = subprocess.Popen([*start, "1"])
    assert subprocess.run([*start, "0"], timeout=120, check=False).returncode == 7
    other.wait()


@canary(
    "torch.transforms_are_active",
    "torch no longer says whether torch.func transforms what runs; ckcnn uses it to compute with plain functions there",
)
def test_transforms_are_noticed() -> None:
    from ckcnn.compat.torch import transforms_are_active

    seen = []

    def square(x: Tensor) -> Tensor:
        seen.append(transforms_are_active())
        return x.square()

    torch.func.grad(square)(torch.tensor(1.0))
    square(torch.tensor(1.0))
    assert seen == [True, False]


@canary(
    "torch.normalised_weight",
    "torch's fused weight norm is gone or has changed; ckcnn uses it for the sine kernel nets",
)
def test_the_fused_weight_norm_is_the_public_one() -> None:
    from ckcnn.compat.torch import normalised_weight

    v, g = torch.randn(4, 3), torch.rand(4, 1)
    weight, _ = normalised_weight(v, g)
    torch.testing.assert_close(weight, g * v / v.norm(dim=1, keepdim=True))


@canary(
    "torch.normalised_weight_backward",
    "the backward of torch's fused weight norm has changed; ckcnn uses it for the sine kernel nets",
)
def test_the_backward_of_the_fused_weight_norm_is_that_of_autograd() -> None:
    from ckcnn.compat.torch import normalised_weight, normalised_weight_backward

    v, g, grad = torch.randn(4, 3, requires_grad=True), torch.rand(4, 1, requires_grad=True), torch.randn(4, 3)
    expected = torch.autograd.grad(g * v / v.norm(dim=1, keepdim=True), (v, g), grad)
    _, norms = normalised_weight(v.detach(), g.detach())
    found = normalised_weight_backward(grad, v.detach(), g.detach(), norms)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


@canary(
    "lightning.LateCallback",
    "Lightning no longer calls on_train_epoch_end of checkpoint callbacks after that of the module and in their order; "
    "ckcnn uses it to write the metrics of an epoch before its checkpoint",
)
def test_late_callbacks_see_what_the_module_logged() -> None:
    from ckcnn.compat.lightning import LateCallback

    seen = []

    class First(LateCallback):
        def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
            seen.append(("first", "train/loss" in trainer.callback_metrics))

    class Second(LateCallback):
        def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
            seen.append(("second", "train/loss" in trainer.callback_metrics))

    class Ordinary(Callback):
        def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
            seen.append(("ordinary", False))

    train(First(), Ordinary(), Second())
    assert seen == [("ordinary", False), ("first", True), ("second", True)]


@canary(
    "lightning.attached_trainer",
    "Lightning keeps the trainer of a module somewhere else; ckcnn tells a resume from load_from_checkpoint by it",
)
def test_a_module_knows_whether_it_has_a_trainer() -> None:
    from ckcnn.compat.lightning import attached_trainer

    module = LightningModule()
    assert attached_trainer(module) is None
    module.trainer = trainer = Trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
    assert attached_trainer(module) is trainer


@canary(
    "lightning.use_hook_beside_data",
    "Lightning warns of a data hook of the module in other words; users of `Trainer.fit` with a data module see it",
)
def test_a_data_hook_of_the_module_is_no_warning() -> None:
    from pytorch_lightning import LightningDataModule
    from pytorch_lightning.trainer.connectors.data_connector import _DataHookSelector

    from ckcnn.compat.lightning import use_hook_beside_data

    class Checks(LightningModule):
        def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
            return batch

    hooks = _DataHookSelector(Checks(), LightningDataModule())
    with pytest.warns(UserWarning, match="have overridden `on_after_batch_transfer`"):
        hooks.get_instance("on_after_batch_transfer")
    use_hook_beside_data("on_before_batch_transfer")
    Checks.on_before_batch_transfer = Checks.on_after_batch_transfer  # type: ignore[method-assign, assignment]
    assert isinstance(hooks.get_instance("on_before_batch_transfer"), Checks)


@canary(
    "lightning.stop_after_this_step",
    "Lightning no longer stops after a complete step when its flag for SIGTERM is set; "
    "ckcnn uses it to stop all processes after the same step and to resume with the next one",
)
def test_the_flag_for_sigterm_stops_training_after_a_complete_step(tmp_path: Path) -> None:
    from ckcnn.compat.lightning import stop_after_this_step

    class Stop(Callback):
        def on_train_batch_end(self, trainer: Trainer, module: LightningModule, *_: Any) -> None:
            if trainer.global_step == 2:
                stop_after_this_step(trainer)

        def on_exception(self, trainer: Trainer, module: LightningModule, exception: BaseException) -> None:
            trainer.save_checkpoint(tmp_path / "last.ckpt")

    trainer = train(Stop(), default_root_dir=tmp_path)
    assert trainer.stopped  # type: ignore[attr-defined]
    content = torch.load(tmp_path / "last.ckpt", weights_only=True)
    assert content["loops"]["fit_loop"]["epoch_loop.batch_progress"]["current"]["completed"] == 2


@canary(
    "lightning.take_over_sigterm",
    "Lightning's own handler no longer notes SIGTERM in the flag that ckcnn reads and clears when training starts, so "
    "that a run that accumulates gradients stops after a step of the optimizer",
)
def test_the_flag_for_sigterm_can_be_taken_over(tmp_path: Path) -> None:
    from ckcnn.compat.lightning import take_over_sigterm

    class Take(Callback):
        taken: ClassVar[list[bool]] = []

        def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            self.taken.extend([take_over_sigterm(trainer), take_over_sigterm(trainer)])

    trainer = train(Take(), default_root_dir=tmp_path)
    assert not hasattr(trainer, "stopped")
    assert Take.taken == [True, False]


@canary(
    "lightning.ask_no_process_about_sigterm",
    "Lightning's training loop no longer asks for SIGTERM before a step by the method that ckcnn replaces; "
    "ckcnn does so to keep the processes of a training from waiting for each other at every step",
)
def test_no_process_is_asked_about_sigterm(tmp_path: Path) -> None:
    from pytorch_lightning.loops.training_epoch_loop import _TrainingEpochLoop

    from ckcnn.compat.lightning import ask_no_process_about_sigterm

    assert "self._broadcast_sigterm_tensor()" in inspect.getsource(_TrainingEpochLoop.advance)
    trainer = Trainer(logger=False, enable_checkpointing=False, default_root_dir=tmp_path)
    ask_no_process_about_sigterm(trainer)
    assert vars(trainer.fit_loop.epoch_loop)["_broadcast_sigterm_tensor"]() is None


@canary(
    "lightning.batches_done",
    "Lightning's fit loop no longer counts the batches before a step; ckcnn uses the number to seed the dropout of a "
    "step, so that a resumed run draws what an uninterrupted one would have drawn",
)
def test_batches_are_counted_where_gradients_are_accumulated(tmp_path: Path) -> None:
    from ckcnn.compat.lightning import batches_done

    seen = []

    class Count(Callback):
        def on_train_batch_start(self, trainer: Trainer, module: LightningModule, *_: Any) -> None:
            seen.append(batches_done(trainer))

    train(Count(), accumulate_grad_batches=2, enable_checkpointing=False, default_root_dir=tmp_path)
    assert seen == [0, 1, 2, 3]


@canary(
    "torchmetrics.restore",
    "torchmetrics no longer counts updates in _update_count, or keeps its states elsewhere; "
    "ckcnn uses them to resume the metrics of an epoch that was interrupted",
)
def test_a_metric_goes_on_from_the_state_of_another_one() -> None:
    from torchmetrics.classification import BinaryAUROC

    from ckcnn.compat.torchmetrics import restore

    scores, targets = torch.rand(20), torch.rand(20).round().int()
    whole, before, after = BinaryAUROC(), BinaryAUROC(), BinaryAUROC()
    whole.update(scores, targets)
    before.update(scores[:9], targets[:9])
    restore(after, before.metric_state)
    assert after.update_count == 1  # or `compute` warns, which is an error here
    after.update(scores[9:], targets[9:])
    assert after.compute() == whole.compute()


@pytest.mark.filterwarnings("ignore:Heartbeat of storage")  # asked for by hand
@canary(
    "optuna.HeartbeatJournal",
    "Optuna no longer finds silent trials through _get_stale_trial_ids of a storage that is a BaseHeartbeat; "
    "ckcnn search uses it to run the trials of dead workers again if a study is in a journal file",
)
def test_a_silent_trial_in_a_journal_is_failed(tmp_path: Path) -> None:
    import optuna

    from ckcnn.compat.optuna import HeartbeatJournal

    silent = []

    class Journal(HeartbeatJournal):
        def get_heartbeat_interval(self) -> int:
            return 60

        def get_heartbeat_stale_trial_callback(self) -> Any:
            return lambda study, trial: silent.append(trial.number)

    study = optuna.create_study(storage=Journal(str(tmp_path / "journal.log")))
    storage, (first, second) = study._storage, (study.ask(), study.ask())
    storage.set_trial_system_attr(first._trial_id, "heartbeat", 0.0)
    storage.record_heartbeat(second._trial_id)  # type: ignore[attr-defined]
    optuna.storages.fail_stale_trials(study)
    assert silent == [0]
    assert [trial.state.name for trial in study.trials] == ["FAIL", "RUNNING"]


@canary(
    "optuna.fail_trial",
    "Optuna no longer lets a worker end a trial through the storage of a study, or no longer refuses to do it twice; "
    "ckcnn search uses it to run the trials of dead workers again, once",
)
def test_a_trial_is_failed_once() -> None:
    import optuna

    from ckcnn.compat.optuna import fail_trial

    study = optuna.create_study()
    study.ask()
    (trial,) = study.get_trials()
    assert fail_trial(study, trial, "its worker died")
    assert not fail_trial(study, trial, "its worker died")
    assert study.trials[0].state.name == "FAIL"
    assert study.trials[0].user_attrs == {"reason": "its worker died"}


@canary(
    "optuna.is_taken_over",
    "Optuna says something else when another worker has ended a trial; "
    "ckcnn search uses the text to go on with the next trial instead of failing",
)
def test_a_trial_that_was_taken_over_is_recognised() -> None:
    import optuna

    from ckcnn.compat.optuna import fail_trial, is_taken_over

    study = optuna.create_study()

    def objective(trial: optuna.Trial) -> float:
        fail_trial(study, study.trials[trial.number], "it was silent for too long")
        trial.report(1.0, step=1)  # the first thing that fails, as in a search
        return 1.0

    with pytest.raises(Exception) as caught:  # noqa: PT011
        study.optimize(objective, n_trials=1)
    assert is_taken_over(caught.value)
    assert not is_taken_over(ValueError("another mistake"))


def area(size: int) -> int:
    """How the argument parser below computes one value from another one."""
    if size == 0:
        raise ValueError("nothing has no area")
    return size**2


class Base:
    """What the argument parser below makes a subclass of."""


class Thing(Base):
    """A class with arguments of several types."""

    def __init__(self, size: int = 1, kind: Literal["a", "b"] = "a", many: int | None = None) -> None:
        if size == 7:
            raise ValueError("size must not be 7")


class Needy(Base):
    """A class that cannot be made without an argument."""

    def __init__(self, weight: float) -> None: ...


class Factory(Protocol):
    """Makes a thing of a size that is known later."""

    def __call__(self, *, size: int) -> Base: ...


class Keeper(Base):
    """A class that makes something itself."""

    def __init__(self, thing: Factory) -> None:
        self.thing = thing


KEEPER = [f"--model={__name__}.Keeper", f"--model.thing={__name__}.Thing"]
GIVEN = f"Namespace(class_path='{__name__}.Thing', init_args=Namespace(sise='3'))"
THING = f"--model={__name__}.Thing"
NEEDY = "        the following arguments are required: weight\n"
JSONARGPARSE = [
    ("UNKNOWN_INIT_ARG", [THING, "--model.sise=3"], (f"{__name__}.Thing", "sise")),
    ("UNKNOWN_ARGUMENT", [THING, "alone"], "alone"),
    ("UNKNOWN_KEY", [THING, "--config=unknown.yaml"], "tops"),
    ("NO_CLASS", ["--model=Thong"], "Thong"),
    ("NO_SUBCLASS", ["--model=pathlib.Path"], "Base"),
    ("CLASS_PROBLEM", [f"--model={__name__}.Needy"], (f"{__name__}.Needy", NEEDY)),
    ("MISSING_INIT_ARG", [f"--model={__name__}.Needy"], "weight"),
    ("FACTORY_PROBLEM", [*KEEPER, "--model.thing.sise=3"], ("Option 'sise' is not accepted", GIVEN)),
    ("LINK_PROBLEM", [THING, "--size_of=0"], "nothing has no area"),
    ("BAD_VALUE", [THING, "--epochs=many"], None),
    ("MISSING", [], "model"),
    ("KEY", [THING, "--model.size=x"], "model"),
    ("LITERAL", [THING, "--model.kind=c"], "'a', 'b'"),
    ("TYPE", [THING, "--epochs=many"], "int"),
    ("VALUE", [THING, "--epochs=many"], "many"),
    ("REASON", [THING, "--model.size=7"], "size must not be 7"),
]


@pytest.mark.parametrize(("name", "words", "found"), JSONARGPARSE, ids=[name for name, _, _ in JSONARGPARSE])
def test_the_errors_of_the_argument_parser(
    name: str, words: list[str], found: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("unknown.yaml").write_text("tops: 3\n")

    @canary(
        f"jsonargparse.{name}",
        f"jsonargparse says something else for {' '.join(words) or 'no arguments'}; "
        "ckcnn uses the text to explain mistakes on the command line in one sentence",
    )
    def check() -> None:
        pattern = getattr(importlib.import_module("ckcnn.compat.jsonargparse"), name)
        flags = re.MULTILINE if name == "REASON" else re.DOTALL
        text = error_of(words)
        matches = [match.groups() for match in re.finditer(pattern, text, flags)]
        expected = found if isinstance(found, tuple) else () if found is None else (found,)
        assert expected in (matches if name == "TYPE" else matches[:1]), text  # types come in any order

    check()


@canary(
    "jsonargparse.unwrapped",
    "jsonargparse hands over a class that makes something later in another way; "
    "ckcnn.OwnNet needs the class of a network to give it the facts of the data that it has arguments for",
)
def test_a_class_is_found_in_what_the_parser_makes_of_it() -> None:
    from pytorch_lightning.cli import LightningArgumentParser

    from ckcnn.compat.jsonargparse import unwrapped

    parser = LightningArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(Base, "model", required=True)
    with warnings.catch_warnings(action="ignore"):
        made = parser.instantiate_classes(parser.parse_args([*KEEPER, "--model.thing.kind=b"])).model
    found = unwrapped(made.thing)
    assert isinstance(found, functools.partial)
    assert (found.func, found.args, found.keywords) == (Thing, (), {"kind": "b", "many": None})
    own = functools.partial(Thing, 3)
    assert unwrapped(own) is own
    assert unwrapped(Thing) is Thing


def error_of(words: list[str]) -> str:
    """What the parser says to some words, or the class to its values."""
    from pytorch_lightning.cli import LightningArgumentParser

    parser = LightningArgumentParser(exit_on_error=False)
    parser.add_argument("--config", action="config")
    parser.add_subclass_arguments(Base, "model", required=True)
    parser.add_argument("--epochs", type=int | None)
    parser.add_argument("--size_of", type=int, default=1)
    parser.add_argument("--area", type=int)
    parser.link_arguments("size_of", "area", area)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parser.instantiate_classes(parser.parse_args(words))
    except Exception as error:
        return str(error)
    raise AssertionError(f"it took {words} for good")


def test_every_part_has_one_canary() -> None:
    parts = []
    for module in pkgutil.iter_modules(compat.__path__):
        tree = ast.parse((Path(compat.__path__[0]) / f"{module.name}.py").read_text())
        for node in tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            names += [node.name] if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
            parts += [f"{module.name}.{name}" for name in names if not name.startswith("_")]
    texts = [f"jsonargparse.{name}" for name, _, _ in JSONARGPARSE]
    canaries = texts + [part for part in CANARIES if part not in texts]
    assert sorted(canaries) == sorted(parts)


@pytest.mark.parametrize("module", [module.name for module in pkgutil.iter_modules(compat.__path__)])
def test_one_library_does_not_import_another(module: str) -> None:
    foreign = {"lightning": "pytorch_lightning", "torchmetrics": "torchmetrics", "optuna": "optuna"}
    allowed = {"lightning": {"lightning", "torchmetrics"}}.get(module, {module})  # Lightning imports torchmetrics
    code = f"import sys, ckcnn.compat.{module}; print(*[name for name in {foreign} if {foreign}[name] in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= allowed


def test_training_needs_no_optuna() -> None:
    code = "import sys, ckcnn.cli.commands; print('optuna' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
