"""Hosts register, are seen, and leave; what they leave behind is removed."""

from pathlib import Path

from storage.catalog import Catalog
from storage.catalog.records.common import Change, ProjectRecord
from storage.wall_clock import wall_clock_us
from tests.support.shared_engines import ON_BOTH
from tests.support.sql import run_sql

DEAD = 60.0  # seconds: no test takes as long
SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US


async def register(catalog: Catalog, name: str = "a", address: str | None = None) -> int:
    return await catalog.hosts.register(name, "ingest", address, "1.0")


def last_seen(location: str | Path, host: int, *, ago_us: int) -> None:
    """Mark a host as last seen that long ago."""
    run_sql(location, f"UPDATE hosts SET seen_us = seen_us - {ago_us} WHERE id = {host}")


async def test_a_host_is_found_with_the_facts_that_it_registered(catalog: Catalog) -> None:
    before_us = wall_clock_us()
    number = await catalog.hosts.register("b", "serve", "10.0.0.1:1937", "2.1")
    other = await register(catalog)
    await catalog.owners.claim(7, number, dead_seconds=DEAD)
    await catalog.owners.claim(8, number, dead_seconds=DEAD)
    first, second = await catalog.hosts.find_all(DEAD)
    assert (first.id, first.name, first.address, first.streams) == (other, "a", None, 0)
    assert (second.id, second.name, second.role, second.address, second.version) == (
        number, "b", "serve", "10.0.0.1:1937", "2.1",
    )  # fmt: skip
    assert (second.alive, second.streams) == (True, 2)
    # The database of the test is on this host; SQLite counts milliseconds.
    assert before_us - 2_000 <= second.started_us <= wall_clock_us() + 2_000
    assert 0 <= second.silent_us < 60 * SECOND_US


async def test_a_host_that_was_not_seen_is_no_longer_alive_until_it_is(
    catalog: Catalog, location: str | Path
) -> None:
    number = await register(catalog)
    last_seen(location, number, ago_us=60 * SECOND_US)
    (dead,) = await catalog.hosts.find_all(DEAD)
    assert not dead.alive
    assert dead.silent_us >= 60 * SECOND_US
    assert (await catalog.hosts.find_all(3600))[0].alive
    assert await catalog.hosts.beat(number, "a", DEAD)
    (alive,) = await catalog.hosts.find_all(DEAD)
    assert alive.alive
    assert alive.silent_us < dead.silent_us
    assert alive.started_us == dead.started_us


@ON_BOTH
async def test_a_host_that_was_seen_before_the_clock_was_set_back_is_not_alive(
    catalog: Catalog, location: str | Path
) -> None:
    last_seen(location, await register(catalog), ago_us=-3600 * SECOND_US)
    assert not (await catalog.hosts.find_all(DEAD))[0].alive


async def test_a_host_that_left_is_gone_with_its_streams(catalog: Catalog) -> None:
    number, other = await register(catalog), await register(catalog, "other")
    await catalog.owners.claim(7, number, dead_seconds=DEAD)
    await catalog.hosts.leave(number)
    assert [each.id for each in await catalog.hosts.find_all(DEAD)] == [other]
    assert not await catalog.hosts.beat(number, "a", DEAD)
    assert (await catalog.owners.claim(7, other, dead_seconds=DEAD)).host == other


@ON_BOTH
async def test_a_new_start_takes_the_name_and_frees_the_streams(catalog: Catalog) -> None:
    before = await register(catalog)
    other = await register(catalog, "other")
    first = await catalog.owners.claim(7, before, dead_seconds=DEAD)
    after = await register(catalog)
    assert after > other > before
    assert [each.id for each in await catalog.hosts.find_all(DEAD)] == [after, other]
    assert not await catalog.hosts.beat(before, "a", DEAD)
    assert await catalog.hosts.beat(after, "a", DEAD)
    assert await catalog.owners.owned_by(after) == {}
    claimed = await catalog.owners.claim(7, other, dead_seconds=DEAD)
    assert claimed.host == other
    assert claimed.generation > first.generation


async def test_the_host_of_another_name_that_has_the_number_is_another_one(
    catalog: Catalog, location: str | Path
) -> None:
    """After a backup is restored, an earlier host must not keep another one alive."""
    number = await register(catalog)
    run_sql(location, f"UPDATE hosts SET name = 'other' WHERE id = {number}")
    last_seen(location, number, ago_us=60 * SECOND_US)
    assert not await catalog.hosts.beat(number, "a", DEAD)
    assert [(each.name, each.alive) for each in await catalog.hosts.find_all(DEAD)] == [
        ("other", False)
    ]


@ON_BOTH
async def test_numbers_of_hosts_are_not_given_again(catalog: Catalog) -> None:
    first = await register(catalog)
    await catalog.hosts.leave(first)
    assert await register(catalog) > first


async def test_a_start_removes_hosts_not_seen_for_a_day_and_owners_of_deleted_streams(
    catalog: Catalog, location: str | Path, project: ProjectRecord
) -> None:
    kept = await catalog.streams.add(project.id, "kept", Change(1))
    deleted = await catalog.streams.add(project.id, "deleted", Change(1))
    running = await catalog.streams.add(project.id, "deleted while it runs", Change(1))
    old, recent = await register(catalog, "old"), await register(catalog, "recent")
    for stream in (kept, deleted):
        await catalog.owners.claim(stream.id, old, dead_seconds=DEAD)
    await catalog.owners.claim(running.id, recent, dead_seconds=DEAD)
    generations = await catalog.owners.owned_by(old) | await catalog.owners.owned_by(recent)
    for stream in (deleted, running):
        assert await catalog.streams.remove(stream.id, Change(2)) is not None
    last_seen(location, old, ago_us=DAY_US + 60 * SECOND_US)
    last_seen(location, recent, ago_us=DAY_US - 60 * SECOND_US)
    run_sql(location, f"UPDATE stream_owners SET taken_us = taken_us - {DAY_US + SECOND_US}")
    new = await register(catalog)
    assert {each.id for each in await catalog.hosts.find_all(DEAD)} == {recent, new}
    assert run_sql(
        location, "SELECT stream_id, host_id, generation FROM stream_owners ORDER BY stream_id"
    ) == [
        (kept.id, old, generations[kept.id]),
        (running.id, recent, generations[running.id]),
    ]
