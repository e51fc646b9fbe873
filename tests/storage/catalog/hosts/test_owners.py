"""One host owns a stream: claims, takeovers by other hosts, and generations."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from storage.catalog import Catalog, open_catalog
from storage.catalog.hosts import owners
from storage.catalog.hosts.owners import OrphanedStream, StreamOwner
from storage.catalog.records.common import Change
from storage.errors import HostGone
from tests.support.shared_engines import ON_BOTH
from tests.support.sql import run_sql
from tests.support.storage.concurrent_calls import Call, count_refused
from tests.support.storage.counted_generations import BEFORE_FIRST, count_generations

DEAD = 60.0  # seconds: no test takes as long
STREAM = 7
FIRST, SECOND, THIRD = BEFORE_FIRST + 1, BEFORE_FIRST + 2, BEFORE_FIRST + 3
# Streams that no host has ever owned.
UNOWNED = range(11, 19)


@pytest.fixture(autouse=True)
def counted(catalog: Catalog, location: str | Path) -> None:
    count_generations(location, *range(1, 9))


async def claim(
    catalog: Catalog,
    host: int,
    *,
    stream: int = STREAM,
    ended_owner: int | None = None,
    silent_owner: int | None = None,
) -> tuple[int, int]:
    """Claim a stream; return the owner's number, and the generation."""
    owner = await catalog.owners.claim(
        stream, host, dead_seconds=DEAD, ended_owner=ended_owner, silent_owner=silent_owner
    )
    return owner.host, owner.generation


@pytest.fixture
async def a(catalog: Catalog) -> int:
    return await catalog.hosts.register("a", "ingest", "10.0.0.1:1937", "1")


@pytest.fixture
async def b(catalog: Catalog) -> int:
    return await catalog.hosts.register("b", "ingest", None, "1")


def seen_steadily(location: str | Path, host: int, seconds: float = DEAD) -> None:
    """Mark a host as seen without a break for that many seconds."""
    ago_us = round(seconds * 1_000_000)
    run_sql(location, f"UPDATE hosts SET steady_us = seen_us - {ago_us} WHERE id = {host}")


def last_seen(location: str | Path, host: int, seconds: float) -> None:
    """Mark a host as last seen that many seconds ago."""
    ago_us = round(seconds * 1_000_000)
    run_sql(location, f"UPDATE hosts SET seen_us = seen_us - {ago_us} WHERE id = {host}")


async def test_the_first_claim_owns_and_every_later_one_gets_that_owner(
    catalog: Catalog, a: int, b: int
) -> None:
    owner = StreamOwner(host=a, name="a", address="10.0.0.1:1937", generation=FIRST)
    assert await catalog.owners.claim(STREAM, a, dead_seconds=DEAD) == owner
    assert await catalog.owners.claim(STREAM, b, dead_seconds=DEAD) == owner
    assert await catalog.owners.claim(STREAM, a, dead_seconds=DEAD) == owner
    other = await catalog.owners.claim(STREAM + 1, b, dead_seconds=DEAD)
    assert other == StreamOwner(host=b, name="b", address=None, generation=FIRST)
    assert await catalog.owners.owned_by(a) == {STREAM: FIRST}
    assert await catalog.owners.owned_by(b) == {STREAM + 1: FIRST}


@ON_BOTH
async def test_an_owner_that_was_not_seen_loses_to_the_next_claim(
    catalog: Catalog, location: str | Path, a: int, b: int
) -> None:
    await claim(catalog, a)
    last_seen(location, a, DEAD)
    seen_steadily(location, b)
    assert await claim(catalog, b) == (b, SECOND)
    assert await catalog.owners.owned_by(a) == {}
    # The former owner comes back and learns that it lost the stream.
    assert await catalog.hosts.beat(a, "a", DEAD)
    assert await claim(catalog, a) == (b, SECOND)


async def test_an_owner_that_was_seen_in_time_stays(
    catalog: Catalog, location: str | Path, a: int, b: int
) -> None:
    await claim(catalog, a)
    last_seen(location, a, DEAD / 2)
    seen_steadily(location, b)
    assert await claim(catalog, b) == (a, FIRST)
    last_seen(location, a, DEAD)
    # An owner keeps a stream that no other host has claimed, however long it was away.
    assert await claim(catalog, a) == (a, FIRST)


