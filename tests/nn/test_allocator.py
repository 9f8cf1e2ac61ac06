"""`keep_memory` really ends the page faults of large tensors that come and go."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys, torch
from ckcnn.nn import keep_memory
if sys.argv[1] == "keep":
    assert keep_memory()
for step in range(20):
    if step == 5:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(9_000_000).add(1)  # 36 MB: above 32 MB by default always fresh from the system
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the setting is one of glibc")
def test_kept_memory_is_used_again() -> None:
    faults = {}
    for mode in ("keep", "default"):
        command = [sys.executable, "-c", PROGRAM, mode]
        faults[mode] = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert faults["keep"] < 0.05 * faults["default"]
