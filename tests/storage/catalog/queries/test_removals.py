"""Whatever removes the last row that names objects records that they are to be deleted."""

import pytest

from media.ticks import DAY_US
from storage.catalog import Catalog
from storage.catalog.engine.database import Database
from storage.catalog.events.kinds import UploadDeletedEvent
from storage.catalog.projects.removal import RemovedRows
from storage.catalog.queries import removals
from storage.catalog.records.common import Change, ProjectRecord
from storage.catalog.records.videos import VideoFile
from storage.objects.upload_pieces import UploadPiece
from tests.support.shared_engines import ON_BOTH
from tests.support.storage.new_videos import new_upload, new_video

NOW = 1_700_000_000_000_000
LATER = 1 << 62
HASH = "AAAAAAAAAAAA"


async def recorded(catalog: Catalog) -> set[str]:
    """Return the addresses of all removals, those of folders with a slash; forget them.

    Those that go to the trash follow "trash ".
    """
    due = await catalog.removals.find_due(LATER, 1000)
    await catalog.removals.forget([each.address for each in due])
    return {f"{'trash ' * each.to_trash}{each.address}{'/' * each.is_folder}" for each in due}


@ON_BOTH
async def test_a_removal_is_due_after_a_minute_of_the_databases_clock(
    catalog: Catalog, project: ProjectRecord
) -> None:
    whole = await catalog.videos.add(project.id, new_video(HASH), Change(NOW))
    assert await catalog.videos.remove(whole.video.id, Change(NOW)) == HASH
    await catalog.clock.synchronize()
    now_us = catalog.clock.now_us()
    assert await catalog.removals.find_due(now_us, 9) == ()
    first, second = await catalog.removals.find_due(now_us + removals.FIRST_US, 9)
    assert [first.address, second.address] == [f"sources/{HASH}", f"videos/{HASH}"]
    assert abs(first.recorded_us - now_us) < 60_000_000
    await catalog.removals.postpone([first.address], LATER)
    assert await catalog.removals.find_due(LATER - 1, 9) == (second,)
    await catalog.removals.forget([second.address])
    assert await catalog.removals.find_due(LATER, 9) == (first,)


@ON_BOTH
async def test_what_is_overdue(catalog: Catalog, database: Database) -> None:
    assert await catalog.removals.find_overdue(LATER, 9) == removals.Overdue(
        count=0, first=(), cause=""
    )
    async with database.writing() as connection:
        await removals.record(connection, objects=["slates/a.jpg", "slates/b.jpg", "slates/c.jpg"])
    (first, *_) = (await catalog.removals.find_overdue(LATER, 2)).first
    assert (first.address, first.cause) == ("slates/a.jpg", "")
    await catalog.removals.postpone(["slates/a.jpg"], LATER + 1, cause="x" * 200)
    await catalog.removals.postpone(["slates/c.jpg"], LATER, cause="earlier")
    overdue = await catalog.removals.find_overdue(LATER, 2)
    assert (overdue.count, len(overdue.first), overdue.cause) == (3, 2, "x" * 100)
    assert overdue.first[0].cause == "x" * 100
    assert (await catalog.removals.find_overdue(first.recorded_us - 1, 2)).count == 0
    await catalog.removals.postpone(["slates/a.jpg"], LATER)
    assert (await catalog.removals.find_overdue(LATER, 2)).cause == "earlier", "a succeeded"


@ON_BOTH
async def test_what_is_recorded_twice_is_one_removal(catalog: Catalog, database: Database) -> None:
    for _ in range(2):
        async with database.writing() as connection:
            await removals.of_videos(connection, [HASH, HASH])
            await removals.record(connection)
    assert await recorded(catalog) == {f"videos/{HASH}/", f"sources/{HASH}/"}


@ON_BOTH
async def test_what_is_to_be_deleted_is_known_with_all_that_is_in_it(
    catalog: Catalog, database: Database
) -> None:
    async with database.writing() as connection:
        await removals.record(connection, folders=[f"videos/{HASH}"], objects=["slates/s-a/b.jpg"])
    inside = {f"videos/{HASH}", f"videos/{HASH}/own-a", f"videos/{HASH}/1-1/a", "slates/s-a/b.jpg"}
    others = {"videos", f"sources/{HASH}", f"videos/{HASH}B", "slates/s-a", "slates/s-a/c.jpg"}
    assert await catalog.references.find_removed([*inside, *others]) == inside
    assert await catalog.references.find_removed([]) == frozenset()


async def test_a_transaction_that_fails_records_nothing(
    catalog: Catalog, database: Database
) -> None:
    with pytest.raises(RuntimeError, match="killed"):
        async with database.writing() as connection:
            await removals.of_videos(connection, [HASH])
            raise RuntimeError("killed")
    assert await recorded(catalog) == set()


