"""PhysioNet / CinC Challenge 2019: will a patient in intensive care develop sepsis?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ckcnn.datamodules.base import SequenceDataModule
from ckcnn.datamodules.downloads import Download
from ckcnn.datamodules.readers import list_psv, read_psv_archive
from ckcnn.datamodules.sequences import DataError, RawSequences

_FOLDER = "sepsis2019"
_LONGEST = 10_000  # hours; the longest official stay has 336
_PLACES = (
    "https://physionet.org/static/published-projects/challenge-2019/",
    "https://archive.physionet.org/users/shared/challenge-2019/",
)
_MEASURED = (
    "HR",
    "O2Sat",
    "Temp",
    "SBP",
    "MAP",
    "DBP",
    "Resp",
    "EtCO2",
    "BaseExcess",
    "HCO3",
    "FiO2",
    "pH",
    "PaCO2",
    "SaO2",
    "AST",
    "BUN",
    "Alkalinephos",
    "Calcium",
    "Chloride",
    "Creatinine",
    "Bilirubin_direct",
    "Glucose",
    "Lactate",
    "Magnesium",
    "Phosphate",
    "Potassium",
    "Bilirubin_total",
    "TroponinI",
    "Hct",
    "Hgb",
    "PTT",
    "WBC",
    "Fibrinogen",
    "Platelets",
)
_STATIC = ("Age", "Gender", "Unit1", "Unit2", "HospAdmTime")
_COLUMNS = (*_MEASURED, *_STATIC, "ICULOS", "SepsisLabel")
_CHUNK = 512


class PhysioNet(SequenceDataModule):
    """75 channels by 72 hours: 34 counts of observations, 34 measurements, 5 facts on the patient, 2 flags.

    Which measurements were taken is informative by itself, hence the counts (``missing: counts``, the default). The
    flags say whether the two units were recorded. Patients with fewer than three of the first 72 hours are left out.
    """

    task = "binary"
    channels, length, out_channels = 41, 72, 1
    sizes = (28_233, 6_050, 6_050)  # 40,333 of 40,336: three stays begin after hour 72. The paper counts 40,335
    classes = ("no sepsis", "sepsis")
    channel_names = (*_MEASURED, *_STATIC, "Unit1 recorded", "Unit2 recorded")
    files = (f"{_FOLDER}/training_setA.zip", f"{_FOLDER}/training_setB.zip")
    downloads = tuple(
        Download(tuple(f"{place}training_set{part}.zip" for place in _PLACES), f"{_FOLDER}/training_set{part}.zip")
        for part in "AB"
    )
    homepage = "https://physionet.org/content/challenge-2019/1.0.0/"
    sporadic = len(_MEASURED)
    unscaled = 2
    gaps = True
    padding = "missing"
    default_missing = "counts"

    def load(self) -> Iterator[RawSequences]:
        chunks = [
            (path, names[start : start + _CHUNK])
            for path in map(self.source, self.files)
            for names in [list_psv(path)]
            for start in range(0, len(names), _CHUNK)
        ]
        for path, names in self.track(chunks, "reading patients"):
            tables = read_psv_archive(path, _COLUMNS, names)
            for table, name in zip(tables, names, strict=True):
                _check_table(table, f"{name} in {path}")
            patients = [self._patient(table) for table in tables]
            usable = [patient for patient in patients if patient[2] > 2]
            if usable:
                x, y, lengths = zip(*usable, strict=True)
                yield RawSequences(np.stack(x), np.array(y, dtype=np.int64), lengths=np.array(lengths, dtype=np.int64))

    def _patient(self, table: NDArray[np.float32]) -> tuple[NDArray[np.float32], int, int]:
        """Signals ``(41, 72)`` with NaN in hours without an entry, whether sepsis came, and the number of hours.

        The facts are those of the first row that is too late, or else of the last, as in the reference.
        """
        hours = table[:, _COLUMNS.index("ICULOS")].astype(np.int64)
        late = np.flatnonzero(hours > self.length)
        stop = late[0] if len(late) else len(table)
        kept = table[:stop]
        x = np.full((self.channels, self.length), np.nan, dtype=np.float32)
        if not len(kept):
            return x, 0, 0
        x[: len(_MEASURED), hours[:stop] - 1] = kept[:, : len(_MEASURED)].T
        facts = table[min(stop, len(table) - 1), len(_MEASURED) : len(_MEASURED) + len(_STATIC)]
        x[len(_MEASURED) :] = np.concatenate([np.nan_to_num(facts), ~np.isnan(facts[2:4])])[:, None]
        return x, int(kept[:, -1].max()), int(hours[:stop].max())


def _check_table(table: NDArray[np.float32], name: str) -> None:
    """Hours must be whole numbers from 1, and labels 0 or 1; measurements may be missing, but not infinite."""
    hours, labels = table[:, _COLUMNS.index("ICULOS")], table[:, -1]
    bad = np.flatnonzero(~((hours >= 1) & (hours <= _LONGEST) & (hours == np.floor(hours))))
    if len(bad):
        raise DataError(f"{name}: ICULOS must be a whole hour from 1, got {hours[bad[0]]:g} in row {bad[0]}")
    if len(wrong := np.flatnonzero(~np.isin(labels, (0, 1)))):
        raise DataError(f"{name}: SepsisLabel must be 0 or 1, got {labels[wrong[0]]:g} in row {wrong[0]}")
    if len(infinite := np.argwhere(np.isinf(table))):
        row, column = infinite[0]
        raise DataError(f"{name}: {_COLUMNS[column]} must be a number or NaN, got {table[row, column]:g} in row {row}")
