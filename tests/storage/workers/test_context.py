"""What work is done with: writes are repeated until the catalog answers."""

import pytest

from storage.errors import CatalogBusy
from storage.leases import Lease
from storage.workers import catalog_retry
from tests.support.storage.leases import held_job, lonely_context


async def test_a_write_is_repeated_for_the_lease_and_at_the_time_of_the_repetition(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(catalog_retry, "_FIRST_PAUSE", 0.001)
    times: list[int] = []

    async def write(lease: Lease, now_us: int) -> int:
        times.append(now_us)
        if len(times) == 1:
            raise CatalogBusy("busy")
        return lease.id

    assert await lonely_context().write(write, held_job(7)) == 7
    assert times[0] < times[1]
    assert [(each.__dict__["job"], each.message) for each in caplog.records] == [
        (7, "catalog not written yet")
    ]
