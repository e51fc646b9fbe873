"""The memory of this process, compared with another report of the kernel."""

import importlib
import mmap
import re
from pathlib import Path

from transcode.engine.core import memory


def kernel_bytes() -> int:
    match = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert match is not None
    return int(match[1]) << 10


def test_it_is_what_the_kernel_reports_and_follows_what_is_taken() -> None:
    # Of this process: what a fork inherits is open for that of its parent.
    resident_bytes = importlib.reload(memory).resident_bytes
    before = resident_bytes()
    # The kernel adds up each thread's newest pages late, in either report.
    assert abs(before - kernel_bytes()) < 8 << 20
    # From the kernel itself: freed memory stays resident, and an allocator may reuse it.
    with mmap.mmap(-1, 64 << 20) as mapping:
        for page in range(0, len(mapping), mmap.PAGESIZE):
            mapping[page] = 1
        assert resident_bytes() - before > 32 << 20
