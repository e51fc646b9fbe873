"""Work that outlives the process that does it: what a job is, and the rules of holding one.

Pure; the statements are in `storage.catalog.videos.jobs` (`enqueue` among them). A worker leases a
job for `LEASE_US`, or as long as it is set to, and extends that each third of it. A worker that
dies stops extending, and the job goes to the next one. Whoever held it before and wakes up again
has lost it: every statement asks for the owner and the attempt, and the attempt rises with each
lease, for good.

A job may have spans, which any worker leases in the same way while the job is open. Whoever holds
the job then makes what is made in one piece, and gives it back to wait for them; the last span that
is done queues the job again, for what is left to do when all is there.

Projects take turns: whoever leases says of which one it leased before, and gets something of the
next one that waits. Within a project what came first goes first.
"""

from typing import Final

import msgspec

from storage.errors import StorageError

__all__ = [
    "HEARTBEAT_SECONDS",
    "LEASE_US",
    "MAX_FAILURES",
    "MAX_LEASE_US",
    "MAX_PAUSE_US",
    "HeldJob",
    "HeldSpan",
    "JobFacts",
    "JobLost",
    "PlannedSpan",
    "SpanLost",
    "pause_us",
]

LEASE_US: Final = 15_000_000
# The most that can be set. Who holds something for longer got it by a clock that has been set back
# since: the worker may be gone, and nobody would wait for a day to know.
MAX_LEASE_US: Final = 600_000_000
# Two may fail before the lease is over: one for a database that is busy, one for a slow disk.
HEARTBEAT_SECONDS: Final = 5.0
# Three workers that died over the same file, or three disks that were full: a fourth try would not
# cure it, and the owner should know.
MAX_FAILURES: Final = 3
_FIRST_PAUSE_US: Final = 5_000_000


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a job remembers from one attempt to the next.

    `failures` counts the attempts that ended badly through no fault of the file: workers that died,
    disks that were full. An attempt that was given back is none.
    """

    failures: int = 0


class HeldJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that a worker has leased; `owner` is the lease's own random name.

    Each beat makes it the worker's for `lease_us` more.
    """

    id: int
    video: int
    owner: str
    attempt: int
    failures: int
    lease_us: int = LEASE_US
    project: int = 0

    @property
    def spent(self) -> bool:
        """Whether it failed so often that it is not to be tried again, but ended."""
        return self.failures >= MAX_FAILURES


class PlannedSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of a video that is to be made apart; `number` counts from 1 in a job.

    `cost` is what it is to take beside the others, `facts` is JSON for whoever makes it.
    """

    number: int
    cost: int
    facts: str


class HeldSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A span that a worker has leased, as a job is, and the video it belongs to."""

    id: int
    job: int
    video: int
    hash: str
    source: str
    generation: int
    number: int
    owner: str
    attempt: int
    failures: int
    cost: int
    facts: str
    lease_us: int = LEASE_US
    project: int = 0

    @property
    def spent(self) -> bool:
        """Whether it failed so often that it is not to be tried again, but ended."""
        return self.failures >= MAX_FAILURES


class JobLost(StorageError):
    """The job is not the worker's any more: its lease was over, or the video is gone."""

    def __init__(self, job: HeldJob) -> None:
        super().__init__(f"job {job.id} is not held any more")
        self.job = job


class SpanLost(StorageError):
    """The span is not the worker's any more: its lease was over, or its job has ended."""

    def __init__(self, span: HeldSpan) -> None:
        super().__init__(f"span {span.number} of job {span.job} is not held any more")
        self.span = span


def pause_us(failures: int) -> int:
    """Return how long a job waits after its `failures`-th failure: 5 s, 20 s, 80 s."""
    return int(_FIRST_PAUSE_US * 4 ** max(0, failures - 1))


# Who is told to wait for longer was told so by a clock that has been set back since.
MAX_PAUSE_US: Final = pause_us(MAX_FAILURES)
