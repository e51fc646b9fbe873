"""Streams of several hosts: their owners, what a host stops serving, and which runs are ended."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from delivery.edge.memory import MemoryEdge
from delivery.run.publication import Publication
from delivery.run.run_objects import SOLE_OWNER, RunOwner
from delivery.run.run_state import LiveWindow
from delivery.run.run_store import newest_run
from headend.hosts.ownership import CatalogOwnership, OrphanedRuns, OwnershipWatch, SoleRuns
from headend.hosts.presence import HostIdentity, HostPresence
from headend.roles.adapters import CatalogJournal
from ingest.stream.ports import LiveState, Ownership, PortError
from ingest.stream.registry import LiveStreams
from media.stream_events import StreamEvent
from storage.catalog import Catalog, open_catalog
from storage.catalog.hosts import owners
from storage.catalog.records.common import Change, StreamRecord
from storage.objects.addresses import live_stream
from storage.objects.disk import DiskObjects
from tests.ingest.stream.test_live_stream import GRANT, FakePorts, FakePublisher
from tests.support.sql import run_sql
from tests.support.storage.counted_generations import BEFORE_FIRST, count_generations
from tests.support.storage.engine_reports import TOP, ReportMaker, append_all, begin_epoch
from tests.support.waiting import until
from transcode.live.service import LiveTranscoding

pytestmark = pytest.mark.anyio

DEAD = 60.0  # seconds
NOW_US = 1_700_000_000_000_000
WINDOW = LiveWindow(listed_seconds=30.0, kept_seconds=60.0)
FIRST, SECOND, THIRD = BEFORE_FIRST + 1, BEFORE_FIRST + 2, BEFORE_FIRST + 3


@pytest.fixture
async def catalog(sqlite_database: Path) -> AsyncGenerator[Catalog]:
    count_generations(sqlite_database, 1)
    async with open_catalog(sqlite_database, migrate=False) as opened:
        yield opened


async def presence(catalog: Catalog, name: str, address: str | None = None) -> HostPresence:
    identity = HostIdentity(name=name, role="ingest", address=address, version="1")
    host_presence = HostPresence(catalog, identity, dead_seconds=DEAD)
    await host_presence.register()
    return host_presence


async def test_a_stream_belongs_to_one_host_until_it_is_released(catalog: Catalog) -> None:
    here = CatalogOwnership(catalog, await presence(catalog, "here", "10.0.0.1:1937"))
    there = CatalogOwnership(catalog, await presence(catalog, "there"))
    assert await here.claim(GRANT) == Ownership(generation=FIRST, address=None)
    assert await there.claim(GRANT) == Ownership(generation=FIRST, address="10.0.0.1:1937")
    await there.release(GRANT, FIRST)  # nothing of its own
    await here.release(GRANT, FIRST)
    assert await there.claim(GRANT) == Ownership(generation=SECOND, address=None)
    assert await here.claim(GRANT) == Ownership(generation=SECOND, address="")
    assert await here.claim(GRANT, ended_owner=SECOND) == Ownership(generation=THIRD, address=None)


async def test_runs_continue_after_the_database_was_restored_from_a_backup(
    catalog: Catalog, sqlite_database: Path, tmp_path: Path
) -> None:
    here = CatalogOwnership(catalog, await presence(catalog, "here"))
    with DiskObjects(tmp_path / "objects") as objects:
        # The newest owner claimed it an hour ago; the backup is from the time of its first owner.
        seconds = (datetime.now(UTC) - datetime(2020, 1, 1, tzinfo=UTC)).total_seconds()
        owner = RunOwner(generation=round(seconds) - 3600, fenced=True)
        await interrupted_run(objects, GRANT.hash, owner)
        await here.claim_stream(2)
        run_sql(sqlite_database, "UPDATE stream_owners SET host_id = NULL, generation = 1")
        after = await here.claim_stream(2)
        resumed = await Publication.resume(
            objects,
            MemoryEdge(),
            hash=GRANT.hash,
            now_us=NOW_US,
            window=WINDOW,
            within_seconds=60.0,
            owner=RunOwner(generation=after.generation, fenced=True),
        )
        assert resumed is not None
        assert resumed.next_sequence == 3


async def test_a_host_that_is_not_registered_claims_nothing(catalog: Catalog) -> None:
    nobody = await presence(catalog, "here")
    assert nobody.host is not None
    await catalog.hosts.leave(nobody.host)
    with pytest.raises(PortError):
        await CatalogOwnership(catalog, nobody).claim(GRANT)
    nobody.host = None
    with pytest.raises(PortError):
        await CatalogOwnership(catalog, nobody).claim(GRANT)
    await CatalogOwnership(catalog, nobody).release(GRANT, FIRST)


class KeptJournal(CatalogJournal):
    """A journal that records the written states."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(catalog, lambda: 1)
        self.states: list[LiveState] = []

    async def write(self, state: LiveState, events: tuple[StreamEvent, ...]) -> None:
        self.states.append(state)
        await super().write(state, events)