async def test_an_owner_that_two_witnesses_miss_loses_sooner(
    catalog: Catalog, location: str | Path, a: int, b: int
) -> None:
    await claim(catalog, a)
    seen_steadily(location, b)
    last_seen(location, a, DEAD * 0.4)
    assert await claim(catalog, b, silent_owner=FIRST) == (a, FIRST)
    last_seen(location, a, DEAD * 0.2)  # earlier
    assert await claim(catalog, b) == (a, FIRST)
    an_earlier_one = FIRST - 1
    assert await claim(catalog, b, silent_owner=an_earlier_one) == (a, FIRST)
    assert await claim(catalog, b, silent_owner=FIRST) == (b, SECOND)


@ON_BOTH
async def test_after_the_database_was_away_the_first_that_is_back_takes_nothing(
    catalog: Catalog, location: str | Path, a: int, b: int
) -> None:
    await claim(catalog, a)
    for host in (a, b):
        seen_steadily(location, host, 3600)
        last_seen(location, host, 10 * DEAD)
    assert await claim(catalog, b) == (a, FIRST)
    assert await catalog.hosts.beat(b, "b", DEAD)
    assert await claim(catalog, b) == (a, FIRST)
    assert await catalog.hosts.beat(a, "a", DEAD)
    assert await catalog.owners.owned_by(a) == {STREAM: FIRST}
    # A host that has been seen for long enough itself notices that another host is not.
    last_seen(location, a, DEAD)
    seen_steadily(location, b, DEAD / 2)
    assert await claim(catalog, b) == (a, FIRST)
    seen_steadily(location, b)
    assert await catalog.hosts.beat(b, "b", DEAD)
    assert await claim(catalog, b) == (b, SECOND)


async def test_an_owner_known_to_be_gone_loses_once(catalog: Catalog, a: int, b: int) -> None:
    await claim(catalog, a)
    assert await claim(catalog, b, ended_owner=0) == (a, FIRST)
    assert await claim(catalog, b, ended_owner=FIRST) == (b, SECOND)
    # Another host that noticed the loss of the same owner comes too late.
    assert await claim(catalog, a, ended_owner=FIRST) == (b, SECOND)


async def test_a_released_stream_is_free_and_its_generation_rises(
    catalog: Catalog, a: int, b: int
) -> None:
    await claim(catalog, a)
    await catalog.owners.release(STREAM, a, FIRST)
    assert await catalog.owners.owned_by(a) == {}
    assert await claim(catalog, b) == (b, SECOND)


@ON_BOTH
async def test_a_database_that_was_restored_gives_later_generations_than_before(
    catalog: Catalog, location: str | Path, a: int, b: int
) -> None:
    stream = UNOWNED[0]
    _, before = await claim(catalog, a, stream=stream)
    # The backup was made when the stream had its first owner, some years ago.
    run_sql(location, f"UPDATE stream_owners SET generation = 1 WHERE stream_id = {stream}")
    owner, after = await claim(catalog, b, stream=stream, ended_owner=1)
    assert owner == b
    assert after >= before
    seconds = (datetime.now(UTC) - datetime(2020, 1, 1, tzinfo=UTC)).total_seconds()
    assert after == pytest.approx(seconds, abs=60)
    # A clock that was set back does not make generations smaller.
    ahead = after + 86_400
    run_sql(location, f"UPDATE stream_owners SET generation = {ahead} WHERE stream_id = {stream}")
    assert await claim(catalog, a, stream=stream, ended_owner=ahead) == (a, ahead + 1)


async def test_only_the_present_owner_releases(catalog: Catalog, a: int, b: int) -> None:
    await claim(catalog, a)
    assert await claim(catalog, b, ended_owner=FIRST) == (b, SECOND)
    assert await claim(catalog, a, ended_owner=SECOND) == (a, THIRD)
    await catalog.owners.release(STREAM, a, FIRST)  # the host has lost this generation
    await catalog.owners.release(STREAM, b, THIRD)
    await catalog.owners.release(STREAM + 1, a, FIRST)
    assert await catalog.owners.owned_by(a) == {STREAM: THIRD}


async def test_a_host_that_is_not_registered_owns_nothing(catalog: Catalog, a: int, b: int) -> None:
    await claim(catalog, b)
    await catalog.hosts.leave(a)
    for stream in (STREAM, STREAM + 1):
        with pytest.raises(HostGone, match=f"host {a} is not registered"):
            await claim(catalog, a, stream=stream)
    assert await catalog.owners.owned_by(b) == {STREAM: FIRST}


