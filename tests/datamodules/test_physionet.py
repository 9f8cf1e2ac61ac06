from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from ckcnn.datamodules import DataError, PhysioNet
from ckcnn.datamodules.physionet import _COLUMNS
from tests.datamodules.official import SEPSIS, psv_text, write_sepsis


def _ready(root: Path, **options: object) -> PhysioNet:
    module = PhysioNet(root=root, **options)
    module.prepare_data()
    module.setup()
    return module


def _table(rows: dict[int, dict[str, float]]) -> str:
    """A patient: what is given at each hour, NaN elsewhere."""
    facts = {"Age": 50, "Gender": 1, "HospAdmTime": -3, "SepsisLabel": 0}
    lines = ["|".join(_COLUMNS)]
    for hour, row in rows.items():
        values = {**dict.fromkeys(_COLUMNS, "NaN"), **facts, "ICULOS": hour, **row}
        lines.append("|".join(str(values[column]) for column in _COLUMNS))
    return "\n".join(lines) + "\n"


def _write(root: Path, patients: list[str]) -> None:
    (root / SEPSIS).mkdir(parents=True)
    for part, some in (("A", patients), ("B", [_table({1: {}, 2: {}, 3: {"SepsisLabel": 1}})] * 40)):
        with zipfile.ZipFile(root / SEPSIS / f"training_set{part}.zip", "w") as zipped:
            for number, text in enumerate(some):
                zipped.writestr(f"training/p{number:06d}.psv", text)


def test_rows_follow_the_hours_and_counts_add_up(tmp_path: Path) -> None:
    patient = _table({2: {"HR": 80}, 3: {"HR": 90, "WBC": 7}, 5: {"SepsisLabel": 1}, 73: {"Age": 51, "HR": 1}})
    _write(tmp_path, [patient] * 40)
    module = _ready(tmp_path, standardise="none")
    assert int(module._store.lengths[0]) == 5
    assert int(module._store.y[0]) == 1
    x = module.dataset("train").pipeline(module._store.rows(torch.tensor([0]))).x[0]
    rate, white = _COLUMNS.index("HR"), _COLUMNS.index("WBC")
    assert x.shape == (75, 72)
    assert x[rate, :6].tolist() == [0, 1, 2, 2, 2, 2]
    assert x[white, :4].tolist() == [0, 0, 1, 1]
    assert x[34 + rate, :6].tolist() == [0, 80, 90, 0, 0, 0]
    assert not x[34:68, 5:].any()  # hour 73 is not read
    assert (x[68] == 51).all()  # but the facts are those of the row that ended the reading
    assert x[68:, 0].tolist() == [51, 1, 0, 0, -3, 0, 0]


def test_units_have_flags_that_are_never_standardised(tmp_path: Path) -> None:
    known = _table({hour: {"Unit1": 1, "Unit2": 0} for hour in (1, 2, 3)})
    _write(tmp_path, [known] * 40)
    module = _ready(tmp_path)
    x = module.dataset("train").pipeline(module._store.rows(torch.tensor([0, 79]))).x
    assert torch.allclose(x[0, 73:], torch.ones(2, 72))
    assert torch.allclose(x[1, 73:], torch.zeros(2, 72))


def test_short_stays_are_left_out(tmp_path: Path) -> None:
    short = [_table({1: {}, 2: {}}), _table({80: {}, 81: {}, 82: {}})]
    _write(tmp_path, [*short, *[_table({1: {}, 2: {}, 3: {}})] * 40])
    assert _ready(tmp_path)._store.shape[0] == 80


def test_unpacked_folders_are_read(tmp_path: Path) -> None:
    write_sepsis(tmp_path)
    zipped = _ready(tmp_path, cache=tmp_path / "a")
    for part in "AB":
        path = tmp_path / SEPSIS / f"training_set{part}.zip"
        with zipfile.ZipFile(path) as archive:
            archive.extractall(path.with_suffix(""))
        path.unlink()
    folder = _ready(tmp_path, cache=tmp_path / "b")
    assert torch.equal(folder._store.x.nan_to_num(), zipped._store.x.nan_to_num())


def _expect(root: Path, *words: str) -> None:
    with pytest.raises(DataError) as caught:
        PhysioNet(root=root).prepare_data()
    for word in words:
        assert word in str(caught.value)
    assert not list((root / "cache").glob("*.h5*"))


def test_a_zip_that_is_not_one(tmp_path: Path) -> None:
    write_sepsis(tmp_path)
    path = tmp_path / SEPSIS / "training_setB.zip"
    path.write_bytes(b"<html>404</html>")
    _expect(tmp_path, str(path), "not a whole zip file")


def test_missing_column(tmp_path: Path) -> None:
    columns = tuple(column for column in _COLUMNS if column != "Lactate")
    text = psv_text([1, 2, 3], np.random.default_rng(0), sepsis=False, columns=columns)
    _write(tmp_path, [text])
    _expect(tmp_path, "p000000.psv", "training_setA.zip", "has no column Lactate")


def test_text_in_a_column(tmp_path: Path) -> None:
    _write(tmp_path, [_table({1: {"HR": "fast"}})])  # type: ignore[dict-item]
    _expect(tmp_path, "p000000.psv", "must be a table of numbers")


def test_real_files_quickly(real_data: Path, tmp_path: Path) -> None:
    """The first patients of both zips."""
    (tmp_path / SEPSIS).mkdir()
    for part in "AB":
        with (
            zipfile.ZipFile(real_data / SEPSIS / f"training_set{part}.zip") as whole,
            zipfile.ZipFile(tmp_path / SEPSIS / f"training_set{part}.zip", "w") as some,
        ):
            for name in whole.namelist()[:300]:
                some.writestr(name, whole.read(name))
    module = _ready(tmp_path)
    assert module._store.shape == (600, 41, 72)
    batch = module.dataset("train").__getitems__(range(420))
    assert batch.x.shape == (420, 75, 72)
    assert (batch.x[:, :34].diff(dim=-1) >= 0).all()
    assert float(batch.x[:, :34].max()) <= 72


@pytest.mark.slow
def test_real_files(real_data: Path, real_cache: Path) -> None:
    module = _ready(real_data, cache=real_cache)
    assert module._store.shape[0] == 40_333
    assert {name: len(rows) for name, rows in module.splits.items()} == {"train": 28_233, "val": 6_050, "test": 6_050}
    assert float(module._store.y.float().mean()) == pytest.approx(0.054, abs=0.002)
    observed = ~module._store.x[:, :34].isnan()
    assert float(observed.float().mean()) == pytest.approx(0.103, abs=0.003)  # as the paper counts
