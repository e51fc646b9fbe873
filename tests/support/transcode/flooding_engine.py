"""An engine that reports without an end, as one that a hostile file controls, and its parent's use
of memory.

It is a process of its own that writes to the pipe; it speaks the protocol and does nothing else.
"""

import gc
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

import pytest

from transcode.protocol.messages import EngineReport, pack

MIB = 1 << 20
_SOURCE = """#!{python} -I
import os
def write(data):
    data = memoryview(data)
    while data:
        data = data[os.write({descriptor}, data):]
write(open({first!r}, "rb").read())
repeated = open({repeated!r}, "rb").read()
repeated *= max(1, (1 << 20) // max(1, len(repeated)))
while repeated:
    write(repeated)
"""


def flood_engines(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    repeated: Iterable[EngineReport] | bytes,
    *,
    first: Iterable[EngineReport] = (),
    descriptor: int = 1,
) -> None:
    """Make all engines report `first`, and then `repeated` again and again until they are ended.

    They write to `descriptor`: 1 is where reports go, 2 standard error.
    """
    data = repeated if isinstance(repeated, bytes) else b"".join(map(pack, repeated))
    (folder / "repeated").write_bytes(data)
    (folder / "first").write_bytes(b"".join(map(pack, first)))
    script = folder / "flood"
    script.write_text(
        _SOURCE.format(
            python=sys.executable,
            descriptor=descriptor,
            first=str(folder / "first"),
            repeated=str(folder / "repeated"),
        )
    )
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))


class MemoryGrowth:
    """By how much this process's memory grew at its peak, in bytes; 0 until it was measured."""

    def __init__(self) -> None:
        self.peak = 0


@contextmanager
def measured_growth() -> Generator[MemoryGrowth]:
    """Measure the growth of this process's memory within the block."""
    growth = MemoryGrowth()
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is used now
    before = _status("VmRSS")
    yield growth
    growth.peak = _status("VmHWM") - before


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{name}:"))
    return int(line.split()[1]) << 10
