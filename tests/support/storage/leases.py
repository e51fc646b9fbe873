"""Leases and the context of work without a catalog; work about a project alone, in one."""

import time
from pathlib import Path

from storage.catalog.jobs.jobs import Jobs
from storage.catalog.videos.jobs import TRANSCODE
from storage.leases import LEASE_US, Lease, WorkKind
from storage.workers.context import WorkContext
from storage.workers.store_health import StoreHealth
from tests.support.sql import run_sql

# A kind that is about no video, and patient.
ERRAND = WorkKind("errand", (60, 3600))


def queue_errand(location: str | Path, project: int, now_us: int = 1) -> None:
    """Queue an errand for a project."""
    run_sql(
        location,
        "INSERT INTO jobs (kind, project_id, payload, state, attempt, run_after_us, facts,"
        f" created_us, updated_us) VALUES ('{ERRAND.name}', {project}, 'say hello', 'queued', 0,"
        f" {now_us}, '{{}}', {now_us}, {now_us})",
    )


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
