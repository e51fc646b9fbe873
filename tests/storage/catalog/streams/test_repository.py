"""What owners change of their streams, on both databases."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from media.countries import find_country
from media.stream_keys import StreamKey
from storage.catalog import Catalog
from storage.catalog.records.common import Change, Sort, StreamRecord
from storage.catalog.records.details import StreamDetails
from storage.catalog.records.settings import FailoverChange, SettingsChange
from storage.catalog.streams.commands import CommandKind
from storage.catalog.streams.repository import MAX_BACKUPS
from storage.errors import BackupInUse, NoSuchLabel, TooManyBackups
from tests.support.concurrent_programs import run_together
from tests.support.shared_engines import ON_BOTH
from tests.support.sql import run_sql

NOW = 5_000
BY = 3


async def begun(catalog: Catalog) -> StreamRecord:
    stream = (await catalog.installation.first_start(1)).stream
    assert stream is not None
    return stream


async def now(catalog: Catalog, stream: StreamRecord) -> StreamRecord:
    record = await catalog.streams.find(stream.id)
    assert record is not None
    return record


async def edited(catalog: Catalog, stream: StreamRecord, **change: Any) -> StreamRecord:
    """Edit a stream (Any: the fields of a change)."""
    stream_change = StreamDetails.edit(**change)
    record = await catalog.streams.edit(stream.id, stream_change, Change(NOW, by=BY))
    assert record is not None
    return record


async def kinds(catalog: Catalog) -> list[str]:
    """Return the kinds of all events, oldest first."""
    kinds_found: list[str] = []
    page = 1
    while (events := await catalog.events.find_page(1, page=page)).items:
        kinds_found += [each.kind for each in events.items]
        page += 1
    return kinds_found[::-1]


def queued_notices(location: str | Path) -> list[dict[str, Any]]:
    """Return what the broadcaster is to send, in order (Any: JSON)."""
    rows = run_sql(location, "SELECT body FROM notices ORDER BY id")
    return [json.loads(str(body)) for (body,) in rows]


async def test_an_edit_sets_what_was_sent_and_nothing_else(catalog: Catalog) -> None:
    stream = await begun(catalog)
    news = await catalog.labels.add("category", 1, "News", Change(1), active=True)
    france = find_country("fr")
    assert france is not None
    after = await edited(
        catalog, stream, title="Ünder", category=news.id, countries=(france.number,)
    )
    assert (after.title, after.category and after.category.name) == ("Ünder", "News")
    assert after.countries == (france,)
    assert (after.version, after.updated_us) == (stream.version + 1, NOW)
    expected = msgspec.structs.replace(
        stream, title="Ünder", category=after.category, countries=(france,),
        version=after.version, updated_us=NOW,
    )  # fmt: skip
    assert after == expected
    cleared = await edited(catalog, stream, category=None, countries=(), description="Words")
    assert (cleared.category, cleared.countries, cleared.title) == (None, (), "Ünder")
    streams = await catalog.streams.find_page(1, search="ünDER", sort=Sort("title"))
    assert [each.id for each in streams.items] == [stream.id]


@ON_BOTH
async def test_tags_replace_the_whole_list_and_names_make_them(catalog: Catalog) -> None:
    stream = await begun(catalog)
    one = await edited(catalog, stream, tags=("Sport", "Live"))
    assert [tag.name for tag in one.tags] == ["Live", "Sport"]
    sport = one.tags[1]
    two = await edited(catalog, stream, tags=(sport.id, "sPORT"))
    assert two.tags == (sport,)
    assert (await edited(catalog, stream, title="Same")).tags == (sport,)
    assert (await edited(catalog, stream, tags=())).tags == ()


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"category": 99}, "category"),
        ({"player": 99}, "player"),
        ({"tags": ("made", 99)}, "tag"),
        ({"category": 1 << 40}, "category"),
        ({"player": -1}, "player"),
        ({"tags": (1 << 70,)}, "tag"),
    ],
)
async def test_a_refused_edit_changes_nothing(
    catalog: Catalog, change: dict[str, Any], kind: str
) -> None:
    stream = await begun(catalog)
    with pytest.raises(NoSuchLabel) as refused:
        await edited(catalog, stream, title="Other", resolutions=frozenset({6}), **change)
    assert refused.value.kind == kind
    assert await now(catalog, stream) == stream
    assert (await catalog.labels.find_page("tag", 1)).total == 0
    assert "stream edited" not in await kinds(catalog)


async def test_what_belongs_to_another_project_is_not_there(catalog: Catalog) -> None:
    stream = await begun(catalog)
    other = await catalog.projects.add("Other", Change(1))
    theirs = await catalog.labels.add("tag", other.id, "Theirs", Change(1), active=True)
    with pytest.raises(NoSuchLabel):
        await edited(catalog, stream, tags=(theirs.id,))


async def test_a_stream_that_does_not_exist_cannot_be_changed(catalog: Catalog) -> None:
    streams = catalog.streams
    for stream in (99, 1 << 31, 1 << 65):
        assert await streams.edit(stream, StreamDetails.edit(title="x"), Change(1, by=1)) is None
        assert await streams.publish(stream, Change(1, by=1)) is None
        assert await streams.unpublish(stream, Change(1, by=1)) is None
        assert await streams.rotate(stream, Change(1, by=1)) is None
        assert await streams.remove(stream, Change(1, by=1)) is None
        assert await streams.request_end(stream, Change(1, by=1), deadline_us=2) is None
        assert await streams.add_backup(stream, Change(1, by=1)) is None
        assert not await streams.remove_backup(stream, 1, Change(1, by=1))
        assert await catalog.stream_settings.find(stream) is None
        change = SettingsChange(failover=FailoverChange(goodbye_seconds=1.0))
        assert await catalog.stream_settings.change(stream, change, Change(1, by=1)) is None
        assert await streams.pause(stream, Change(1, by=1)) is None
        assert await streams.resume(stream, Change(1, by=1)) is None
        assert await streams.request_drill(stream, Change(1, by=1), deadline_us=2) is None
        assert await catalog.stream_settings.set_slate(stream, "1", Change(1, by=1)) is None
    assert await catalog.commands.find_unanswered() == ()


async def test_unpublishing_wins_over_runs_and_publishing_undoes_it(
    catalog: Catalog, location: str | Path
) -> None:
    stream = await begun(catalog)
    hidden = await catalog.streams.unpublish(stream.id, Change(NOW, by=BY))
    assert hidden is not None
    assert (hidden.published, hidden.hidden) == (False, True)
    await catalog.live_state.set(
        stream.id, live=True, processing=True, on_air=0, sending=(0,), no_audio=False, now_us=NOW
    )
    assert not (await now(catalog, stream)).published
    published = await catalog.streams.publish(stream.id, Change(NOW + 1, by=BY))
    assert published is not None
    assert (published.published, published.hidden, published.published_us) == (True, False, NOW + 1)
    again = await catalog.streams.publish(stream.id, Change(NOW + 2, by=BY))
    assert again == published  # which says nothing new
    assert await kinds(catalog) == [
        "stream added", "unpublished", "live", "published",
    ]  # fmt: skip
    versions = [each["version"] for each in queued_notices(location)]
    assert versions == sorted(set(versions))
    assert [(each["published"], each["live"]) for each in queued_notices(location)] == [
        (False, False), (False, True), (True, True),
    ]  # fmt: skip


async def test_each_state_is_sent_and_written_once(catalog: Catalog, location: str | Path) -> None:
    stream = await begun(catalog)
    for live in (True, True, False):
        await catalog.live_state.set(
            stream.id, live=live, processing=live, on_air=0 if live else None,
            sending=(0,) if live else (), no_audio=False, now_us=NOW,
        )  # fmt: skip
    assert await kinds(catalog) == [
        "stream added", "live", "published", "off air",
    ]  # fmt: skip
    assert [(each["live"], each["receiving_count"]) for each in queued_notices(location)] == [
        (True, 1), (False, 0),
    ]  # fmt: skip
    await catalog.live_state.set(
        stream.id, live=True, processing=True, on_air=0, sending=(0,), no_audio=False, now_us=NOW
    )
    await catalog.live_state.reset(NOW)
    assert (await kinds(catalog))[-1] == "off air"
    assert queued_notices(location)[-1]["live"] is False
    assert queued_notices(location)[-1]["version"] == (await now(catalog, stream)).version


async def test_a_fresh_key_opens_the_stream_and_the_old_one_nothing(catalog: Catalog) -> None:
    stream = await begun(catalog)
    before = await catalog.live_state.find_ingest(stream.key)
    assert before is not None
    assert await catalog.live_state.find_proof(stream.id) == before.proof
    assert before.proof not in repr(before)
    command = await catalog.streams.rotate(stream.id, Change(NOW, by=BY))
    fresh = (await now(catalog, stream)).key
    assert fresh.hash == stream.key.hash
    assert await catalog.live_state.find_ingest(stream.key) is None
    assert (
        await catalog.live_state.find_ingest(StreamKey(hash="", secret=stream.key.secret)) is None
    )
    after = await catalog.live_state.find_ingest(fresh)
    assert after is not None
    assert after.proof != before.proof
    assert await catalog.live_state.find_proof(stream.id) == after.proof
    (pending,) = await catalog.commands.find_unanswered()
    assert (pending.id, pending.command.kind) == (command, CommandKind.DISCONNECT)
    (event, *_) = (await catalog.events.find_page(1)).items
    assert (event.kind, event.token) == ("stream key changed", BY)
    assert fresh.secret not in str(event.facts)
    assert stream.key.secret not in str(event.facts)


async def test_a_deleted_stream_is_gone_with_all_but_its_events(
    catalog: Catalog, location: str | Path
) -> None:
    stream = await begun(catalog)
    await edited(catalog, stream, tags=("Tag",))
    command = await catalog.streams.remove(stream.id, Change(NOW, by=BY))
    assert await catalog.streams.find(stream.id) is None
    assert await catalog.live_state.find_ingest(stream.key) is None
    assert (await catalog.streams.find_page(1)).total == 0
    for table in ("stream_backups", "stream_resolutions", "stream_tags"):
        # The tables' names are the test's own.
        assert run_sql(location, f"SELECT count(*) FROM {table}") == [(0,)]
    assert (await catalog.labels.find_page("tag", 1)).total == 1
    (pending,) = await catalog.commands.find_unanswered()
    assert (pending.id, pending.command.kind) == (command, CommandKind.FORGET)
    assert (pending.command.hash, pending.command.deadline_us) == (stream.hash, None)
    assert await kinds(catalog) == ["stream added", "stream edited", "stream deleted"]
    assert queued_notices(location)[-1]["published"] is False


@ON_BOTH
async def test_backups_have_numbers_that_are_never_used_twice(catalog: Catalog) -> None:
    stream = await begun(catalog)
    (first,) = stream.backups
    assert await catalog.streams.remove_backup(stream.id, first.id, Change(NOW, by=BY))
    assert not await catalog.streams.remove_backup(stream.id, first.id, Change(NOW, by=BY))
    assert (await now(catalog, stream)).backups == ()
    for number in range(2, 2 + MAX_BACKUPS):
        added = await catalog.streams.add_backup(stream.id, Change(NOW, by=BY))
        assert added is not None
        record, backup = added
        assert (record.backups[-1].id, record.backups[-1].number) == (backup, number)
    full = await now(catalog, stream)
    with pytest.raises(TooManyBackups):
        await catalog.streams.add_backup(stream.id, Change(NOW, by=BY))
    assert await now(catalog, stream) == full
    ingest = await catalog.live_state.find_ingest(stream.key)
    assert ingest is not None
    assert ingest.slots == {0, *range(2, 2 + MAX_BACKUPS)}


async def test_a_backup_that_is_sent_to_stays(catalog: Catalog) -> None:
    stream = await begun(catalog)
    (backup,) = stream.backups
    await catalog.live_state.set(
        stream.id, live=True, processing=True, on_air=1, sending=(1,), no_audio=False, now_us=1
    )
    with pytest.raises(BackupInUse):
        await catalog.streams.remove_backup(stream.id, backup.id, Change(NOW, by=BY))
    other = await catalog.streams.add(1, "Other", Change(1))
    assert not await catalog.streams.remove_backup(other.id, backup.id, Change(NOW, by=BY))


@ON_BOTH
async def test_two_edits_at_once_lose_nothing(catalog: Catalog) -> None:
    stream = await begun(catalog)
    async with asyncio.TaskGroup() as tasks:
        for number in range(10):
            tasks.create_task(edited(catalog, stream, title=f"Title {number}"))
            tasks.create_task(edited(catalog, stream, tags=(f"tag {number}",)))
            tasks.create_task(catalog.streams.rotate(stream.id, Change(NOW, by=BY)))
    after = await now(catalog, stream)
    assert after.version == stream.version + 30
    assert after.title.startswith("Title ")
    assert len(after.tags) == 1
    assert (await catalog.labels.find_page("tag", 1)).total == 10


_EDITOR = """
import anyio, sys
from pathlib import Path
from storage.catalog import open_catalog
from storage.catalog.records.common import Change
from storage.catalog.records.details import StreamDetails
async def main():
    place = sys.argv[1] if "://" in sys.argv[1] else Path(sys.argv[1])
    async with open_catalog(place, migrate=False) as catalog:
        together()
        for number in range(20):
            change = StreamDetails.edit(description=f"{sys.argv[2]} {number}")
            assert await catalog.streams.edit(1, change, Change(1)) is not None
            assert await catalog.streams.add_backup(1, Change(1)) is not None
            backup = (await catalog.streams.find(1)).backups[-1]
            await catalog.streams.remove_backup(1, backup.id, Change(1))
anyio.run(main)
"""


@ON_BOTH
async def test_processes_that_edit_at_once_lose_nothing_of_each_other(
    catalog: Catalog, location: str | Path
) -> None:
    stream = await begun(catalog)
    await run_together(*((_EDITOR, str(location), name) for name in ("a", "b")))
    after = await now(catalog, stream)
    # Each added backup had its own number, and was removed once.
    added = run_sql(location, "SELECT next_backup FROM streams WHERE id = 1")
    assert added == [(2 + 40,)]
    edits = (await kinds(catalog)).count("stream edited")
    removed = (await kinds(catalog)).count("backup removed")
    assert edits == 40
    assert after.version == stream.version + edits + 40 + removed
    assert len(after.backups) == 1 + 40 - removed
