"""Run folders, read: the settings of a run, its epochs, its tests and its network."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckcnn import presets
from ckcnn.checks.hints import in_short
from ckcnn.data_options import OPTIONS
from ckcnn.results.family import network_name
from ckcnn.results.metrics import known_metric, known_mode, told_metric
from ckcnn.results.searches import Search
from ckcnn.runs import metrics_table
from ckcnn.runs.folder import RunFolder
from ckcnn.runs.ranking import Mode, rank

if TYPE_CHECKING:
    from ckcnn.nn import CKNet, CKTextNet
    from ckcnn.nn.forecast import FromLastValue


_MOST_FOLDERS = 20_000
_DEEPEST = 60  # a link may lead back to a folder above it


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        folder: where it lies.
        name: where it lies in the folder that was loaded, such as ``pmnist/version_0``.
        config: all its settings.
        epochs: one row for each epoch, by the columns of ``metrics.csv``.
        tests: what ``ckcnn test`` wrote, the newest first.
    """

    folder: RunFolder
    name: str
    config: Mapping[str, Any] = field(repr=False)
    epochs: Sequence[Mapping[str, float]] = field(repr=False)
    tests: Sequence[Mapping[str, Any]] = field(repr=False)

    @classmethod
    def read(cls, folder: RunFolder, name: str | None = None) -> Run:
        """Read a run folder.

        Raises:
            ValueError: if a file in it is broken; the message names it.
        """
        config = presets.load(folder.config)
        _check_config(config, folder.config)
        name = name or f"{folder.path.absolute().parent.name}/{folder.path.name}"
        return cls(folder, name, config, _epochs(folder.metrics), _tests(folder.results))

    @property
    def preset(self) -> str:
        """The benchmark or preset of the run."""
        return str(self.config.get("name") or self.folder.path.absolute().parent.name)

    @property
    def model(self) -> str:
        """The model, such as ``GRU``, ``CKCNN`` or, for a network of the family, ``CKCNN, separable``."""
        model = self.config.get("model") or {}
        return network_name(str(model.get("class_path", "?")).rpartition(".")[2], model.get("init_args") or {})

    @property
    def benchmark(self) -> str:
        """The data set, such as ``CopyMemory, length 200``, whatever its sampling rate or augmentation."""
        data = self.config.get("data") or {}
        own = {name: value for name, value in (data.get("init_args") or {}).items() if name not in OPTIONS}
        own.pop("augment", None)  # it changes training alone
        options = {name: value for name, value in own.items() if value}
        words = [name if value is True else f"{name} {value}" for name, value in options.items()]
        return ", ".join([str(data.get("class_path", "?")).rpartition(".")[2], *words])

    def setting(self, key: str, default: Any = None) -> Any:
        """A setting by its name on the command line, such as ``data.drop_rate`` or ``model.omega_0``."""
        part, _, name = key.partition(".")
        group = self.config.get(part)
        inner = group.get("init_args", group) if isinstance(group, Mapping) else {}
        value = inner.get(name) if name else group
        return default if value is None else value

    @property
    def metric(self) -> str | None:
        """The metric that says how good the run is, such as ``accuracy``."""
        if told := told_metric(self.config):
            return told[0]
        tested = self.tests[0]["metrics"] if self.tests else {}
        measured = known_metric([*(self.epochs[0] if self.epochs else ()), *tested])
        return measured or known_metric(self.config.get("paper") or {})

    @property
    def mode(self) -> Mode:
        """Whether a good value of the metric is large or small."""
        told = told_metric(self.config)
        return told[1] if told else known_mode(self.metric)

    @property
    def test(self) -> Mapping[str, Any] | None:
        """The newest test on data like that of training; if there is none, the newest one."""
        drop_rate = self.setting("data.drop_rate", 0.0)
        alike = [t for t in self.tests if t["data"]["dt"]["test"] == 1 and t["data"]["drop_rate"] == drop_rate]
        return next(iter(alike or self.tests), None)

    @property
    def score(self) -> float | None:
        """The value of the metric in the test."""
        return self.test["metrics"].get(f"test/{self.metric}") if self.test else None

    @property
    def paper(self) -> float | None:
        """What the paper reports of it."""
        known = (self.test or {}).get("paper") or self.config.get("paper") or {}
        return known.get(f"test/{self.metric}")

    @property
    def best(self) -> Mapping[str, float] | None:
        """The best epoch: the best value on the validation split; of equal ones the smallest loss."""
        column, mode = f"val/{self.metric}", self.mode
        rows = (row for row in self.epochs if column in row)
        return min(rows, key=lambda row: rank(row[column], row.get("val/loss", 0.0), mode), default=None)

    @property
    def seconds(self) -> float:
        """How long its epochs took."""
        return sum(row.get("seconds", 0.0) for row in self.epochs)

    def network(self) -> CKNet | CKTextNet | FromLastValue:
        """The network of the best checkpoint; see `ckcnn.results.learned.network`."""
        from ckcnn.results.learned import network  # torch takes its time

        return network(self.folder)