@asynccontextmanager
async def watched(
    catalog: Catalog, edge: MemoryEdge, journal: KeptJournal | None = None
) -> AsyncGenerator[tuple[OwnershipWatch, LiveStreams]]:
    """Serve a stream that this host owns, and watch its ownership."""
    ownership = CatalogOwnership(catalog, await presence(catalog, "here"))
    async with asyncio.TaskGroup() as tasks:
        journal = journal or KeptJournal(catalog)
        streams = LiveStreams(FakePorts(), journal, tasks, ownership=ownership)
        watch = OwnershipWatch(streams, edge)
        running = tasks.create_task(watch.run())
        await streams.attach(GRANT, FakePublisher())
        yield watch, streams
        streams.drain()
        await streams.wait_closed()
        running.cancel()


async def test_a_stream_that_another_host_owns_is_no_longer_served(catalog: Catalog) -> None:
    edge = MemoryEdge()
    address = f"{live_stream(GRANT.hash)}/run/720p/1.m4s"
    await edge.put_part(address, b"media")
    async with watched(catalog, edge) as (watch, streams):
        watch.on_owned({})  # read before the claim
        watch.on_owned({GRANT.stream: FIRST})
        await asyncio.sleep(0)
        assert streams.generations == {GRANT.stream: FIRST}
        watch.on_owned({})
        await until(lambda: not streams.generations)
        await until(lambda: edge.local_part(address) is None)


async def test_a_run_that_was_taken_over_is_no_longer_served(catalog: Catalog) -> None:
    async with watched(catalog, MemoryEdge()) as (watch, streams):
        watch.on_run_lost("another stream", FIRST)
        watch.on_run_lost(GRANT.hash, BEFORE_FIRST)  # of an earlier ownership
        watch.on_run_lost(GRANT.hash, FIRST)
        await until(lambda: not streams.generations)


class AbandonedRun(msgspec.Struct, kw_only=True):
    """A stream whose host is gone, and another host that searches for such streams."""

    catalog: Catalog
    objects: DiskObjects
    stream: StreamRecord
    runs: OrphanedRuns
    streams: LiveStreams
    ownership: CatalogOwnership

    async def ended(self) -> bool:
        run = await newest_run(self.objects, self.stream.hash)
        assert run is not None
        return run.state.ended


async def interrupted_run(objects: DiskObjects, hash_: str, owner: RunOwner = SOLE_OWNER) -> None:
    """Begin a run without ending it."""
    publication = await Publication.open(
        objects, MemoryEdge(), hash=hash_, now_us=NOW_US, window=WINDOW, owner=owner
    )
    maker = ReportMaker(TOP)
    await begin_epoch(publication, maker)
    for _ in range(3):
        await append_all(publication, maker.step())
    await publication.suspend()


async def abandoned_run(
    catalog: Catalog, objects: DiskObjects, tasks: asyncio.TaskGroup
) -> AbandonedRun:
    """Begin a run on a host, which ends at once, and register another host."""
    stream = (await catalog.installation.first_start(1)).stream
    assert stream is not None
    await interrupted_run(objects, stream.hash)
    gone = await presence(catalog, "gone")
    assert gone.host is not None
    await catalog.owners.claim(stream.id, gone.host, dead_seconds=DEAD)
    await gone.leave()
    ownership = CatalogOwnership(catalog, await presence(catalog, "here"))
    streams = LiveStreams(
        FakePorts(), CatalogJournal(catalog, lambda: 1), tasks, ownership=ownership
    )
    transcoding = LiveTranscoding(objects=objects, edge=MemoryEdge(), window=WINDOW, fenced=True)
    runs = OrphanedRuns(ownership, streams, transcoding, reconnect_seconds=30.0)
    return AbandonedRun(
        catalog=catalog,
        objects=objects,
        stream=stream,
        runs=runs,
        streams=streams,
        ownership=ownership,
    )


async def test_a_run_without_encoders_is_ended_after_the_window(
    catalog: Catalog, sqlite_database: Path, tmp_path: Path
) -> None:
    with DiskObjects(tmp_path / "objects") as objects:
        async with asyncio.TaskGroup() as tasks:
            abandoned = await abandoned_run(catalog, objects, tasks)
            run_sql(sqlite_database, "UPDATE streams SET paused = 1")
            await abandoned.runs.end_due(100.0)
            await abandoned.runs.end_due(129.0)
            assert not await abandoned.ended()
            await abandoned.runs.end_due(130.0)
            assert await abandoned.ended()
            stream = await catalog.streams.find(abandoned.stream.id)
            assert stream is not None
            assert not stream.paused
            assert await abandoned.ownership.find_orphaned() == ()
            # The next owner gets the next generation.
            owner = await abandoned.ownership.claim_stream(abandoned.stream.id)
            assert owner == Ownership(generation=THIRD, address=None)


