"""How much more two cores of this machine do than one, at work that has nothing to do with Headend.

Cores that share a cache, or a frequency, do less than twice as much: no two hosts on them can.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from bench.hosts.cores import pinned

# About as much memory as a page of a list takes, made anew each time.
_PYTHON: Final = """
import json
record = {str(number): ["a title of a video", number, None] for number in range(300)}
for _ in range(12_000):
    json.loads(json.dumps(record))
"""


def works(film: Path) -> Mapping[str, Sequence[str]]:
    """Return commands that keep one core busy for seconds, by what they do."""
    encode = ["-c:v", "libx264", "-preset", "veryfast", "-threads", "1", "-an", "-f", "null", "-"]
    return {
        "ffmpeg decodes, scales and encodes a film": [
            "ffmpeg", "-nostdin", "-v", "error", "-threads", "1", "-filter_threads", "1",
            "-i", str(film), "-vf", "scale=1280:720", *encode,
        ],
        "CPython writes and reads JSON": [sys.executable, "-c", _PYTHON],
    }  # fmt: skip


def measure_machine(command: Sequence[str], count: int) -> float:
    """Run a command on each of `count` cores at once; return the seconds until all have ended.

    Raises:
        subprocess.CalledProcessError: one of them has failed.
    """
    start: Callable[[], subprocess.Popen[bytes]] = partial(subprocess.Popen, list(command))
    began = time.monotonic()
    for process in pinned([start] * count):
        if process.wait():
            raise subprocess.CalledProcessError(process.returncode, list(command))
    return time.monotonic() - began
