"""Leases, and the context of work, without a catalog."""

import time

from storage.catalog.jobs.jobs import TRANSCODE, Jobs
from storage.leases import LEASE_US, Lease
from storage.workers.context import WorkContext
from storage.workers.store_health import StoreHealth


def held_job(
    number: int = 1,
    *,
    subject: int = 1,
    attempt: int = 1,
    failures: int = 0,
    lease_us: int = LEASE_US,
) -> Lease:
    """Return the lease of a job, not of a part."""
    return Lease(
        id=number, kind=TRANSCODE, subject=subject, owner="me", attempt=attempt, failures=failures,
        job=number, lease_us=lease_us,
    )  # fmt: skip


def lonely_context(health: StoreHealth | None = None) -> WorkContext:
    """Return a context for work that never asks the catalog."""
    jobs = Jobs.__new__(Jobs)
    return WorkContext(
        jobs=jobs, now_us=lambda: time.time_ns() // 1000, health=health or StoreHealth()
    )
