"""Keys, live states and what viewers may know."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import Engine, event, update

from media.stream_events import (
    EncoderOnEvent,
    RefusedEvent,
    SlateEvent,
    StreamEvent,
    TakenOverEvent,
)
from media.stream_keys import StreamKey, new_hash
from storage.catalog import Catalog, open_catalog
from storage.catalog.engine.database import database_url, open_database
from storage.catalog.records.common import Change, StreamRecord
from storage.catalog.schema.tables import streams
from tests.support.shared_engines import ON_BOTH
from tests.support.sql import WAITING, run_sql
from tests.support.waiting import SCALE, until

DEAD = 60.0  # seconds


@contextmanager
def _statements() -> Generator[list[str]]:
    """Collect the statements that any database is sent within the block."""
    statements: list[str] = []

    def note(*facts: Any) -> None:  # Any: six facts, of which the third is the statement
        statements.append(facts[2])

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(Engine, "before_cursor_execute", note)


async def _first(catalog: Catalog) -> StreamRecord:
    stream = (await catalog.installation.first_start(1)).stream
    assert stream is not None
    return stream


async def _now(catalog: Catalog, stream: StreamRecord) -> StreamRecord:
    record = await catalog.streams.find(stream.id)
    assert record is not None
    return record


async def _set(
    catalog: Catalog,
    stream: int,
    *,
    live: bool = True,
    on_air: int | None = 0,
    sending: tuple[int, ...] = (0,),
    now_us: int = 50,
    paused: bool = False,
    happened: tuple[StreamEvent, ...] = (),
) -> None:
    await catalog.live_state.set(
        stream,
        live=live,
        processing=live,
        paused=paused,
        happened=happened,
        on_air=on_air,
        sending=sending,
        no_audio=False,
        now_us=now_us,
    )


@ON_BOTH
async def test_a_right_key_opens_its_stream_in_every_form_it_is_shown_in(catalog: Catalog) -> None:
    stream = await _first(catalog)
    for text in (stream.key.text, stream.key.secret, stream.key.secret.upper()):
        key = StreamKey.parse(text)
        assert key is not None
        ingest_stream = await catalog.live_state.find_ingest(key)
        assert ingest_stream is not None
        assert (ingest_stream.id, ingest_stream.project, ingest_stream.hash) == (
            stream.id,
            1,
            stream.hash,
        )
        assert ingest_stream.slots == {0, 1}
        assert ingest_stream.active == {"360p", "480p", "720p", "1080p"}


async def test_only_what_is_active_and_there_is_granted(location: str | Path) -> None:
    async with open_catalog(location, migrate=True) as catalog:
        stream = await _first(catalog)
        run_sql(location, "UPDATE stream_resolutions SET active = number = 5")
        run_sql(location, "UPDATE stream_backups SET number = 3")
        ingest_stream = await catalog.live_state.find_ingest(stream.key)
        assert ingest_stream is not None
        assert ingest_stream.active == {"1440p"}
        assert ingest_stream.slots == {0, 3}


async def test_a_wrong_key_opens_nothing_and_asks_what_a_right_one_asks(catalog: Catalog) -> None:
    stream = await _first(catalog)
    other = await catalog.streams.add(1, "Other", Change(1))
    with _statements() as right:
        assert await catalog.live_state.find_ingest(stream.key) is not None
    wrong = {
        "a wrong secret": StreamKey.new(stream.hash),
        "an unknown stream": StreamKey.new(new_hash()),
        "another stream's secret": StreamKey(hash=stream.hash, secret=other.key.secret),
    }
    for what, key in wrong.items():
        with _statements() as statements:
            assert await catalog.live_state.find_ingest(key) is None, what
        assert statements == right, what


async def test_an_unknown_bare_secret_asks_what_a_right_one_asks(catalog: Catalog) -> None:
    stream = await _first(catalog)
    with _statements() as right:
        assert (
            await catalog.live_state.find_ingest(StreamKey(hash="", secret=stream.key.secret))
            is not None
        )
    with _statements() as statements:
        assert await catalog.live_state.find_ingest(StreamKey.new("")) is None
    assert statements == right


async def test_no_statement_looks_a_secret_up_as_it_is(catalog: Catalog) -> None:
    stream = await _first(catalog)
    with _statements() as statements:
        await catalog.live_state.find_ingest(stream.key)
        await catalog.live_state.find_ingest(StreamKey(hash="", secret=stream.key.secret))
    assert not [statement for statement in statements if "secret = " in statement]


async def test_a_stream_is_published_the_first_time_it_is_live(catalog: Catalog) -> None:
    stream = await _first(catalog)
    await _set(catalog, stream.id, live=False, on_air=None, now_us=40)
    assert not (await _now(catalog, stream)).published
    await _set(catalog, stream.id, now_us=50)
    await _set(catalog, stream.id, live=False, on_air=None, sending=(), now_us=60)
    await _set(catalog, stream.id, now_us=70)
    record = await _now(catalog, stream)
    assert (record.published, record.published_us) == (True, 50)


async def test_a_stream_that_its_owner_unpublished_stays_so(location: str | Path) -> None:
    async with open_catalog(location, migrate=True) as catalog:
        stream = await _first(catalog)
        run_sql(location, "UPDATE streams SET hidden = true")
        await _set(catalog, stream.id)
        record = await _now(catalog, stream)
        assert (record.live, record.published, record.published_us) == (True, False, None)


async def test_the_state_names_the_slots_that_send_and_the_one_on_air(catalog: Catalog) -> None:
    stream = await _first(catalog)
    await catalog.live_state.set(
        stream.id,
        live=True,
        processing=True,
        on_air=1,
        sending={0, 1},
        no_audio=True,
        now_us=50,
    )
    record = await _now(catalog, stream)
    assert (record.live, record.processing, record.no_audio) == (True, True, True)
    assert (record.on_air, record.receiving_count) == (1, 2)
    assert [(backup.live, backup.on_air) for backup in record.backups] == [(True, True)]
    await _set(catalog, stream.id, sending=(0,))
    record = await _now(catalog, stream)
    assert (record.on_air, record.receiving_count, record.no_audio) == (0, 1, False)
    assert [(backup.live, backup.on_air) for backup in record.backups] == [(False, False)]


@ON_BOTH
async def test_the_version_rises_with_each_change_and_with_nothing_else(catalog: Catalog) -> None:
    stream = await _first(catalog)
    other = await catalog.streams.add(1, "Other", Change(1))
    await _set(catalog, stream.id)
    assert (await _now(catalog, stream)).version == stream.version + 1
    await _set(catalog, stream.id, now_us=99)
    assert (await _now(catalog, stream)).version == stream.version + 1
    # The count is the same, but the flag of another slot, the backup's, has changed.
    await _set(catalog, stream.id, sending=(1,))
    assert (await _now(catalog, stream)).version == stream.version + 2
    assert await _now(catalog, other) == other


async def test_a_state_does_not_count_as_an_edit(catalog: Catalog) -> None:
    stream = await _first(catalog)
    await _set(catalog, stream.id, now_us=99)
    assert (await _now(catalog, stream)).updated_us == stream.updated_us


@ON_BOTH
async def test_the_state_of_a_deleted_stream_is_no_error(catalog: Catalog) -> None:
    await catalog.installation.first_start(1)
    await _set(catalog, 99)
    assert await catalog.streams.find(99) is None


async def test_a_reset_takes_off_the_air_what_a_killed_process_left_there(catalog: Catalog) -> None:
    stream = await _first(catalog)
    other = await catalog.streams.add(1, "Other", Change(1))
    await _set(catalog, stream.id, sending=(0, 1))
    assert await catalog.live_state.reset(5) == [stream.hash]
    record = await _now(catalog, stream)
    assert (record.live, record.processing, record.receiving_count) == (False, False, 0)
    assert (record.on_air, record.backups[0].live) == (None, False)
    assert (record.published, record.version) == (True, stream.version + 2)
    assert await _now(catalog, other) == other
    assert await catalog.live_state.reset(5) == []
    assert await _now(catalog, stream) == record


async def _events(catalog: Catalog) -> list[tuple[str, dict[str, object], int | None]]:
    """Return the project's events, oldest first."""
    page = await catalog.events.find_page(1)
    return [(each.kind, each.facts, each.number) for each in reversed(page.items)]


