"""The table of shared options is the signature of the data modules."""

from __future__ import annotations

import inspect

from ckcnn.data_options import CHANGES_TIME, OPTIONS, PLACES, TREATMENTS
from ckcnn.datamodules import SequenceDataModule


def test_the_table_has_every_shared_option_with_its_default() -> None:
    signature = inspect.signature(SequenceDataModule.__init__).parameters
    assert {name: entry.default for name, entry in signature.items() if name != "self"} == {
        name: option.default for name, option in OPTIONS.items()
    }


def test_an_option_that_says_where_data_lies_changes_nothing() -> None:
    assert not set(PLACES) & {*TREATMENTS, *CHANGES_TIME}
