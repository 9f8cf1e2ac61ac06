"""``ckcnn fit``, ``validate``, ``test`` and ``predict``: Lightning's command line on presets and run folders."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentError
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import get_loader, set_loader
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
from lightning_fabric.utilities.exceptions import MisconfigurationException
from lightning_utilities.core.rank_zero import rank_zero_info, rank_zero_only
from pytorch_lightning import LightningDataModule, Trainer
from pytorch_lightning.callbacks import EarlyStopping
from pytorch_lightning.cli import LightningArgumentParser, LightningCLI
from torch.optim import Optimizer

from ckcnn import presets
from ckcnn.checks.hints import in_short
from ckcnn.cli import optimizers, predictions
from ckcnn.cli.choice import (
    Choice,
    check_labels,
    check_place,
    check_same_cycle,
    check_same_model,
    check_stamps,
    check_state,
    choose,
    layers_of,
    load_model,
)
from ckcnn.cli.messages import explain
from ckcnn.cli.quiet import ProgressBar
from ckcnn.cli.stored_settings import StoredSettings, names_own_class
from ckcnn.cli.trainer_options import (
    check_callbacks,
    check_flags,
    check_nodes,
    check_trainer,
    keep_whole_numbers,
    refusal,
)
from ckcnn.datamodules import SequenceDataModule
from ckcnn.datamodules.sequences import Facts, facts_of, said_of
from ckcnn.files import check_output, safe_yaml
from ckcnn.models.baselines import count_parameters
from ckcnn.models.own_net import OwnNet
from ckcnn.models.sequence_module import SequenceModule
from ckcnn.presets import Layers, value_of
from ckcnn.runs import checkpoints, lock
from ckcnn.runs import results_file as writing
from ckcnn.runs.beginning import BeginRun, LateTensorBoard
from ckcnn.runs.callbacks import run_callbacks
from ckcnn.runs.checkpoint_io import SafeCheckpointIO
from ckcnn.runs.folder import RunFolder

_MODE = "yaml within limits"  # of the argument parser


def _load(text: str) -> Any:
    """What the argument parser reads values and files with, those that a configuration names included."""
    safe_yaml.check(text, "a value of the command line, or a file that it names,")
    value = get_loader("yaml")(text)
    if isinstance(value, dict) and None in value:  # "?" is a text, not a mapping without a key
        raise safe_yaml.NotYAMLError(f"{in_short(text)} must have a name for every value")
    return value


set_loader(_MODE, _load, (safe_yaml.NotYAMLError, yaml.YAMLError))


class CKCNNCLI(LightningCLI):
    """Links the facts of the data to the model, and gives every run its folder.

    Args:
        command: ``fit``, ``validate``, ``test`` or ``predict``.
        args: what follows it.
    """

    choice: Choice
    layers: Layers
    model: SequenceModule
    datamodule: LightningDataModule
    begin: BeginRun
    stored_cache = False  # whether only the file of a run says where prepared data goes
    new: RunFolder | None = None  # the folder that this process has made

    def __init__(self, command: str, args: list[str]) -> None:
        self.command, self.layers = command, layers_of(args).with_own_net()
        if (command == "fit" or names_own_class(self.layers)) and os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())  # last, so that it hides no installed package
        if command != "fit":
            stored = StoredSettings.of(self.layers)
            self.layers, self.stored_cache = stored.layers, stored.names_cache
        super().__init__(
            SequenceModule,
            LightningDataModule,
            save_config_callback=None,  # Lightning's own would write before the run is accepted
            seed_everything_default=0,
            parser_kwargs={
                "prog": f"ckcnn {command}",
                "exit_on_error": False,
                "parser_mode": _MODE,
                "default_config_files": [str(presets.BASE)],
                "allow_abbrev": False,
            },
            subclass_mode_model=True,
            subclass_mode_data=True,
            args=args,
            run=False,
            auto_configure_optimizers=False,
            load_from_checkpoint_support=False,
        )

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.add_argument("--ckpt_path", type=str | None, help="a checkpoint, a run folder, or: best, last")
        parser.add_argument("--name", type=str | None, help="folder in --runs; by default the name of the preset")
        parser.add_argument("--runs", type=str, default="runs", help="folder of all runs")
        parser.add_argument("--monitor", type=dict[str, str] | None, help="of a run; use --model.monitor")
        parser.add_argument("--paper", type=dict[str, Any] | None, help="what the paper reports: size and metrics")
        parser.add_argument(
            "--variants", type=list[dict[str, Any]] | None, help="the rows of the paper's tables, of a preset"
        )
        if self.command == "predict":
            parser.add_argument("--output", type=str, default="predictions.csv", help="file to write, .csv or .npz")
            new = "new sequences to predict, without the training data: .npz, .h5, .csv, .ts, .wav or a folder of them"
            parser.add_argument("--input", type=str | None, help=f"{new}; ckcnn predict --input --help has its options")
        parser.add_optimizer_args((Optimizer,))
        parser.add_lr_scheduler_args()
        parser.add_lightning_class_args(EarlyStopping, "early_stopping")
        for fact in self._linked_facts():
            said = partial(_fact, name=fact)
            parser.link_arguments("data", f"model.init_args.{fact}", said, apply_on="instantiate")
        rules = {"monitor": lambda stopping: stopping[0], "mode": lambda stopping: stopping[1]}
        for name, rule in rules.items():
            parser.link_arguments("model.stopping", f"early_stopping.{name}", rule, apply_on="instantiate")

    def _linked_facts(self) -> list[str]:
        """The facts that the data gives; how far back a network sees may be chosen instead."""
        chosen = value_of(self.layers.merged(), "model.horizon") is not None
        return [fact for fact in Facts._fields if not (chosen and fact == "horizon")]

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        """Parse presets, overlays and flags, with the preset's values for the row of the paper that they fit."""
        try:
            self.config = parser.parse_args(self.layers.with_row().arguments())
        except (ArgumentError, TypeError) as error:
            raise ValueError(explain(error, self.command)) from None
        optimizers.settle(self.config, self.layers)
        keep_whole_numbers(self.config, self.layers.with_row().merged())
        check_trainer(self.config)
        check_flags(self.config)
        if given := [
            word for word in args if word.split("=")[0] in {f"--model.{fact}" for fact in self._linked_facts()}
        ]:
            raise ValueError(f"{given[0]} is a fact of the data and cannot be set; change the settings of the data")
        if missing := self.layers.missing_row():
            rank_zero_info(f"the paper has no values for {missing}; those of the preset are used as they are")
        self.config.variants = None  # they are applied; the saved configuration must not apply them again

    def _tell_what_is_left_out(self) -> None:
        """Presets describe a CKCNN; a network of the user's own takes of them what is about training."""
        said = value_of(self.layers.merged(), "model.init_args") or {}
        left = [f"model.{name}" for name in said if name not in self.config.model.init_args]
        if left and isinstance(self.model, OwnNet):
            rank_zero_info(f"not used, because they are of the network of a CKCNN: {', '.join(left)}")

    def before_instantiate_classes(self) -> None:
        """Choose the run folder and the checkpoint; stored settings of the model are used in `load_model`."""
        if self.command == "predict":
            check_output(Path(self.config.output), ".csv", ".npz")
        self.choice = choose(self.command, self.config, self.layers.files)
        self.config.name, self.config.ckpt_path = self.choice.name, None

    def instantiate_classes(self) -> None:
        """Instantiate data, model and trainer; report invalid settings in one sentence."""
        try:
            super().instantiate_classes()
        except ValueError as error:
            raise ValueError(explain(error, self.command)) from None

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """Add what keeps the work of a run, and where it goes."""
        if self.command == "fit":
            optimizers.use(self.config, self.model)
        check_labels(self.command, self.datamodule)
        check_stamps(self.model, self.datamodule)
        if self.command == "fit" and self.choice.checkpoint:
            check_same_model(self.choice, self.model)
        self.config.monitor = {"metric": self.model.monitored[0], "mode": self.model.mode}
        settings = self.config_init["trainer"]
        plugins: list[Any] = [SafeCheckpointIO(), *_as_list(settings["plugins"])]
        if SLURMEnvironment.detect():
            plugins.append(SLURMEnvironment(auto_requeue=False))  # Lightning's own would write elsewhere
        kwargs |= {"plugins": plugins, "logger": False}
        if self.command == "fit":
            check_callbacks(_as_list(settings["callbacks"]))
            run = self._run_folder()
            log = LateTensorBoard(run, self.choice.steps or None)
            self.begin = BeginRun(run, lambda: self.parser.dump(self.config, skip_none=False), log)
            ours = run_callbacks(run, self.model.monitor, self.model.mode, int(self.config["seed_everything"]))
            kwargs |= {"logger": [log, *_as_list(settings["logger"])]}
            kwargs |= {"callbacks": [*_as_list(settings["callbacks"]), self.begin, *ours]}
            if settings["enable_progress_bar"] is not False:
                kwargs["callbacks"].append(ProgressBar())
        elif self.command == "predict":
            kwargs |= {"devices": 1, "num_nodes": 1}
        try:
            trainer = super().instantiate_trainer(**kwargs)
        except BaseException as error:
            self._remove_new()
            if isinstance(error, MisconfigurationException | TypeError | ValueError | KeyError | ImportError):
                raise ValueError(refusal(error)) from None
            raise
        return trainer

    def after_instantiate_classes(self) -> None:
        """Training resumes with the same settings; everything else takes the settings of the checkpoint."""
        self.model.preset = ", ".join(file.stem for file in self.layers.files if not RunFolder.of(file)) or None
        if self.command != "fit":
            if isinstance(self.datamodule, SequenceDataModule):
                self.datamodule.may_prepare = not self.stored_cache
            self.model = load_model(self.choice, self.model, self.datamodule)

    def execute(self) -> None:
        """Do what the command says."""
        if self.command == "fit":
            try:
                check_nodes(self.trainer.num_nodes)
                self._fit()
            finally:
                if not self.begin.begun:
                    self._remove_new()
                lock.release()
        elif self.command == "predict":
            batches: Any = self.trainer.predict(self.model, self.datamodule)
            print(
                predictions.write(
                    Path(self.config.output), batches, self.model.task, said_of(self.datamodule, "labelled")
                )
            )
        else:
            (metrics,) = getattr(self.trainer, self.command)(self.model, self.datamodule, verbose=False)
            self._report(dict(metrics))

    def _fit(self) -> None:
        run = self._run_folder()
        if self.choice.checkpoint:
            check_state(self.choice, self.model, self.trainer.callbacks)  # type: ignore[attr-defined]
            check_place(self.choice, self.datamodule)
        finished = checkpoints.why_finished(self.choice.content, self.trainer.max_epochs, self.trainer.max_steps)
        if finished and not self.choice.checkpoint:
            rank_zero_info(f"there is nothing to train: {finished}")
            return
        if finished:
            place = self.choice.checkpoint if self.choice.run == self.new else run.path
            rank_zero_info(f"{place} is finished: {finished}; leave out --ckpt_path to start a new run")
            return
        check_same_cycle(self.choice, self.config, self.model)
        self._tell_what_is_left_out()
        size = count_parameters(self.model)
        rank_zero_info(f"{self.model.network_name} with {size:,} parameters, run folder {run.path}")
        self.trainer.fit(self.model, self.datamodule, ckpt_path=self.choice.checkpoint, weights_only=True)
        if self.trainer.fast_dev_run:  # type: ignore[attr-defined]
            return
        rank_zero_info(
            f"\nThe run is in {run.path}. What to look at next:\n"
            f"  ckcnn test --ckpt_path {run.path}\n"
            f"  tensorboard --logdir {run.path.parent}\n"
            f"  ckcnn report {self.config.runs} --output report.html"
        )

    @rank_zero_only
    def _report(self, metrics: dict[str, float]) -> None:
        if self.model.dt["test"] != 1:
            self.config.paper = None  # its result is for the rate of training
        writing.print_table(metrics, self.config.paper)
        if self.command == "test":
            run = self._run_folder()
            if not run.config.is_file():  # of a checkpoint from elsewhere
                self.parser.save(self.config, str(run.config), skip_none=False)
            facts = facts_of(self.datamodule)._asdict()  # type: ignore[arg-type]
            result = writing.describe(metrics, run, self.choice, self.config, self.model, self.datamodule, facts)
            writing.write(run, result)
            print(f"written to {run.results}")

    def _run_folder(self) -> RunFolder:
        """The folder of the run, made on first use."""
        run, parent = self.choice.run, Path(self.config.runs) / self.choice.name
        if run is None and getattr(rank_zero_only, "rank", 0) == 0:
            run = self.new = RunFolder.create(parent)
            if self.command == "fit":
                lock.hold(run)
        run = run or RunFolder(parent / "version_0")  # of another process, which writes nothing
        self.choice = replace(self.choice, run=run)
        return run

    def _remove_new(self) -> None:
        """Remove the run folder if nothing was done."""
        if self.new is not None:
            self.new.remove()


def _fact(data: Any, name: str) -> Any:
    """What the data says about itself; a data module that does not say it is refused."""
    return getattr(facts_of(data), name)


def _as_list(value: Any) -> list[Any]:
    return [] if value in (None, True, False) else value if isinstance(value, list) else [value]