async def test_a_state_comes_with_what_led_to_it_in_its_order(catalog: Catalog) -> None:
    stream = await _first(catalog)
    before = len(await _events(catalog))
    connected = EncoderOnEvent(slot="primary", receiving_count=1)
    await _set(catalog, stream.id, happened=(connected, TakenOverEvent(slot="primary")))
    version = (await _now(catalog, stream)).version
    refused = RefusedEvent(slot="primary", reason="another encoder is sending")
    await _set(catalog, stream.id, happened=(refused,))
    assert [(kind, number) for kind, _, number in (await _events(catalog))[before:]] == [
        (kind, before + index)
        for index, kind in enumerate(
            ("encoder on", "taken over", "live", "published", "refused"), start=1
        )
    ]
    # An event that does not change the record is logged, but the version stays.
    assert (await _now(catalog, stream)).version == version


@ON_BOTH
async def test_what_cannot_be_written_of_it_leaves_no_state_either(catalog: Catalog) -> None:
    stream = await _first(catalog)
    before = await _events(catalog)
    with pytest.raises(TypeError):
        what = cast("str", object())  # no JSON
        await _set(catalog, stream.id, happened=(SlateEvent(reason=what),))
    assert await _now(catalog, stream) == stream
    assert await _events(catalog) == before


