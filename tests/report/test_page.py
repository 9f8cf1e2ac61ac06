"""The page shows what the run folders hold, escapes all of it, and needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ckcnn import CKCNN, results
from ckcnn.__main__ import main
from ckcnn.archive import output as archive
from ckcnn.archive.results import Result
from ckcnn.report.comparisons import by_drop, comparisons
from ckcnn.runs import checkpoints
from tests.small_runs import config, result_of, write_run, write_search

EVIL = "<script>alert('x')</script>\"&"


class Page(HTMLParser):
    """Tags, attributes and visible text of a page; also whether all tags are closed."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))
        assert not self.open
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    def having(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        wanted = {name.replace("_", "-").rstrip("-"): value for name, value in attributes.items()}
        return [found for name, found in self.tags if name == tag and wanted.items() <= found.items()]

    def charts(self) -> list[str | None]:
        return [svg["aria-label"] for svg in self.having("svg")]


def report(folder: Path, *options: str) -> Page:
    output = folder.parent / "report.html"
    assert main(["report", str(folder), "--output", str(output), *options]) == 0
    return Page(output)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    rates = [result_of(0.99, confusion=[[3, 1], [0, 4]], classes=["a", "b"]), result_of(0.9, 4), result_of(0.97, 2)]
    write_run(folder / "letters/version_0", config(), [0.5, 0.9, 0.95], rates)
    write_run(folder / "letters/version_1", config(data__drop_rate=0.3), [0.5], [result_of(0.93, 1, 0.3)])
    write_run(folder / "letters/version_2", config(seed_everything=1), [])
    write_search(folder / "letters_search", [(1.0, 0.5, "complete"), (30.0, 0.9, "complete"), (90.0, 0.4, "pruned")])
    model = CKCNN(3, 5, "classification", 20, hidden_channels=4)
    content = {"state_dict": model.state_dict(), "hyper_parameters": dict(model.hparams), "model_class": "CKCNN"}
    checkpoints.save(content, folder / "letters/version_0/checkpoints/best-002.ckpt")
    return folder


def test_table_has_a_row_for_each_run_with_the_paper_beside_ours(runs: Path) -> None:
    page = report(runs)
    rows = len(page.having("tr")) - 1 - 1 - 2  # two heads, two complete trials
    assert rows == 3
    assert re.search(
        r"letters/version_0 seed 0, drop_rate 0 accuracy 99.00 % 99.53 % -0.53 95.00 % 3 4 s CKCNN [\d,]+ ", page.text
    )
    assert re.search(r"letters/version_2 .* accuracy - 99.53 % - - 0 - CKCNN - -", page.text)
    assert "some processor, 2 cores" in page.text


def test_shows_curves_kernels_confusion_rates_drops_and_the_search(runs: Path) -> None:
    charts = report(runs).charts()
    assert charts[:2] == ["accuracy against the sampling rate of the test", "accuracy against the dropped fraction"]
    assert charts[2] == "val/accuracy against omega_0"
    places = [f"block {block}, convolution {number}" for block in (1, 2) for number in (1, 2)]
    kernels = [*places, "size of all kernels (root of the mean square)"]
    assert charts[3:] == ["loss", "accuracy", "confusion matrix", *kernels, "loss", "accuracy"]


def test_ways_to_tell_what_is_missing_share_the_run_without_gaps(runs: Path) -> None:
    stamped = result_of(0.95, 1, 0.3)
    stamped["data"]["missing"] = "times"
    write_run(runs / "letters/version_3", config(data__drop_rate=0.3), [0.5], [stamped])
    drops = by_drop(results.load(runs).runs)
    assert drops is not None
    assert [line.name for line in drops.lines] == ["CKCNN", "CKCNN, times", "paper"]
    mask, times, paper = ([y for _, y in line.dots] for line in drops.lines)
    assert (len(mask), len(times), len(paper)) == (2, 2, 2)
    assert mask[0] == times[0] < times[1] < mask[1], "up is less on a canvas"


def test_runs_of_one_benchmark_are_compared_whatever_they_are_called(runs: Path) -> None:
    tests = [result_of(0.8), result_of(0.7, 2)]
    write_run(runs / "mine/version_0", config(name="mine", data__train_dt=2), [0.5], tests)
    (only,) = comparisons(results.load(runs).runs)
    assert only.title == "CharacterTrajectories"
    assert [line.name for line in only.charts[0].lines] == ["mine/version_0, trained at 1/2", "letters/version_0"]


SEPARABLE = {"block": "pre_norm_gated", "conv": "depthwise", "window": "channel", "omega_0": "auto"}


def test_networks_of_the_family_are_compared_and_not_averaged(runs: Path) -> None:
    smaller = {"class_path": "ckcnn.CKCNN", "init_args": SEPARABLE}
    write_run(runs / "letters/version_3", config(model=smaller), [0.5], [{**result_of(0.995), "parameters": 48_650}])
    write_run(runs / "letters/version_4", config(seed_everything=1), [0.5], [result_of(0.97)])
    page = report(runs)
    assert "Networks: CharacterTrajectories model" in page.text, "with gaps there is one network, so no table"
    heading = "model parameters runs test accuracy time of an epoch"
    best, other = "CKCNN, separable 48,650 1 99.50 % 2 s", "CKCNN 100,696 1 97.00 % 2 s"
    assert f"{heading} {best} " in page.text
    assert other in page.text
    drops = by_drop(results.load(runs).runs)
    assert drops is not None
    assert "CKCNN, separable" not in [line.name for line in drops.lines], "tested without gaps only"
    assert drops.lines[0].name == "CKCNN, mean of runs"


def test_missing_samples_are_represented_alike_in_a_table_of_networks(runs: Path) -> None:
    for number, missing in enumerate(("mask", "times", "times"), start=3):
        tested = result_of(0.9, drop_rate=0.5, parameters=100_000 + number)
        tested["data"]["missing"] = missing
        write_run(runs / f"letters/version_{number}", config(data__drop_rate=0.5), [0.5], [tested])
    text = report(runs).text
    assert "Networks: CharacterTrajectories, drop_rate 0.5, missing times model" in text
    assert "missing mask model" not in text, "a single network"


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """What `ckcnn reproduce` and `ckcnn reproduce archive` write."""
    folder = tmp_path / "tables"
    folder.mkdir()
    shutil.copy(Path(__file__).parents[2] / "docs/reference/tables/discrete-fast.md", folder)
    archive.write([Result("GunPoint", method, 0, 0.98, 3.0) for method in ("CKCNN", "DTW")], folder)
    return folder


def test_tables_of_the_paper_and_of_the_archive_are_shown(runs: Path, tables: Path) -> None:
    page = report(runs, "--tables", str(tables))
    assert "3 runs, 1 search, 2 tables" in page.text
    assert "Discrete sequences (Tab. 1), with fast.yaml pmnist CKCNN 97.69 % CKCNN, paper 98.00 %" in page.text
    assert "CKCNN DTW GunPoint 98.00 98.00 mean rank (1 problems) 1.50 1.50" in page.text


def test_tables_need_no_runs(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tables.parent)
    assert main(["report"]) == 0
    assert "0 runs, 2 tables" in Page(Path("report.html")).text


@pytest.mark.parametrize("text", ["no table", "# title\n\nno table", "# t\n\n| a | b |\n|---|---|\n| 1 |"])
def test_a_file_that_is_no_table_is_named_and_the_rest_is_shown(runs: Path, tables: Path, text: str) -> None:
    (tables / "notes.md").write_text(text)
    page = report(runs, "--tables", str(tables))
    assert re.search(r"notes.md: (expected a heading and tables|a row of a table)", page.text)
    assert "2 tables" in page.text


def test_the_dashed_line_is_explained_and_numbers_are_rounded(runs: Path) -> None:
    write_run(runs / "letters/version_3", config(model__omega_0=61.05486887627988), [0.5, 0.6], [result_of(0.97)])
    text = report(runs).text
    assert "training best epoch" in text
    assert "pruned trials best trial" in text
    assert "omega_0 61.05 " in text
    assert "61.054" not in text


def test_says_what_is_missing(runs: Path) -> None:
    page = report(runs)
    assert f"not tested yet: ckcnn test --ckpt_path {runs / 'letters/version_2'}" in page.text
    assert "letters/version_1 has no best checkpoint" in page.text
    assert "test it again to see the confusion matrix" in page.text


def test_confusion_counts_every_cell_that_is_not_empty(runs: Path) -> None:
    page = report(runs)
    assert len(page.having("rect", class_="right")) == 2
    assert len(page.having("rect", class_="wrong")) == 1
    assert "a predicted as b: 1" in page.text


def test_everything_is_escaped(runs: Path) -> None:
    evil = write_run(
        runs / f"evil{EVIL.replace('/', '')}/version_0",
        config(name=EVIL, model__omega_0=EVIL, data={"class_path": f"datamodules.{EVIL}"}),
        [0.5],
        [result_of(0.5, confusion=[[1]], classes=[EVIL], machine=EVIL, time=EVIL), result_of(0.4, 2)],
    )
    (evil / "config.yaml").write_text((evil / "config.yaml").read_text().replace("ckcnn.CKCNN", "ckcnn.<b>"))
    broken = write_run(runs / "broken/version_0", config(), [])
    (broken / "results.json").write_text(EVIL)
    page = report(runs, "--title", EVIL)
    assert len(page.having("script")) == 1, "only our own"
    assert not page.having("b")
    assert page.text.count(EVIL) >= 6


def test_the_page_needs_nothing_else(runs: Path) -> None:
    page = report(runs)
    text = (runs.parent / "report.html").read_text()
    names = "http://www.w3.org/2000/svg"  # a namespace is a name, not an address
    assert not re.search(r"https?://|//[a-z]|@import|url\(", text.replace(names, ""))
    assert not [tag for tag, attributes in page.tags if {"src", "style", "onclick", "onload"} & attributes.keys()]
    assert all(link["href"] is not None and link["href"].startswith("#run-") for link in page.having("a"))
    anchors = {found["id"] for _, found in page.tags if found.get("id")}
    assert {str(link["href"])[1:] for link in page.having("a")} <= anchors
    policy = str(page.having("meta", http_equiv="Content-Security-Policy")[0]["content"])
    assert "default-src 'none'" in policy
    for tag in ("style", "script"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy, "a browser would not use it"


def test_a_broken_run_is_told_and_the_rest_is_shown(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (runs / "letters/version_1/results.json").write_text("{")
    (runs / "letters/version_0/checkpoints/best-002.ckpt").write_bytes(b"no checkpoint")
    page = report(runs)
    assert "Not readable" in page.text
    assert f"left out {runs / 'letters/version_1'}: " in capsys.readouterr().out
    assert "best-002.ckpt is not a whole checkpoint" in page.text


def test_each_row_has_what_the_compare_view_needs(runs: Path) -> None:
    (runs / "letters/version_1/metrics.csv").write_text(
        "epoch,val/loss,val/accuracy,time\n0,nan,0.5,1\n1,0.25,0.75,2\n"
    )
    rows = [json.loads(str(row["data-run"])) for row in report(runs).having("tr") if "data-run" in row]
    by_name = {row["name"]: row for row in rows}
    first, second = by_name["letters/version_0"], by_name["letters/version_1"]
    assert [value for _, value in first["curves"]["val/accuracy"]] == [0.5, 0.9, 0.95]
    assert second["curves"]["val/loss"] == [[1, 0.25]], "JSON has no nan"
    assert second["settings"]["drop_rate"] == "0.3" != first["settings"].get("drop_rate")
    assert second["settings"]["test/accuracy"] == "93.00 %"


@pytest.fixture
def dom(tmp_path: Path) -> Callable[[str], str]:
    """The page of five runs in a browser, after its script has run."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium on this machine; apt-get install chromium")
    for number in range(5):
        write_run(tmp_path / f"runs/letters/version_{number}", config(model__omega_0=float(number)), [0.5, 0.6])
    assert len(report(tmp_path / "runs").having("details")) == 5

    def shown(anchor: str) -> str:
        address = (tmp_path / "report.html").as_uri() + anchor
        words = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", "--dump-dom", address]
        return subprocess.run([browser, *words], capture_output=True, text=True, check=True, timeout=120).stdout

    return shown


def test_a_browser_takes_the_script_and_opens_the_run_that_was_clicked(dom: Callable[[str], str]) -> None:
    assert re.findall(r'<details( open="")?>', dom("#run-4")) == ["", "", "", ' open=""', ""]


def test_ticked_runs_are_compared(dom: Callable[[str], str]) -> None:
    page = dom("#compare-2-4")
    view = page[page.index('<section id="compare"') :].split("</section>")[0]
    assert not view.startswith('<section id="compare" hidden')
    assert view.count("<figure>") == 2, "loss and accuracy"
    assert view.count('class="line c') == 4
    assert "<th>omega_0</th><td>1</td><td>3</td>" in view
    assert "dropout" not in view, "the same in both"


@pytest.mark.parametrize("confusion", [[[1, 2]], "no", [[1.5]], [[-1]], {"a": 1}])
def test_an_odd_confusion_matrix_is_told(tmp_path: Path, confusion: object) -> None:
    write_run(tmp_path / "runs/letters/version_0", config(), [0.5], [result_of(0.9, confusion=confusion)])
    assert "the confusion matrix in results.json is not a square of whole numbers" in report(tmp_path / "runs").text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere is not a folder; give the one that holds the runs"),
        (["."], "there is no run in .; ckcnn fit makes run folders"),
        ([".", "--tables", "no"], "--tables must be a folder that ckcnn reproduce has written, got no"),
        ([".", "--output", "report.pdf"], "--output must end in .html or .htm, got report.pdf"),
        ([".", "--output", "no/report.html"], "lies in a folder that does not exist; make it first"),
        ([".", "--outptu", "x.html"], "there is no option --outptu (did you mean --output?); see ckcnn report --help"),
    ],
)
def test_mistakes_are_told_and_nothing_is_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