async def test_ending_a_run_is_retried_if_it_fails(
    catalog: Catalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with DiskObjects(tmp_path / "objects") as objects:
        async with asyncio.TaskGroup() as tasks:
            abandoned = await abandoned_run(catalog, objects, tasks)
            temporary = tmp_path / "objects" / ".temporary"
            kept = temporary.rename(tmp_path / "kept")
            temporary.touch()  # nothing can be written
            await abandoned.runs.end_due(100.0)
            for now in (130.0, 132.0):
                await abandoned.runs.end_due(now)
            assert caplog.messages.count("run not ended") == 1
            temporary.unlink()
            kept.rename(temporary)
            assert not await abandoned.ended()
            await abandoned.runs.end_due(134.0)
            assert await abandoned.ended()


async def test_a_run_to_which_its_encoder_returns_is_not_ended(
    catalog: Catalog, tmp_path: Path
) -> None:
    with DiskObjects(tmp_path / "objects") as objects:
        async with asyncio.TaskGroup() as tasks:
            abandoned = await abandoned_run(catalog, objects, tasks)
            await abandoned.runs.end_due(100.0)
            grant = msgspec.structs.replace(
                GRANT, stream=abandoned.stream.id, hash=abandoned.stream.hash
            )
            await abandoned.streams.attach(grant, FakePublisher())
            await abandoned.runs.end_due(130.0)
            assert not await abandoned.runs.end_interrupted(
                abandoned.stream.id, abandoned.stream.hash
            )
            assert not await abandoned.ended()
            abandoned.streams.drain()
            await abandoned.streams.wait_closed()


async def test_a_run_of_another_host_is_not_ended(catalog: Catalog, tmp_path: Path) -> None:
    with DiskObjects(tmp_path / "objects") as objects:
        async with asyncio.TaskGroup() as tasks:
            abandoned = await abandoned_run(catalog, objects, tasks)
            there = CatalogOwnership(catalog, await presence(catalog, "there"))
            await there.claim_stream(abandoned.stream.id)
            assert not await abandoned.runs.end_interrupted(
                abandoned.stream.id, abandoned.stream.hash
            )
            assert not await abandoned.ended()


async def test_the_only_host_ends_runs_without_asking(catalog: Catalog, tmp_path: Path) -> None:
    with DiskObjects(tmp_path / "objects") as objects:
        async with asyncio.TaskGroup() as tasks:
            abandoned = await abandoned_run(catalog, objects, tasks)
            transcoding = LiveTranscoding(objects=objects, edge=MemoryEdge(), window=WINDOW)
            runs = SoleRuns(transcoding)
            assert await runs.end_interrupted(abandoned.stream.id, abandoned.stream.hash)
            assert await abandoned.ended()
            assert not await runs.end_interrupted(abandoned.stream.id, abandoned.stream.hash)


async def test_a_host_holds_a_stream_for_a_command_unless_another_owns_it(
    catalog: Catalog, tmp_path: Path
) -> None:
    with DiskObjects(tmp_path / "objects") as objects:
        async with asyncio.TaskGroup() as tasks:
            abandoned = await abandoned_run(catalog, objects, tasks)
            there = CatalogOwnership(catalog, await presence(catalog, "there"))
            number = abandoned.stream.id
            async with abandoned.runs.holding(number) as ours:
                assert ours
                assert (await there.claim_stream(number)).address == ""
            # The released stream may have a run, so it is orphaned again.
            assert [each.stream for each in await abandoned.ownership.find_orphaned()] == [number]
            await there.claim_stream(number)
            async with abandoned.runs.holding(number) as ours:
                assert not ours


async def test_a_stream_that_this_host_owns_without_knowing_is_released(
    catalog: Catalog, tmp_path: Path
) -> None:
    """The connection to the catalog died after the claim and before its answer."""
    with DiskObjects(tmp_path / "objects") as objects:
        async with asyncio.TaskGroup() as tasks:
            abandoned = await abandoned_run(catalog, objects, tasks)
            number, owner = (
                abandoned.stream.id,
                await abandoned.ownership.claim_stream(abandoned.stream.id),
            )
            abandoned.runs.on_owned({number: owner.generation})
            await abandoned.runs.end_due(100.0)
            assert await abandoned.ownership.find_orphaned() == ()  # its answer may still come
            await abandoned.runs.end_due(102.0)
            assert [each.stream for each in await abandoned.ownership.find_orphaned()] == [number]
            await abandoned.runs.end_due(104.0)
            await abandoned.runs.end_due(134.0)
            assert await abandoned.ended()


async def test_a_stream_that_is_served_or_held_is_not_released(
    catalog: Catalog, tmp_path: Path
) -> None:
    with DiskObjects(tmp_path / "objects") as objects:
        async with asyncio.TaskGroup() as tasks:
            abandoned = await abandoned_run(catalog, objects, tasks)
            number = abandoned.stream.id

            there = CatalogOwnership(catalog, await presence(catalog, "there"))

            async def look(generation: int) -> None:
                abandoned.runs.on_owned({number: generation})
                for now in (100.0, 102.0, 104.0):
                    await abandoned.runs.end_due(now)
                owner = await there.claim_stream(number)
                assert owner == Ownership(generation=generation, address="")

            async with abandoned.runs.holding(number) as ours:
                assert ours
                async with abandoned.runs.holding(number):
                    pass  # another command, which is over
                await look(SECOND)
            grant = msgspec.structs.replace(GRANT, stream=number, hash=abandoned.stream.hash)
            await abandoned.streams.attach(grant, FakePublisher())
            await look(THIRD)
            abandoned.streams.drain()
            await abandoned.streams.wait_closed()


async def test_streams_without_an_open_run_are_forgotten_in_batches(
    catalog: Catalog, sqlite_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When an installation begins to use hosts, every stream that was ever live has no owner."""
    monkeypatch.setattr(owners, "ORPHANED_AT_ONCE", 4)
    with DiskObjects(tmp_path / "objects") as objects:
        async with asyncio.TaskGroup() as tasks:
            abandoned = await abandoned_run(catalog, objects, tasks)
            added = [await catalog.streams.add(1, str(number), Change(1)) for number in range(10)]
            run_sql(
                sqlite_database,
                "DELETE FROM stream_owners",
                "INSERT INTO stream_owners (stream_id, host_id, generation, taken_us)"
                " SELECT id, 0, 0, 0 FROM streams",
            )
            await interrupted_run(objects, added[7].hash)
            claims = run_sql(sqlite_database, "SELECT max(generation) FROM stream_owners")
            await abandoned.runs.end_due(100.0)
            still = [abandoned.stream.id, added[7].id]
            assert [each.stream for each in await abandoned.ownership.find_orphaned()] == still
            # No stream was claimed for that.
            assert claims == run_sql(sqlite_database, "SELECT max(generation) FROM stream_owners")
            await abandoned.runs.end_due(130.0)
            assert await abandoned.ended()
            assert await abandoned.ownership.find_orphaned() == ()


async def test_a_stream_claimed_meanwhile_keeps_its_owner(catalog: Catalog) -> None:
    stream = (await catalog.installation.first_start(1)).stream
    assert stream is not None
    here = CatalogOwnership(catalog, await presence(catalog, "here"))
    owner = await here.claim_stream(stream.id)
    await here.release_stream(stream.id, owner.generation, ended=False)
    orphaned = await here.find_orphaned()
    assert [(each.released, each.paused) for each in orphaned] == [(True, False)]
    there = await presence(catalog, "there")
    ownership = await CatalogOwnership(catalog, there).claim_stream(stream.id)
    await here.forget(orphaned)
    assert there.host is not None
    assert await catalog.owners.owned_by(there.host) == {stream.id: ownership.generation}


async def test_the_run_of_a_stream_that_was_served_is_checked_later(
    catalog: Catalog, tmp_path: Path
) -> None:
    """Writing the end of its run may have failed."""
    with DiskObjects(tmp_path / "objects") as objects:
        async with asyncio.TaskGroup() as tasks:
            abandoned = await abandoned_run(catalog, objects, tasks)
            grant = msgspec.structs.replace(
                GRANT, stream=abandoned.stream.id, hash=abandoned.stream.hash
            )
            await abandoned.ownership.claim(grant)
            assert await abandoned.ownership.find_orphaned() == ()
            await abandoned.ownership.release(grant, SECOND)
            await abandoned.runs.end_due(100.0)
            await abandoned.runs.end_due(130.0)
            assert await abandoned.ended()
            assert await abandoned.ownership.find_orphaned() == ()


async def test_a_host_writes_its_states_again_after_it_was_lost(catalog: Catalog) -> None:
    journal = KeptJournal(catalog)
    async with watched(catalog, MemoryEdge(), journal) as (watch, _):
        await until(lambda: len(journal.states) == 1)
        watch.on_owned({GRANT.stream: FIRST})
        watch.on_unseen()
        await asyncio.sleep(0.1)  # nothing is written before it is seen again
        assert len(journal.states) == 1
        watch.on_owned({GRANT.stream: FIRST})
        await until(lambda: len(journal.states) == 2)
        assert journal.states[0] == journal.states[1]