async def test_events_of_a_deleted_stream_are_dropped(catalog: Catalog) -> None:
    await catalog.installation.first_start(1)
    before = await _events(catalog)
    await _set(catalog, 99, happened=(SlateEvent(reason="lost"),))
    assert await _events(catalog) == before


async def test_a_pause_is_its_owners_and_ends_with_the_run(location: str | Path) -> None:
    async with open_catalog(location, migrate=True) as catalog:
        stream = await _first(catalog)

        async def paused() -> bool:
            return (await _now(catalog, stream)).paused

        await _set(catalog, stream.id)
        await _set(catalog, stream.id, on_air=None, paused=True)
        assert not await paused()  # the pause was withdrawn before the run learnt of it
        run_sql(location, "UPDATE streams SET paused = true")
        await _set(catalog, stream.id)
        assert await paused()  # the run has not learnt of the pause yet
        # A stop, and an encoder that comes back to the run.
        await _set(catalog, stream.id, live=False, on_air=None, sending=(), paused=True)
        await catalog.live_state.reset(60)
        assert await paused()
        await _set(catalog, stream.id, live=False, on_air=None, paused=True)
        await catalog.live_state.end_pauses([stream.hash], 60)
        assert await paused()
        await _set(catalog, stream.id, on_air=None, paused=True)
        assert await paused()
        before = (await _now(catalog, stream)).version
        await _set(catalog, stream.id, live=False, on_air=None, sending=())
        assert not await paused()
        assert (await _now(catalog, stream)).version == before + 1
        over = ("resumed", {"stream": stream.id, "cause": "its run was over"})
        assert [over] == [each[:2] for each in await _events(catalog) if each[0] == "resumed"]


async def test_a_pause_ends_with_a_run_that_no_encoder_resumes(location: str | Path) -> None:
    async with open_catalog(location, migrate=True) as catalog:
        stream = await _first(catalog)
        run_sql(location, "UPDATE streams SET paused = true")
        await catalog.live_state.end_pauses(["Another0hash"], 60)
        assert (await _now(catalog, stream)).paused
        await catalog.live_state.end_pauses([stream.hash, "Another0hash"], 60)
        record = await _now(catalog, stream)
        assert (record.paused, record.version) == (False, stream.version + 1)
        assert (await _events(catalog))[-1][0] == "resumed"