@ON_BOTH
async def test_files_that_take_the_place_of_others(
    catalog: Catalog, project: ProjectRecord
) -> None:
    whole = await catalog.videos.add(project.id, new_video(HASH), Change(NOW))
    kept = Change(NOW, keep_us=DAY_US)
    for name, change, gone in (
        ("r-two", kept, set[str]()),
        ("r-three", Change(NOW), {f"sources/{HASH}/r-two"}),
    ):
        file = VideoFile(source=f"sources/{HASH}/{name}", size=1)
        await catalog.videos.replace(whole.video.id, file, change)
        assert await recorded(catalog) == gone
    assert await catalog.former_files.take_back(whole.video.id, kept) is not None
    assert await recorded(catalog) == set(), "both can be taken back"
    assert await catalog.trash.expire(NOW + DAY_US) == 1
    assert await recorded(catalog) == {f"trash sources/{HASH}/r-three"}, "a clock ordered it"
    for name, gone in (("own-a", set[str]()), ("own-b", {f"videos/{HASH}/own-a/"})):
        await catalog.videos.set_posters(whole.video.id, name, ("360p",), Change(NOW))
        assert await recorded(catalog) == gone


async def test_streams_and_slates(catalog: Catalog, project: ProjectRecord) -> None:
    stream = await catalog.streams.add(project.id, "Morning", Change(NOW))
    for settings, number, owner in (
        (catalog.stream_settings, stream.id, f"s-{stream.hash}"),
        (catalog.project_settings, project.id, f"p-{project.key}"),
    ):
        for name, gone in (("one", set[str]()), ("two", {"one"}), (None, {"two"})):
            await settings.set_slate(number, name, Change(NOW))
            assert await recorded(catalog) == {f"slates/{owner}/{each}.jpg" for each in gone}
    assert await catalog.streams.remove(stream.id, Change(NOW)) is not None
    assert await recorded(catalog) == {f"live/{stream.hash}/", f"slates/s-{stream.hash}/"}


async def test_uploads(catalog: Catalog, project: ProjectRecord) -> None:
    """A first file takes its video with it, one that replaces another does not."""
    whole = await catalog.videos.add(project.id, new_video(HASH), Change(NOW))
    begun = await catalog.uploads.begin(project.id, new_upload("a", expires_us=NOW), NOW)
    again = new_upload("b", expires_us=NOW, replaces=whole.video.id)
    await catalog.uploads.begin(project.id, again, NOW)
    for name in ("a", "b"):
        assert await catalog.uploads.remove(name, UploadDeletedEvent, Change(NOW))
    assert await recorded(catalog) == {
        *("uploads/a", "pieces/a/", "uploads/b", "pieces/b/"),
        *(f"videos/{begun.hash}/", f"sources/{begun.hash}/"),
    }


async def test_pieces_of_an_upload_that_has_become_a_file(
    catalog: Catalog, project: ProjectRecord
) -> None:
    for name, pieces in (("a", (UploadPiece(0, 100, "x"),)), ("b", ())):
        record = await catalog.uploads.begin(project.id, new_upload(name, expires_us=NOW), NOW)
        await catalog.uploads.claim(name, "w")
        await catalog.uploads.record_received(record, "w", 100, NOW, NOW, pieces)
        file = VideoFile(source=f"sources/{record.hash}/1", size=100)
        assert await catalog.uploads.finish(name, "w", file, Change(NOW)) is not None
        assert await recorded(catalog) == ({f"pieces/{name}/"} if pieces else set())


@ON_BOTH
async def test_rows_of_a_deleted_project(catalog: Catalog) -> None:
    await catalog.projects.add("first", Change(NOW))  # which cannot be deleted
    project = await catalog.projects.add("second", Change(NOW))
    await catalog.videos.add(project.id, new_video(HASH), Change(NOW))
    await catalog.uploads.begin(project.id, new_upload("a", expires_us=NOW), NOW)
    await catalog.projects.remove(project.id, Change(NOW))
    rows = await catalog.removed_projects.find_rows(project.id)
    assert isinstance(rows, RemovedRows)
    await catalog.removed_projects.remove_rows(rows)
    folders = {f"{top}/{HASH}/" for top in ("videos", "sources", "live")}
    assert await recorded(catalog) >= {*folders, f"slates/s-{HASH}/", "uploads/a", "pieces/a/"}
    while not await catalog.removed_projects.remove_rest(project.id):
        pass
    assert await recorded(catalog) == {f"slates/p-{project.key}/"}