@dataclass(frozen=True)
class Results:
    """Everything in a folder.

    Attributes:
        runs: all runs but the trials of searches, by name.
        searches: all searches, by name.
        broken: what could not be read, by path, and why.
    """

    runs: list[Run]
    searches: list[Search]
    broken: dict[Path, str]


def load(folder: str | Path) -> Results:
    """Read the runs and searches in a folder and in the folders below it.

    Raises:
        ValueError: if there are none.
    """
    top = Path(folder)
    if not top.is_dir():
        raise ValueError(f"{top} is not a folder; give the one that holds the runs, usually runs")
    runs, searches, broken = [], [], {}
    for path in _find(top, [_MOST_FOLDERS]):
        name = str(path.relative_to(top)) if path != top else path.absolute().name
        try:
            if path.name == "search.csv":
                searches.append(Search.read(path, str(Path(name).parent) if Path(name).parent.name else None))
            else:
                runs.append(Run.read(RunFolder(path), name if path.parent != top and path != top else None))
        except (ValueError, OSError) as error:
            broken[path] = str(error)
    if not runs and not searches and not broken:
        raise ValueError(f"there is no run in {top}; ckcnn fit makes run folders such as runs/digits/version_0")
    return Results(runs, searches, broken)


def _find(top: Path, left: list[int]) -> Iterator[Path]:
    """Run folders and tables of searches, in the order of their names; trials belong to their search.

    Args:
        top: where to look.
        left: how many more folders to look into, so that nobody waits for a whole disk.
    """
    if len(top.parts) > _DEEPEST:
        return
    left[0] -= 1
    if left[0] < 0:
        raise ValueError(f"there are more than {_MOST_FOLDERS:,} folders to look into; give the one with the runs")
    if (top / "search.csv").is_file():
        yield top / "search.csv"
        return
    if RunFolder.of(top) == RunFolder(top):
        yield top
        return
    try:
        inner = sorted((path for path in top.iterdir() if path.is_dir()), key=_natural)
    except OSError:  # of another user, or gone meanwhile
        return
    for path in inner:
        yield from _find(path, left)


def _natural(path: Path) -> list[tuple[int, str]]:
    """Sort ``version_10`` after ``version_9``."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path.name)]


def _check_config(config: Mapping[str, Any], path: Path) -> None:
    """Check the settings used to compare runs, because files may have been edited."""
    for key, least in (("data.train_dt", 1.0), ("data.drop_rate", 0.0)):
        value = presets.value_of(config, key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value >= least):
            raise ValueError(f"{path}: {key} must be a number of at least {least:g}, got {in_short(value)}")


def _epochs(path: Path) -> list[dict[str, float]]:
    try:
        return [{name: float(value) for name, value in row.items() if value} for row in metrics_table.read(path)]
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is not a table of epochs as ckcnn fit writes it: {type(error).__name__}") from None


def _tests(path: Path) -> list[dict[str, Any]]:
    """Return all tests in a ``results.json``, with the fields in use checked."""
    if not path.is_file():
        return []
    try:
        newest = json.loads(path.read_text(encoding="utf-8"))
        tests = [newest, *newest.pop("earlier", [])]
        for test in tests:
            test["metrics"] = {str(name): float(value) for name, value in test["metrics"].items()}
            steps = {split: float(step) for split, step in test["data"]["dt"].items()}
            test["data"] |= {"dt": {"test": steps["test"], **steps}, "drop_rate": float(test["data"]["drop_rate"])}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
        raise ValueError(f"{path} was not written by ckcnn test, or changed since: {error}") from None
    return tests
