"""The command line as people use it: options, run folders, results, and one sentence for every mistake."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from ckcnn.__main__ import main
from ckcnn.runs import checkpoints
from ckcnn.runs.metrics_table import read

QUICK = ["--trainer.accelerator=cpu", "--trainer.enable_progress_bar=false", "--data.batch_size=64"]
FIT = ["fit", "--config", "digits.yaml", "--trainer.max_epochs=2", "--trainer.limit_train_batches=3", *QUICK]

PAPER = {"test/accuracy": 0.9}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a run of digits has been trained."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(FIT) == 0
    return folder


@pytest.fixture
def here(trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(trained)
    return trained


def failing(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The message of a command that must fail with one line."""
    capsys.readouterr()
    assert main(arguments) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("ckcnn: error: ")]
    assert len(lines) == 1
    return lines[0].removeprefix("ckcnn: error: ")


def test_the_run_folder_holds_everything(here: Path) -> None:
    run = here / "runs" / "digits" / "version_0"
    assert {"config.yaml", "metrics.csv", "checkpoints"} <= {path.name for path in run.iterdir()}
    assert sorted(path.name for path in (run / "checkpoints").iterdir())[-1] == "last.ckpt"
    assert len(list((run / "checkpoints").glob("best-*.ckpt"))) == 1
    rows = read(run / "metrics.csv")
    assert [(row["epoch"], row["step"]) for row in rows] == [("0", "3"), ("1", "6")]
    assert {"train/loss", "train/accuracy", "val/loss", "val/accuracy", "learning_rate", "seconds"} <= set(rows[0])
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["model"]["init_args"]["omega_0"] == 50.0
    assert config["name"] == "digits"
    events = EventAccumulator(str(run)).Reload()
    assert [event.step for event in events.Scalars("val/accuracy")] == [2, 5]


def test_checkpoints_are_plain_data(here: Path) -> None:
    content = checkpoints.load(here / "runs/digits/version_0/checkpoints/last.ckpt")
    assert content["model_class"] == "CKCNN"
    assert content["hyper_parameters"]["omega_0"] == 50.0
    assert content["hyper_parameters"]["horizon"] == 64


def test_test_prints_a_table_and_writes_results(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "--config", "digits.yaml", *QUICK]) == 0
    shown = capsys.readouterr().out
    result = json.loads((here / "runs/digits/version_0/results.json").read_text())
    assert f"test/accuracy  {100 * result['metrics']['test/accuracy']:.2f} %" in shown
    assert result["preset"] == "digits"
    assert result["parameters"] == 98_286
    assert result["checkpoint"].startswith("checkpoints/best-")
    assert result["data"]["sizes"] == {"train": 1257, "val": 270, "test": 270}
    assert {"ckcnn", "torch", "pytorch-lightning", "python"} <= set(result["versions"])
    assert result["git_commit"] is None or len(result["git_commit"].rstrip("+")) == 40
    assert re.search(r", \d+ cores$|^\d+ x ", result["machine"])
    confusion = np.array(result["confusion"])
    assert result["classes"] == list("0123456789")
    assert confusion.trace() / confusion.sum() == pytest.approx(result["metrics"]["test/accuracy"])
    assert confusion.sum() == 270


def test_other_tests_are_kept_beside_each_other(here: Path) -> None:
    paper = f"--paper={json.dumps(PAPER)}"
    for step in ("1", "2", "1"):
        assert main(["test", "--ckpt_path", "runs/digits/version_0", "--data.test_dt", step, paper, *QUICK]) == 0
    result = json.loads((here / "runs/digits/version_0/results.json").read_text())
    assert result["data"]["test_dt"] == 1
    assert result["paper"] == PAPER
    (other,) = result["earlier"]  # the same test counts once
    assert other["data"]["dt"]["test"] == 2.0
    assert other["paper"] is None  # which is for the rate of training


