"""Work that outlives the process that does it: its facts and the rules of leasing it.

Pure; the statements are in `storage.catalog.jobs`, and what a worker does in `storage.workers`. A
worker leases a job for `LEASE_US`, or for the time that is set, and extends the lease every third
of that time. A worker that dies stops extending, and the job passes to the next one. A worker whose
lease has passed on has lost the job: every statement checks the owner and the attempt, and the
attempt number rises with each lease and never falls.

A job may have parts, which any worker leases in the same way while the job is open. The worker that
holds the job produces what cannot be split, then returns the job to wait for its parts. The last
part that is done queues the job again for the final steps.

Projects take turns: a worker passes the project that it leased from before, and gets work of the
next project that has some. Within a project, work is leased in the order of its arrival.

What differs from one kind to another is its `WorkKind`, which is declared with what queues it.
"""

from typing import Final

import msgspec

from media.ticks import MICROSECONDS
from storage.errors import StorageError

LEASE_US: Final = 15_000_000
# The longest lease that can be set. A lease with more time left was made before the clock was set
# back, and is treated as over: its worker may be gone.
MAX_LEASE_US: Final = 600_000_000
# Two extensions may fail before the lease is over: one for a busy database, one for a slow disk.
HEARTBEAT_SECONDS: Final = 5.0
# A pause that is longer than any of its kind by this much was set before the clock was set back.
_SPARE_PAUSE_US: Final = 60 * MICROSECONDS


class WorkKind(msgspec.Struct, frozen=True):
    """A kind of work: the name in its rows, and the seconds that it waits after each failure.

    One failure more than there are `pauses` ends it: after three workers that died over the same
    file, or three full disks, a fourth attempt would not help, and the owner should know. `is_part`
    if it is leased as a part of a job.
    """

    name: str
    pauses: tuple[int, ...] = (5, 20)
    is_part: bool = False

    @property
    def most_failures(self) -> int:
        """The number of failures that ends work."""
        return len(self.pauses) + 1

    def pause_us(self, failures: int) -> int:
        """Return how long work waits after its `failures`-th failure."""
        return self.pauses[min(failures, len(self.pauses)) - 1] * MICROSECONDS

    @property
    def endless_pause_us(self) -> int:
        """The pause from which on one is treated as over."""
        return max(self.pauses, default=0) * MICROSECONDS + _SPARE_PAUSE_US


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The state that a job keeps from one attempt to the next.

    `failures` counts the attempts that failed through no fault of the file, such as workers that
    died and full disks. An attempt that was returned does not count.
    """

    failures: int = 0


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """Work of a `kind` that a worker has leased; `owner` is a random name of this lease.

    `subject` is the number of the video that the work is about, or of the project where it is about
    none. `part` counts the parts of the job numbered `job` from 1, and is 0 for a job itself. Each
    heartbeat extends the lease to `lease_us` from then. `payload` is what else was queued.
    """

    id: int
    kind: WorkKind
    subject: int
    owner: str
    attempt: int
    failures: int
    job: int
    part: int = 0
    lease_us: int = LEASE_US
    project: int = 0
    payload: str = ""

    @property
    def spent(self) -> bool:
        """True once it has failed so often that it is to be ended instead of tried again."""
        return self.failures >= self.kind.most_failures

    @property
    def facts(self) -> dict[str, object]:
        """What log events say of it."""
        return {"job": self.job, "attempt": self.attempt}


class LeaseLost(StorageError):
    """The worker no longer holds the lease: it ended, or what the work was for is gone."""

    def __init__(self, lease: Lease) -> None:
        part = f"part {lease.part} of " if lease.part else ""
        super().__init__(f"{part}job {lease.job} is not held any more")
        self.lease = lease
