"""The smallest kind of work: about a project alone, and nothing remains of it."""

from pathlib import Path
from typing import ClassVar

import pytest

from storage.catalog import open_catalog
from storage.leases import Lease
from storage.workers.context import WorkContext
from storage.workers.leased_task import AttemptFailed, InputRefused, LeasedTask, TaskEvents
from storage.workers.worker_pool import WorkSource
from tests.support.shared_engines import ON_BOTH
from tests.support.sql import run_sql
from tests.support.storage.leases import ERRAND, queue_errand

NOW = 1_800_000_000_000_000


class Errand(LeasedTask[WorkContext, None]):
    """An attempt that ends as the next of `ends` says."""

    events: ClassVar = TaskEvents(what="errand", begun="sent", failed="refused", given_up="failed")
    spent_reason: ClassVar = "It broke off {} times."
    ends: list[Exception | None]

    async def make(self) -> None:
        end = self.ends.pop(0)
        if end is not None:
            raise end


class Errands(WorkSource[WorkContext]):
    """Leases errands, and keeps what they were."""

    kind: ClassVar = ERRAND

    def __init__(self, context: WorkContext, ends: list[Exception | None]) -> None:
        super().__init__(context)
        self.ends = ends
        self.sent: list[str] = []

    async def do(self, held: Lease) -> None:
        self.sent.append(held.payload)
        task = Errand(self.context, held, project=held.project)
        task.ends = self.ends
        await task.run()


@ON_BOTH
@pytest.mark.parametrize(
    ("ends", "attempts"),
    [
        pytest.param([AttemptFailed("busy"), AttemptFailed("away"), None], 3, id="done at last"),
        pytest.param([AttemptFailed("busy")] * 3, 3, id="failed too often"),
        pytest.param([InputRefused("nobody lives there")], 1, id="refused"),
    ],
)
async def test_an_errand_is_over_once_it_is_done_or_in_vain(
    either_database: str | Path, ends: list[Exception | None], attempts: int
) -> None:
    queue_errand(either_database, 1, NOW)
    clock = [NOW]
    async with open_catalog(either_database, migrate=False) as catalog:
        context = WorkContext(jobs=catalog.jobs, now_us=lambda: clock[0])
        errands = Errands(context, list(ends))
        for failures in range(attempts):
            clock[0] += ERRAND.pause_us(failures) if failures else 0
            held = await errands.lease(f"worker {failures}")
            assert held is not None
            await errands.do(held)
            assert await errands.lease("at once") is None
        assert errands.sent == ["say hello"] * attempts
    assert run_sql(either_database, "SELECT id FROM jobs") == []
