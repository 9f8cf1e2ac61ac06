"""What cases are made from: small whole runs, checkpoints, exported folders and data, made once for a campaign."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import numpy as np
import optuna
import yaml

from ckcnn import CKCNN
from ckcnn.__main__ import main
from ckcnn.inference.loading import save_folder
from ckcnn.runs import checkpoints
from tests.campaign import moments

# The smallest run there is: two steps of a network with some hundred weights.
TINY_MODEL = ["--model.num_blocks=1", "--model.hidden_channels=4", "--model.kernel_hidden=4"]
TINY_TRAINER = [
    "--trainer.accelerator=cpu",
    "--trainer.max_epochs=1",
    "--trainer.limit_train_batches=2",
    "--trainer.limit_val_batches=1",
    "--trainer.limit_test_batches=1",
    "--trainer.limit_predict_batches=1",
    "--trainer.enable_progress_bar=false",
]


def tiny(material: Path) -> list[str]:
    """Return the arguments of ``ckcnn fit`` for a run of a tenth of a second."""
    return ["--config=digits.yaml", f"--data.root={material / 'data'}", *TINY_MODEL, *TINY_TRAINER]


def make(folder: Path) -> Path:
    """Write everything that cases need."""
    for command in ("fit", "test"):
        places = [f"--runs={folder / 'runs'}"]
        if main([command, *tiny(folder), *places]) != 0:
            raise RuntimeError(f"ckcnn {command} does not work at all")
    save_folder(folder / "runs/digits/version_0", folder / "exported")
    _language_model(folder / "text.ckpt")
    _interrupted(folder)
    _timed(folder)
    _arrays(folder)
    _search(folder)
    return folder


def _interrupted(folder: Path) -> None:
    """A run that SIGTERM has stopped within its second epoch."""
    stop = moments.flags("first batch", signal.SIGTERM, epoch=1, rank=0)
    words = [*tiny(folder), "--trainer.max_epochs=2", f"--runs={folder / 'runs'}", "--name=interrupted"]
    if main(["fit", *words, *stop]) != 143:
        raise RuntimeError("SIGTERM does not stop ckcnn fit")
    run = folder / "runs/interrupted/version_0"
    shutil.copy(folder / "runs/digits/version_0/results.json", run)  # of a test in between
    config = run / "config.yaml"
    settings = yaml.safe_load(config.read_text())
    settings["trainer"]["callbacks"] = None  # what has stopped it
    config.write_text(yaml.safe_dump(settings))


def _timed(folder: Path) -> None:
    """A run on a table with a time column, whose model knows the sampling step: a row every half second."""
    path = folder / "timed.csv"
    rows = [f"{n},{'ab'[n % 2]},{0.5 * step},{step % 3 + n}" for n in range(24) for step in range(16)]
    path.write_text("\n".join(["sequence,label,time,v", *rows]))
    words = ["--model=CKCNN", *TINY_MODEL, "--data=Arrays", f"--data.path={path}", f"--data.root={folder / 'data'}"]
    if main(["fit", *words, *TINY_TRAINER, f"--runs={folder / 'runs'}", "--name=timed"]) != 0:
        raise RuntimeError("ckcnn fit does not work on tables")


def _language_model(path: Path) -> None:
    model = CKCNN(1, 5, "language", 16, hidden_channels=4, num_blocks=1, embedding_channels=3, kernel_hidden=4)
    content = model.artefact()
    content["preprocessing"] = {
        **_language_preprocessing(),
        "vocabulary": "abcd ",
    }
    checkpoints.save({**content, "epoch": 0, "global_step": 0}, path)


def _language_preprocessing() -> dict[str, object]:
    from ckcnn.datamodules.preprocessing import Preprocessing

    return Preprocessing("PennTreebank", "language", 1, 16, 5, 2).state()


def _arrays(folder: Path) -> None:
    """A good file of each kind, of 24 sequences in two classes."""
    source = np.random.default_rng(0)
    x = source.normal(size=(24, 2, 12)).astype(np.float32)
    np.savez(folder / "good.npz", x=x, y=np.arange(24) % 2)


def _search(folder: Path) -> None:
    """A finished search of one trial that was never trained: its value is in the database."""
    from ckcnn.cli.rehearsal import Rehearsal
    from ckcnn.search import space, study
    from ckcnn.search.storage import open_storage

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    rehearsal = Rehearsal("fit", tiny(folder))
    wanted = space.parse([], (1.0, 100.0))
    made = study.open_study(
        "digits_search",
        open_storage(f"sqlite:///{folder / 'search.db'}"),
        optuna.samplers.RandomSampler(seed=0),
        optuna.pruners.NopPruner(),
        rehearsal.model.monitor,
        rehearsal.model.mode,
        study.question(rehearsal.choice.name, rehearsal.config, wanted),
    )
    for value in (0.5, 0.7):
        trial = optuna.trial.create_trial(
            params={"model.omega_0": 10 * value},
            distributions=wanted,
            value=value,
            user_attrs={"val_loss": 0.1, "best_epoch": 1, "epochs": 2, "seconds": 3.0, "folder": "trial_0"},
        )
        made.add_trial(trial)
    (folder / "question.json").write_text(json.dumps(made.user_attrs["question"]))