async def test_the_end_of_a_pause_waits_for_no_other_paused_stream(postgres_url: str) -> None:
    async with (
        open_catalog(postgres_url, migrate=False) as catalog,
        open_database(database_url(postgres_url), create=False) as database,
    ):
        stream = await _first(catalog)
        other = await catalog.streams.add(stream.project, "other", Change(1))
        run_sql(postgres_url, "UPDATE streams SET paused = true")
        async with database.writing() as connection, asyncio.timeout(5 * SCALE):
            change = update(streams).where(streams.c.id == other.id)
            await connection.execute(change.values(title="changed"))
            await catalog.live_state.end_pauses([stream.hash], 60)
        assert not (await _now(catalog, stream)).paused
        assert (await _now(catalog, other)).paused


async def _owned_streams(catalog: Catalog, count: int) -> list[StreamRecord]:
    """Return streams that are on air, each owned by a host of its own."""
    first = await _first(catalog)
    added = [await catalog.streams.add(first.project, str(n), Change(1)) for n in range(count - 1)]
    for stream in (first, *added):
        host = await catalog.hosts.register(stream.title, "ingest", None, "1")
        await catalog.owners.claim(stream.id, host, dead_seconds=DEAD)
        await _set(catalog, stream.id, sending=(0, 1))
    return [first, *added]


async def _live(catalog: Catalog) -> list[bool]:
    return [each.live for each in await catalog.streams.find_all()]


@ON_BOTH
async def test_streams_whose_owner_does_not_live_are_reset_and_others_are_not(
    catalog: Catalog, location: str | Path
) -> None:
    dead, left, living, unowned = await _owned_streams(catalog, 4)
    hosts = {host.name: host for host in await catalog.hosts.find_all(DEAD)}
    run_sql(
        location,
        f"UPDATE hosts SET seen_us = seen_us - 2 * {round(DEAD)} * 1000000"
        f" WHERE id = {hosts[dead.title].id}",
        # As left by a process that has no rows of ownership.
        f"DELETE FROM stream_owners WHERE stream_id = {unowned.id}",
    )
    await catalog.hosts.leave(hosts[left.title].id)
    assert await catalog.live_state.reset_unowned(60, dead_seconds=DEAD) == 2
    assert await _live(catalog) == [False, False, True, True]
    gone = await _now(catalog, dead)
    assert (gone.on_air, gone.processing, gone.receiving_count) == (None, False, 0)
    assert [backup.live for backup in gone.backups] == [False]
    stays = await _now(catalog, living)
    assert (stays.on_air, stays.processing, stays.receiving_count) == (0, True, 2)
    assert [backup.live for backup in stays.backups] == [True]
    assert await catalog.live_state.reset_unowned(60, dead_seconds=DEAD) == 0


@ON_BOTH
async def test_a_host_that_owned_a_stream_before_writes_nothing_of_it(catalog: Catalog) -> None:
    (stream,) = await _owned_streams(catalog, 1)
    after = await catalog.hosts.register("after", "ingest", None, "1")
    owned = await catalog.owners.claim(stream.id, after, dead_seconds=DEAD)
    gone = owned.generation
    taken = await catalog.owners.claim(stream.id, after, dead_seconds=DEAD, ended_owner=gone)
    before = await _now(catalog, stream), await _events(catalog)

    async def end(generation: int) -> None:
        await catalog.live_state.set(
            stream.id, live=False, processing=False, on_air=None, sending=(), no_audio=False,
            now_us=60, happened=[SlateEvent(reason="lost")], generation=generation,
        )  # fmt: skip

    await end(gone)
    assert (await _now(catalog, stream), await _events(catalog)) == before
    await end(taken.generation)
    assert await _live(catalog) == [False]
    assert len(await _events(catalog)) > len(before[1])


async def test_the_next_owner_takes_nothing_off_the_air_that_it_is_about_to_continue(
    catalog: Catalog,
) -> None:
    (stream,) = await _owned_streams(catalog, 1)
    before = await _now(catalog, stream), await _events(catalog)

    async def begin(*, opening: bool, slot: int | None = None) -> StreamRecord:
        on = slot is not None
        await catalog.live_state.set(
            stream.id, live=on, processing=on, on_air=slot, sending=(1,), no_audio=False,
            now_us=60, opening=opening,
        )  # fmt: skip
        return await _now(catalog, stream)

    begun = await begin(opening=True)
    assert (begun.live, begun.processing, begun.on_air) == (True, True, before[0].on_air)
    assert begun.receiving_count == 1
    taken = await begin(opening=False, slot=1)
    assert (taken.live, taken.processing, taken.on_air) == (True, True, 1)
    assert await _events(catalog) == before[1]
    # A slot that does not open goes off the air.
    assert not (await begin(opening=False)).live
    assert [kind for kind, _, _ in await _events(catalog)][len(before[1]) :] == ["off air"]


