"""How much work Python code does, as a number of calls: no other load on the machine changes it."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass
class CallCount:
    calls: int = 0


@contextmanager
def counted_calls() -> Generator[CallCount]:
    """Count what this thread calls within the block, whether written in Python or in C."""
    count = CallCount()

    def note(_frame: FrameType, event: str, _of: object) -> None:
        if event in {"call", "c_call"}:
            count.calls += 1

    sys.setprofile(note)
    try:
        yield count
    finally:
        sys.setprofile(None)
