"""The memory of this process, against what the kernel says of it elsewhere."""

import mmap
import re
from pathlib import Path

from transcode.engine.core.memory import resident_bytes


def kernel_bytes() -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) << 10


def test_it_is_what_the_kernel_reports_and_follows_what_is_taken() -> None:
    before = resident_bytes()
    # The kernel adds up each thread's newest pages late, in either report.
    assert abs(before - kernel_bytes()) < 8 << 20
    # Of the kernel itself: what a process has freed stays resident, and may be what it gets.
    with mmap.mmap(-1, 64 << 20) as taken:
        for page in range(0, len(taken), mmap.PAGESIZE):
            taken[page] = 1
        assert resident_bytes() - before > 32 << 20
