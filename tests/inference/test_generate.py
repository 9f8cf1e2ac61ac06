"""`ckcnn generate`: the text of the whole-sequence call, repeatable, with one sentence for every mistake."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest
import torch
import yaml

from ckcnn import CKCNN
from ckcnn.__main__ import main
from ckcnn.datamodules.penn_treebank import VOCABULARY
from ckcnn.datamodules.preprocessing import Preprocessing
from ckcnn.inference.generate import Sampler, TextGenerator
from ckcnn.inference.loading import save_folder
from ckcnn.nn import CKConv, CKTextNet
from ckcnn.runs import checkpoints

LETTERS = "abcdefgh "


@pytest.fixture
def generator() -> TextGenerator:
    net = CKTextNet(len(LETTERS), 6, 8, partial(CKConv, horizon=20)).double()
    torch.nn.init.normal_(net.embedding.weight)
    return TextGenerator(net, LETTERS)


def write_run(folder: Path, task: str = "language", characters: int = len(VOCABULARY), **more: object) -> Path:
    model = CKCNN(1, characters, task, horizon=30, hidden_channels=4, embedding_channels=5)
    content = {"state_dict": model.state_dict(), "hyper_parameters": dict(model.hparams), **model.artefact(), **more}
    run = folder / "version_0"
    checkpoints.save(content, run / "checkpoints/best-0.ckpt")
    (run / "config.yaml").write_text(
        yaml.safe_dump({"model": {"class_path": "CKCNN"}, "data": {"class_path": "PennTreebank"}})
    )
    return run


@torch.no_grad()
def test_greedy_text_is_that_of_the_whole_sequence(generator: TextGenerator) -> None:
    text = "bad cab"
    for _ in range(60):
        text += LETTERS[int(generator.net(generator.encode(text))[0, :, -1].argmax())]
    assert "".join(generator.generate("bad cab", 60, temperature=0)) == text[7:]
    assert "".join(generator.generate("bad cab", 60, top_k=1)) == text[7:]


def test_a_seed_repeats_the_text(generator: TextGenerator) -> None:
    first, again, other = ("".join(generator.generate("a", 50, seed=seed)) for seed in (0, 0, 1))
    assert first == again != other


def test_characters_are_drawn_by_their_odds() -> None:
    scores = torch.tensor([0.5, 0.3, 0.2]).log()
    counts = {}
    for name, sampler in {"all": Sampler(1.0, None, 0), "two": Sampler(1.0, 2, 0), "cold": Sampler(1e-9, 3, 0)}.items():
        drawn = [int(sampler.draw(scores)) for _ in range(4000)]
        counts[name] = [drawn.count(token) / 4000 for token in range(3)]
    assert counts["all"] == pytest.approx([0.5, 0.3, 0.2], abs=0.03)
    assert counts["two"] == pytest.approx([0.625, 0.375, 0.0], abs=0.03)
    assert counts["cold"] == [1, 0, 0]


def test_a_model_is_read_from_a_run_a_checkpoint_or_an_exported_folder(tmp_path: Path) -> None:
    facts = Preprocessing("Mine", "language", 1, 30, len(LETTERS), 4, vocabulary=LETTERS, spelling={"\n": "ab"})
    run = write_run(tmp_path, characters=len(LETTERS), preprocessing=facts.state())
    save_folder(run, tmp_path / "exported")
    moved = run.rename(tmp_path / "my favourite")
    (tmp_path / "alone").mkdir()
    alone = shutil.copy(moved / "checkpoints/best-0.ckpt", tmp_path / "alone/model.ckpt")
    texts = set()
    for path in (moved, Path(alone), tmp_path / "exported"):
        generator = TextGenerator.of(path)
        assert generator.vocabulary == LETTERS
        assert generator.encode("c\n").tolist() == [[2, 0, 1]]
        texts.add("".join(generator.generate("bad", 20)))
    assert len(texts) == 1
    assert TextGenerator.of(write_run(tmp_path)).vocabulary == VOCABULARY  # of an earlier version


def test_command_writes_prompt_and_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path)
    words = ["generate", "--ckpt_path", str(run), "--prompt", "the company", "--length", "30", "--top_k", "20"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert out.startswith("the company")
    assert len(out) == len("the company") + 30 + 1
    assert "characters per second" in err
    main([*words, "--seed", "0"])
    assert capsys.readouterr().out == out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--prompt", "Ünter"], "never seen the character 'Ü'; it knows"),
        (["--prompt", ""], "the text is empty"),
        (["--temperature", "-1"], "temperature must be 0"),
        (["--temperature", "nan"], "temperature must be 0"),
        (["--top_k", "0"], "top_k must lie in 1 ... 50"),
        (["--top_k", "51"], "top_k must lie in 1 ... 50"),
        (["--seed", "-1"], "seed must lie in 0 ... 2**63 - 1, got -1"),
        (["--seed", "9" * 30], "seed must lie in 0 ... 2**63 - 1"),
        (["--length", "0"], "length must be at least 1"),
        (["--length", "many"], "--length must be a whole number, got 'many'"),
        (["--colour", "red"], "there is no option --colour; see"),
        (["--ckpt_path", "nowhere"], "there is no checkpoint nowhere"),
    ],
)
def test_mistakes_get_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], words: str
) -> None:
    assert main(["generate", "--ckpt_path", str(write_run(tmp_path)), "--prompt", "the", *flags]) == 2
    out, err = capsys.readouterr()
    assert words in err
    assert err.count("\n") == 1
    assert not out


def test_a_classifier_cannot_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path, "classification")
    assert main(["generate", "--ckpt_path", str(run), "--prompt", "the"]) == 2
    assert "is not a language model" in capsys.readouterr().err
