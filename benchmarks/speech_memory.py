"""Memory for preparing and reading 35,000 clips of Speech Commands: ``python -m benchmarks.speech_memory [CLIPS]``.

The clips are noise in the official layout. One process prepares the cache, a second one reads a whole epoch; each
prints its peak, which should stay below 1.5 GB.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

_LIMIT = 1.5e9  # bytes
_DIFFERENT = 50  # clips of each word that are written, the others are links to them


def main(clips: int) -> int:
    """Write the clips, measure both steps, and return 1 if one of them needs too much."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_clips(root, clips)
        peaks = []
        for step in ("prepare", "read"):
            command = [sys.executable, "-m", "benchmarks.speech_memory", step, str(root)]
            answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            peaks.append(int(answer[0]))
            print(f"{step}: {peaks[-1] / 1e9:.2f} GB, {float(answer[1]):.1f} s")
    return int(max(peaks) > _LIMIT)


def write_clips(root: Path, clips: int) -> None:
    """Noise of one second at 16 kHz, equally many clips of each of the ten words."""
    import soundfile

    from ckcnn.datamodules.speech_commands import TEN_WORDS

    random = np.random.default_rng(0)
    for number, word in enumerate(TEN_WORDS):
        folder = root / "SpeechCommands" / "speech_commands_v0.02" / word
        folder.mkdir(parents=True)
        for clip in range(number, clips, len(TEN_WORDS)):
            path = folder / f"{clip:08x}_nohash_0.wav"
            if clip < _DIFFERENT * len(TEN_WORDS):
                soundfile.write(path, random.integers(-9999, 9999, 16_000, dtype=np.int16), 16_000, subtype="PCM_16")
            else:
                os.link(folder / f"{clip % (_DIFFERENT * len(TEN_WORDS)):08x}_nohash_0.wav", path)


def measure(step: str, root: str) -> None:
    """Prepare, or read all splits once; print the peak in bytes and the seconds."""
    from ckcnn.datamodules import SpeechCommands

    start = time.perf_counter()
    module = SpeechCommands(root=root)
    module.prepare_data()
    if step == "read":
        module.setup()
        loaders = (module.train_dataloader(), module.val_dataloader(), module.test_dataloader())
        seen = sum(len(batch.x) for loader in loaders for batch in loader)
        if seen != sum(map(len, module.splits.values())):
            raise RuntimeError(f"only {seen} clips were read")
    print(_peak_bytes(), time.perf_counter() - start)


def _peak_bytes() -> int:
    """The most memory that this program had; `resource` would count that of the process that started it, too."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        measure(*sys.argv[1:])
    else:
        sys.exit(main(int(sys.argv[1]) if len(sys.argv) == 2 else 35_000))