def test_a_test_may_read_kernels_in_another_way(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    test = ["test", "--ckpt_path", "runs/digits/version_0", "--data.test_dt=4", *QUICK]
    for options in ([], ["--model.coarse=interpolated"]):
        assert main([*test, *options]) == 0
    result = json.loads((here / "runs/digits/version_0/results.json").read_text())
    assert result["coarse"] == "interpolated"
    (scaled,) = [other for other in result["earlier"] if other["data"]["test_dt"] == 4]
    assert scaled["coarse"] is None
    assert scaled["metrics"] != result["metrics"]
    said = failing([*test, "--model.coarse=near"], capsys)
    assert "--model.coarse must be 'scaled' or 'interpolated', got near" in said


@pytest.mark.parametrize("own", [False, True])
def test_stamps_are_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], own: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    words, advice = (
        ["--config", "digits.yaml", "--data.missing=times", "--data.drop_rate=0.5"],
        "use --data.missing mask",
    )
    if own:
        np.savez("mine.npz", x=np.zeros((20, 1, 8)), y=np.arange(20) % 2, times=np.tile(np.arange(8.0), (20, 1)))
        words, advice = ["--data=Arrays", "--data.path=mine.npz"], "leave times out of the file"
    message = failing(["fit", *words, "--model=GRU", "--trainer.accelerator=cpu"], capsys)
    assert message.startswith(f"GRU takes no time stamps, and the data has them; {advice}, or use a CKCNN")
    assert not (tmp_path / "runs").exists()


