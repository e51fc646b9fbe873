"""What is wrong with a machine: told when it begins, once a day while it lasts, and not after."""

from media.alerts import AlertKind
from media.ticks import DAY_US, MICROSECONDS
from storage.catalog import Catalog
from storage.catalog.records.alerts import INSTALLATION
from storage.catalog.records.common import StreamRecord
from tests.support.shared_engines import ON_BOTH

NOW = 1_800_000_000_000_000
HOUR_US = 3600 * MICROSECONDS
DISK = AlertKind.DISK


async def waiting(catalog: Catalog) -> int:
    return (await catalog.mailings.find_state(INSTALLATION)).waiting


@ON_BOTH
async def test_it_is_told_once_a_day_while_it_lasts(catalog: Catalog, stream: StreamRecord) -> None:
    conditions = catalog.conditions
    for hour in range(49):
        now_us = NOW + hour * HOUR_US
        await conditions.begin(DISK, "one", f"hour {hour}", now_us, lapses_us=now_us + 2 * HOUR_US)
        await conditions.tell_due(now_us)
    assert await waiting(catalog) == 3
    bundle = await catalog.mailings.lease_due("x", NOW + 50 * HOUR_US)
    assert bundle is not None
    assert [each.facts for each in bundle.alerts] == [
        {"text": "hour 0"}, {"text": "hour 24"}, {"text": "hour 48"},
    ]  # fmt: skip
    await conditions.end(DISK, "one")
    await conditions.end(DISK, "one")
    assert await conditions.tell_due(NOW + 60 * HOUR_US) == 0


async def test_those_of_two_hosts_are_told_apart(catalog: Catalog, stream: StreamRecord) -> None:
    await catalog.conditions.begin(DISK, "one", "a", NOW)
    await catalog.conditions.begin(DISK, "two", "b", NOW)
    assert await catalog.conditions.tell_due(NOW) == 2
    assert await catalog.conditions.tell_due(NOW + 1) == 0


async def test_that_of_a_host_that_is_gone_is_forgotten(
    catalog: Catalog, stream: StreamRecord
) -> None:
    await catalog.conditions.begin(DISK, "one", "a", NOW, lapses_us=NOW + HOUR_US)
    assert await catalog.conditions.tell_due(NOW) == 1
    assert await catalog.conditions.tell_due(NOW + DAY_US) == 0
    await catalog.conditions.begin(DISK, "one", "a", NOW + DAY_US, lapses_us=NOW + 2 * DAY_US)
    assert await catalog.conditions.tell_due(NOW + DAY_US) == 1


@ON_BOTH
async def test_what_is_not_done_in_time_is_told_without_anyone_to_find_it(
    catalog: Catalog, stream: StreamRecord
) -> None:
    conditions, backup = catalog.conditions, AlertKind.BACKUP
    for day in range(3):
        now_us = NOW + day * DAY_US
        assert await conditions.tell_due(now_us) == 0
        await conditions.put_off(backup, "to", "no backup for a week", now_us + 7 * DAY_US)
    assert await conditions.tell_due(NOW + 9 * DAY_US - 1) == 0
    assert await conditions.tell_due(NOW + 9 * DAY_US) == 1
    await conditions.put_off(backup, "to", "no backup for a week", NOW + 16 * DAY_US)
    assert await conditions.tell_due(NOW + 11 * DAY_US) == 0
    await conditions.begin(backup, "to", "the backup failed", NOW + 12 * DAY_US)
    assert await conditions.tell_due(NOW + 12 * DAY_US) == 1


async def test_a_clock_that_was_ahead_delays_nothing(
    catalog: Catalog, stream: StreamRecord
) -> None:
    await catalog.conditions.begin(DISK, "one", "a", NOW)
    assert await catalog.conditions.tell_due(NOW + 400 * DAY_US) == 1
    assert await catalog.conditions.tell_due(NOW + 1) == 1