async def test_where_no_other_host_lives_every_stream_is_reset(
    catalog: Catalog, location: str | Path
) -> None:
    await _owned_streams(catalog, 2)
    run_sql(location, "DELETE FROM stream_owners", "DELETE FROM hosts")
    other = await catalog.hosts.register("other", "ingest", None, "1")
    started = await catalog.hosts.register("started", "ingest", None, "1")
    reset = catalog.live_state.reset_unowned
    assert await reset(60, dead_seconds=DEAD, besides=started) == 0
    await catalog.hosts.leave(other)
    assert await reset(60, dead_seconds=DEAD) == 0
    assert await reset(60, dead_seconds=DEAD, besides=started) == 2
    assert await _live(catalog) == [False, False]


async def test_a_stream_that_is_taken_while_it_is_to_be_reset_stays_on_air(
    postgres_url: str,
) -> None:
    async with (
        open_catalog(postgres_url, migrate=False) as catalog,
        open_database(database_url(postgres_url), create=False) as database,
    ):
        (stream,) = await _owned_streams(catalog, 1)
        (before,) = await catalog.hosts.find_all(DEAD)
        after = await catalog.hosts.register("after", "ingest", None, "1")
        await catalog.hosts.leave(before.id)
        async with asyncio.TaskGroup() as tasks, database.writing() as connection:
            await connection.execute(update(streams).values(title="the next owner's"))
            reset = tasks.create_task(catalog.live_state.reset_unowned(60, dead_seconds=DEAD))
            await until(lambda: run_sql(postgres_url, WAITING) == [(1,)])
            await catalog.owners.claim(stream.id, after, dead_seconds=DEAD)
        assert reset.result() == 0
        assert await _live(catalog) == [True]


@pytest.mark.parametrize("sending", [(), (0,), (1,), (0, 1)])
async def test_a_reset_logs_each_encoder_and_the_streams_end(
    catalog: Catalog, sending: tuple[int, ...]
) -> None:
    stream = await _first(catalog)
    await _set(catalog, stream.id, sending=sending)
    before = len(await _events(catalog))
    await catalog.live_state.reset(60)
    recorded = [(kind, facts) for kind, facts, _ in (await _events(catalog))[before:]]
    cause = {"cause": "no process receives encoders"}
    off = [
        ("encoder off", {"slot": name, "receiving_count": left, "reason": "closed by us", **cause})
        for name, left in zip(
            [("primary", "backup-1")[slot] for slot in sending],
            range(len(sending) - 1, -1, -1),
            strict=True,
        )
    ]
    assert recorded == [*off, ("off air", cause)]
    await catalog.live_state.reset(60)
    assert len(await _events(catalog)) == before + len(recorded)


async def test_viewers_see_the_facts_meant_for_them(catalog: Catalog) -> None:
    stream = await _first(catalog)
    visibility = await catalog.visibility.find(stream.hash)
    assert visibility is not None
    assert (visibility.hash, visibility.project, visibility.title) == (
        stream.hash,
        1,
        "My first stream",
    )
    assert (visibility.published, visibility.hidden, visibility.live) == (False, False, False)
    await _set(catalog, stream.id)
    visibility = await catalog.visibility.find(stream.hash)
    assert visibility is not None
    assert (visibility.published, visibility.live) == (True, True)
    assert stream.key.secret not in repr(visibility)


@pytest.mark.parametrize("name", ["", "unknown", "%", "a" * 5000, "x\x00y"])
async def test_what_is_not_there_is_not_shown(catalog: Catalog, name: str) -> None:
    await catalog.installation.first_start(1)
    assert await catalog.visibility.find(name) is None
    stream = await _first(catalog)
    assert await catalog.visibility.find(stream.hash.swapcase()) is None