def test_the_rate_of_training_must_be_known(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = failing(["test", "--config", "digits.yaml", "--data.train_dt=2", "--data.test_dt=4", *QUICK], capsys)
    assert message == (
        "runs/digits/version_0 was trained with data.train_dt 1, got 2; give --data.train_dt 1, "
        "or --ckpt_path runs/digits/version_0 without --config, which knows it"
    )


def test_validate_and_last(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--config", "digits.yaml", "--ckpt_path", "last", *QUICK]) == 0
    shown = float(capsys.readouterr().out.split("val/accuracy")[1].split()[0])
    assert shown == pytest.approx(
        100 * float(read(here / "runs/digits/version_0/metrics.csv")[-1]["val/accuracy"]), abs=0.01
    )


def test_predict(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("p.csv", "p.npz"):
        assert main(["predict", "--config", "digits.yaml", "--output", name, *QUICK]) == 0
    with (here / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    arrays = np.load(here / "p.npz")
    assert [int(row["prediction"]) for row in rows] == arrays["predictions"].tolist()
    assert [int(row["target"]) for row in rows] == arrays["targets"].tolist()
    assert main(["test", "--config", "digits.yaml", *QUICK]) == 0
    accuracy = json.loads((here / "runs/digits/version_0/results.json").read_text())["metrics"]["test/accuracy"]
    assert (arrays["predictions"] == arrays["targets"]).mean() == pytest.approx(accuracy)
    assert failing(["predict", "--config", "digits.yaml", "--output", "p.txt"], capsys).startswith(
        "--output must end in"
    )


def test_a_checkpoint_from_elsewhere_gets_a_folder_for_its_results(here: Path, tmp_path: Path) -> None:
    copy = tmp_path / "mine.ckpt"
    copy.write_bytes((here / "runs/digits/version_0/checkpoints/last.ckpt").read_bytes())
    assert main(["test", "--config", "digits.yaml", "--ckpt_path", str(copy), "--name", "other", *QUICK]) == 0
    run = here / "runs" / "other" / "version_0"
    assert json.loads((run / "results.json").read_text())["checkpoint"] == str(copy)
    assert (run / "config.yaml").is_file()


def test_later_files_and_flags_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("model: {init_args: {omega_0: 7.0, dropout: 0.4}}")
    assert main([*FIT, "--config", "mine.yaml", "--model.dropout=0.3", "--trainer.max_epochs=1"]) == 0
    settings = yaml.safe_load(Path("runs/digits/version_0/config.yaml").read_text())["model"]["init_args"]
    assert (settings["omega_0"], settings["dropout"], settings["input_dropout"]) == (7.0, 0.3, 0.1)
    # The run folder alone is enough to train the same again.
    assert main(["fit", "--config", "runs/digits/version_0/config.yaml"]) == 0
    weights = [torch.load(f"runs/digits/version_{n}/checkpoints/last.ckpt", weights_only=True) for n in (0, 1)]
    assert all(torch.equal(a, b) for a, b in zip(*(w["state_dict"].values() for w in weights), strict=True))


def test_the_memory_may_be_shorter_than_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    small = ["--model.hidden_channels=2", "--model.kernel_hidden=4"]
    assert main([*FIT, *small, "--model.horizon=20", "--model.causal=false"]) == 0
    content = checkpoints.load(Path("runs/digits/version_0/checkpoints/last.ckpt"))
    assert content["hyper_parameters"]["horizon"] == 20
    assert content["hyper_parameters"]["causal"] is False
    assert main(["test", "--ckpt_path=runs/digits/version_0"]) == 0
    message = failing([*FIT, *small, "--ckpt_path=last", "--model.causal=false"], capsys)
    assert "was trained with model.horizon 20, got 64" in message


@pytest.mark.parametrize("model", ["GRU", "LSTM", "TCN"])
def test_baselines_train_by_name(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*FIT, "--model", model, "--trainer.max_epochs=1"]) == 0
    assert main(["test", "--config", "digits.yaml", *QUICK]) == 0  # the class is that of the checkpoint
    result = json.loads(Path("runs/digits/version_0/results.json").read_text())
    assert result["model"] == model
    assert result["parameters"] == pytest.approx(98_286, rel=0.06)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model.omgea_0=3"], "CKCNN has no option --model.omgea_0; did you mean --model.omega_0?"),
        (["--data.drop_rat=0.3"], "Digits has no option --data.drop_rat; did you mean --data.drop_rate?"),
        (["--trainer.max_epoch=3"], "there is no option --trainer.max_epoch; did you mean --trainer.max_epochs?"),
        (["pmnist.yaml"], "pmnist.yaml is not an option; to use it as a preset, write --config pmnist.yaml"),
        (["--precision=bf16-mixed"], "there is no option --precision; did you mean --trainer.precision?"),
        (["--omega_0=3"], "there is no option --omega_0; did you mean --model.omega_0?"),
        (["--model=torch.nn.Linear"], "a torch.nn.Module is given with --model.net torch.nn.Linear"),
        (["--modl=GRU"], "there is no option --modl; did you mean --model?"),
        (["--model=GRUU"], "there is no model GRUU; did you mean GRU?"),
        (["--data=Digitz"], "there is no data Digitz; did you mean Digits?"),
        (["--model.omega_0=abc"], "--model.omega_0 must be 'auto' or a number, got abc"),
        (["--model.omega_0=-1"], "omega_0 must be a positive number, got -1.0"),
        (["--data.batch_size=1.5"], "--data.batch_size must be a whole number, got 1.5"),
        (["--data.missing=tims"], "--data.missing must be 'mask' or 'times' or 'counts', got tims"),
        (["--data.drop_rate=30"], "drop_rate must lie in [0, 1), got 30.0; it is a fraction, so write 0.3 for 30 %"),
        (
            ["--model.in_channels=3"],
            "--model.in_channels=3 is a fact of the data and cannot be set; change the settings of the data",
        ),
        (["--config=digit"], "there is no file digit, nor a preset of this name; did you mean digits?"),
        (["--ckpt_path=nothing.ckpt"], "there is no checkpoint nothing.ckpt"),
        (["--trainer.accelerator=cuda"], "; --trainer.accelerator cpu runs without a GPU"),
    ],
)
def test_mistakes(
    options: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if "cuda" in options[0] and torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    monkeypatch.chdir(tmp_path)
    assert message in failing(["fit", "--config", "digits.yaml", *options], capsys)
    assert list(tmp_path.glob("runs/*")) == []  # nothing is left behind


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("data: [1", "is not valid YAML in line 2, column 1: did not find expected ',' or ']'"),
        ("- 1", "must hold settings such as 'model: CKCNN', got [1]"),
        ("data: {class_path: Digits, init_args: {batch_sise: 3}}", "Digits has no option --data.batch_sise"),
        ("data: {class_path: Digits}\nmodle: {x: 3}", "there is no option --modle.x; did you mean --model?"),
        (
            "data: {class_path: SpeechCommands, init_args: {words: [yes, no]}}",
            "--data.words must be a text, got True; put yes, no, on and off into quotes",
        ),
        ("trainer: {max_epochs: 3}", "no data was given; name a preset such as --config digits.yaml"),
    ],
)
def test_bad_files(
    content: str, message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(content)
    assert message in failing(["fit", "--config", "mine.yaml"], capsys)


def test_missing_data_is_said_and_nothing_stays(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    message = failing(["fit", "--config", "pmnist.yaml", "--data.root", "nowhere", *QUICK], capsys)
    assert "MNIST/raw/train-images-idx3-ubyte" in message
    assert "CKCNN_DATA" in message
    assert list(tmp_path.glob("runs/*")) == []


def test_nothing_to_test(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    message = failing(["test", "--config", "digits.yaml"], capsys)
    assert message == "there is no trained run in runs/digits; train one with ckcnn fit, or give --ckpt_path"


def test_a_checkpoint_must_fit_the_data(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = failing(["test", "--config", "digits.yaml", "--data.drop_rate=0.3", *QUICK], capsys)
    assert "was trained for in_channels 1, the data has 2; give the settings of the data" in message


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_does_not_wait_for_torch(argument: str) -> None:
    """The start of an interpreter is in it; heavy imports alone would take several seconds."""
    code = f"import sys; from ckcnn.__main__ import main; main(['{argument}']); print('torch' in sys.modules)"
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    print(f"{argument} took {time.perf_counter() - start:.2f} s")
    assert done.stdout.splitlines()[-1] == "False"


def test_training_without_validation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*FIT, "--trainer.limit_val_batches=0", "--model.schedule=plateau"]) == 0
    assert main(["test", "--config", "digits.yaml", "--ckpt_path", "last", *QUICK]) == 0
    assert len(read(tmp_path / "runs/digits/version_0/metrics.csv")) == 2


def test_a_trial_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*FIT, "--trainer.fast_dev_run=true"]) == 0
    assert list(tmp_path.glob("runs/*")) == []


def test_divergence_is_told_with_exit_code_one(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*FIT, "--model.learning_rate=1e30", "--model.schedule=constant"]) == 1
    message = capsys.readouterr().err
    assert "the loss became " in message
    assert "learning rate 1e+30, omega_0 50;" in message


def test_your_own_data_as_the_docs_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs/how_to/own_data.md").read_text()
    (shown,) = re.findall(r"```yaml\n(# mine.yaml.*?)```", page, re.DOTALL)
    Path("mine.yaml").write_text(shown)
    y = np.arange(120) % 3
    x = np.sin(np.arange(50) * (1 + y[:, None, None]) / 5) + np.random.default_rng(0).normal(0, 0.1, (120, 2, 50))
    np.savez("mine.npz", x=x, y=y)
    quick = ["--trainer.accelerator=cpu", "--trainer.enable_progress_bar=false", "--trainer.max_epochs=3"]
    assert main(["fit", "--config", "mine.yaml", *quick]) == 0
    assert main(["test", "--config", "mine.yaml", *quick]) == 0
    assert json.loads(Path("runs/mine/version_0/results.json").read_text())["metrics"]["test/accuracy"] > 0.9