async def test_a_stream_that_was_deleted_may_be_owned(catalog: Catalog, a: int) -> None:
    assert (await claim(catalog, a, stream=999_999))[0] == a


@pytest.fixture
async def processes(location: str | Path, catalog: Catalog) -> AsyncGenerator[list[Catalog]]:
    """The same catalog, as four processes have it open."""
    async with AsyncExitStack() as stack:
        opened = [open_catalog(location, migrate=False) for _ in range(3)]
        yield [catalog, *[await stack.enter_async_context(each) for each in opened]]


async def claim_at_once(
    processes: list[Catalog], hosts: list[int], stream: int, ended_owner: int | None = None
) -> tuple[int, int]:
    """Claim a stream for each host at once; return the owner that all of them got."""
    async with asyncio.TaskGroup() as tasks:
        claims = [
            tasks.create_task(claim(catalog, host, stream=stream, ended_owner=ended_owner))
            for catalog, host in zip(processes, hosts, strict=False)
        ]
    (answer,) = {each.result() for each in claims}
    assert answer[0] in hosts
    return answer


@ON_BOTH
async def test_of_claims_at_once_exactly_one_wins(processes: list[Catalog]) -> None:
    hosts = [
        await catalog.hosts.register(str(number), "ingest", None, "1")
        for number, catalog in enumerate(processes)
    ]
    for stream in UNOWNED:
        owner, first = await claim_at_once(processes, hosts, stream)  # there is no row yet
        await processes[0].owners.release(stream, owner, first)
        owner, second = await claim_at_once(processes, hosts, stream)
        assert second > first
        others = [host for host in hosts if host != owner]
        assert (await claim_at_once(processes, others, stream, ended_owner=second))[1] > second


@ON_BOTH
async def test_hosts_that_come_and_go_do_not_wait_for_each_other(
    processes: list[Catalog],
) -> None:
    """A deadlock would be a refusal."""

    def calls(catalog: Catalog, name: str) -> Sequence[Call]:
        async def start() -> None:
            number = await catalog.hosts.register(name, "ingest", None, "1")
            for stream in (1, 2, 3):
                await catalog.owners.claim(stream, number, dead_seconds=DEAD, ended_owner=FIRST)
                await catalog.hosts.beat(number, name, DEAD)

        return 5 * [start]

    names = [str(number) for number in range(len(processes))]
    callers = [calls(catalog, name) for catalog, name in zip(processes, names, strict=True)]
    assert await count_refused(callers) == 0


async def test_left_streams_are_found_in_batches(
    catalog: Catalog, a: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owners, "ORPHANED_AT_ONCE", 2)
    first = (await catalog.installation.first_start(1)).stream
    assert first is not None
    added = [await catalog.streams.add(1, str(number), Change(1)) for number in range(4)]
    numbers = [each.id for each in (first, *added)]
    for number in numbers:
        _, generation = await claim(catalog, a, stream=number)
        await catalog.owners.release(number, a, generation, ended=False)
    batches: list[list[int]] = []
    after = 0
    while page := await catalog.owners.find_orphaned(a, DEAD, after=after):
        batches.append([each.stream for each in page])
        after = page[-1].stream
    assert batches == [numbers[:2], numbers[2:4], numbers[4:]]


@ON_BOTH
async def test_the_first_living_host_finds_the_streams_that_others_left(
    catalog: Catalog, location: str | Path, a: int, b: int
) -> None:
    stream = (await catalog.installation.first_start(1)).stream
    assert stream is not None
    await claim(catalog, a, stream=stream.id)
    find = catalog.owners.find_orphaned
    assert await find(b, DEAD) == await find(a, DEAD) == ()
    last_seen(location, a, DEAD)
    orphan = OrphanedStream(
        stream=stream.id, hash=stream.hash, generation=FIRST, reconnect_seconds=None
    )
    assert await find(b, DEAD) == (orphan,)
    assert await find(a, DEAD) == ()  # this host is dead
    # It makes no difference whether the host left or was removed.
    await catalog.hosts.leave(a)
    assert await find(b, DEAD) == (orphan,)
    late = await catalog.hosts.register("c", "ingest", None, "1")
    assert await find(late, DEAD) == ()
    # A released stream has no run; a stream of a living host is not orphaned.
    assert await claim(catalog, b, stream=stream.id) == (b, SECOND)
    assert await find(b, DEAD) == ()
    await catalog.owners.release(stream.id, b, SECOND)
    assert await find(b, DEAD) == ()
