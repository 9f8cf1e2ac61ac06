from __future__ import annotations

import pytest
import torch

from ckcnn.datamodules.threads import one_thread


def test_the_number_of_threads_comes_back() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
        with pytest.raises(RuntimeError, match="anything"), one_thread():
            raise RuntimeError("anything")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
