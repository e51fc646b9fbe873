"""The scheduling of the calling thread, which libraries that the tests call may change."""

import os
from collections.abc import Generator
from contextlib import contextmanager


def priority() -> tuple[int, int]:
    """Return the scheduling policy of this thread, and its niceness."""
    return os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)


@contextmanager
def same_priority() -> Generator[None]:
    """Restore the scheduling policy of this thread after the block.

    SVT-AV1 called by root gives the calling thread the highest real-time priority, which all
    threads and processes that are started later inherit: together they starve the other tests.
    """
    policy, param = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, param)
