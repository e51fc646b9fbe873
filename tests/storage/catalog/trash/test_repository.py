"""Deleted, hidden from every question, restored with every row, removed for good: each noun."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec
import pytest

from media.ticks import DAY_US
from storage.catalog import Catalog
from storage.catalog.streams.commands import CommandKind
from storage.catalog.videos.jobs import TRANSCODE as WORK
from tests.support.shared_engines import ON_BOTH
from tests.support.sql import run_sql
from tests.support.storage.new_videos import new_video
from tests.support.storage.trashed_records import (
    HASH,
    KEEP,
    LATER,
    NOW,
    SLATE,
    Furnished,
    all_rows,
)

Delete = Callable[[Catalog, Furnished], Awaitable[object]]
UNTIL_US: Final = KEEP.now_us + KEEP.keep_us


async def delete_stream(catalog: Catalog, furnished: Furnished) -> object:
    return await catalog.streams.remove(furnished.stream.id, KEEP)


async def delete_video(catalog: Catalog, furnished: Furnished) -> object:
    return await catalog.videos.remove(furnished.video, KEEP)


async def delete_project(catalog: Catalog, furnished: Furnished) -> object:
    return await catalog.projects.remove(furnished.project.id, KEEP)


NOUNS_OF_PROJECT: Final = [("stream", delete_stream), ("video", delete_video)]
NOUNS = pytest.mark.parametrize(
    ("noun", "delete"), [*NOUNS_OF_PROJECT, ("project", delete_project)]
)


async def the_one(catalog: Catalog, noun: str, furnished: Furnished) -> int:
    """Return the number of what was deleted, in the trash."""
    if noun == "project":
        page = await catalog.trash.find_projects(1, NOW)
    else:
        page = await catalog.trash.find_page(furnished.project.id, 1, NOW)
    (found,) = [each for each in page.items if each.kind == noun]
    assert (found.deleted_us, found.until_us) == (KEEP.now_us, UNTIL_US)
    return found.id


@ON_BOTH
@NOUNS
async def test_all_rows_come_back_as_they_were(
    catalog: Catalog, location: str | Path, furnished: Furnished, noun: str, delete: Delete
) -> None:
    before = all_rows(location)
    assert await delete(catalog, furnished)
    assert all_rows(location) != before
    number = await the_one(catalog, noun, furnished)
    restored = await catalog.trash.restore(number, LATER)
    assert restored is not None
    assert all_rows(location) == before
    assert await catalog.trash.restore(number, LATER) is None
    (kind,) = run_sql(location, "SELECT kind FROM events ORDER BY id DESC LIMIT 1")[0]
    assert kind == f"{noun} restored"
    assert await catalog.commands.find_unanswered() == (), "nothing is to be forgotten any more"


@ON_BOTH
@NOUNS
async def test_it_is_removed_for_good(
    catalog: Catalog, location: str | Path, furnished: Furnished, noun: str, delete: Delete
) -> None:
    assert await delete(catalog, furnished)
    number = await the_one(catalog, noun, furnished)
    assert await catalog.trash.remove(number, LATER) is not None
    assert await catalog.trash.restore(number, LATER) is None
    assert await catalog.trash.remove(number, LATER) is None
    removed = {address for (address,) in run_sql(location, "SELECT address FROM removals")}
    hash_ = furnished.stream.hash
    assert (
        removed
        == {
            "stream": {f"live/{hash_}", f"slates/s-{hash_}"},
            "video": {f"videos/{HASH}", f"sources/{HASH}"},
            "project": set(),
        }[noun]
    )
    if noun == "project":
        found = await catalog.removed_projects.find()
        assert found is not None
        assert found.id == furnished.project.id, "it is removed in the background"


@NOUNS
async def test_what_has_expired_is_neither_shown_nor_restored(
    catalog: Catalog, location: str | Path, furnished: Furnished, noun: str, delete: Delete
) -> None:
    await delete(catalog, furnished)
    number = await the_one(catalog, noun, furnished)
    late = msgspec.structs.replace(LATER, now_us=UNTIL_US)
    assert await catalog.trash.find(number, UNTIL_US - 1) is not None
    assert await catalog.trash.find(number, UNTIL_US) is None
    assert (await catalog.trash.find_projects(1, UNTIL_US)).total == 0
    assert (await catalog.trash.find_page(furnished.project.id, 1, UNTIL_US + DAY_US)).total == 0
    assert await catalog.trash.restore(number, late) is None
    assert await catalog.trash.expire(UNTIL_US) > 0
    assert await catalog.trash.expire(UNTIL_US) == 0
    assert not run_sql(location, "SELECT 1 FROM removals WHERE NOT to_trash"), "a clock ordered it"


@pytest.mark.parametrize(("noun", "delete"), NOUNS_OF_PROJECT)
async def test_a_deleted_project_shows_and_restores_nothing_of_its_own_trash(
    catalog: Catalog, furnished: Furnished, noun: str, delete: Delete
) -> None:
    await delete(catalog, furnished)
    number = await the_one(catalog, noun, furnished)
    await delete_project(catalog, furnished)
    assert await catalog.trash.find(number, NOW) is None
    project = await the_one(catalog, "project", furnished)
    assert await catalog.trash.restore(project, LATER) is not None
    assert await catalog.trash.find(number, NOW) is not None
    assert await catalog.trash.restore(number, LATER) is not None


@ON_BOTH
async def test_labels_that_are_gone_are_left_out(
    catalog: Catalog, location: str | Path, furnished: Furnished
) -> None:
    await delete_stream(catalog, furnished)
    await delete_video(catalog, furnished)
    for table in ("tags", "categories", "players"):
        run_sql(location, f"DELETE FROM {table}")  # constants
    for noun in ("stream", "video"):
        number = await the_one(catalog, noun, furnished)
        assert await catalog.trash.restore(number, LATER) is not None
    stream = await catalog.streams.find(furnished.stream.id)
    video = await catalog.videos.find(furnished.video)
    assert stream is not None
    assert video is not None
    assert (stream.category, stream.player, stream.tags) == (None, None, ())
    assert (video.category, video.player, video.tags) == (None, None, ())


async def test_the_hash_of_what_is_in_the_trash_is_not_given_again(
    catalog: Catalog, furnished: Furnished
) -> None:
    await delete_video(catalog, furnished)
    assert await catalog.videos.find_known([HASH]) == {HASH}
    assert await catalog.references.videos([HASH]) == {HASH}
    await delete_stream(catalog, furnished)
    stream = furnished.stream
    assert await catalog.references.streams([stream.hash]) == {stream.hash}
    assert await catalog.references.slates([f"s-{stream.hash}"]) == {
        f"slates/s-{stream.hash}/{SLATE}.jpg"
    }


async def test_it_counts_for_the_quota_until_it_is_removed_for_good(
    catalog: Catalog, furnished: Furnished
) -> None:
    project = furnished.project.id
    before = await catalog.usage.find(project, 0)
    await delete_video(catalog, furnished)
    await delete_stream(catalog, furnished)
    deleted = await catalog.usage.find(project, 0)
    assert (deleted.streams, deleted.stored_bytes) == (before.streams, before.stored_bytes)
    assert (deleted.trash_streams, deleted.trash_bytes) == (1, before.stored_bytes)
    assert deleted.file_us == before.file_us
    number = await the_one(catalog, "video", furnished)
    await catalog.trash.restore(number, LATER)
    assert (await catalog.usage.find(project, 0)).file_us == before.file_us
    await delete_video(catalog, furnished)
    for noun in ("video", "stream"):
        await catalog.trash.remove(await the_one(catalog, noun, furnished), LATER)
    after = await catalog.usage.find(project, 0)
    assert (after.streams, after.stored_bytes) == (0, 0)


@ON_BOTH
async def test_a_key_in_the_trash_is_known_as_such_and_opens_nothing(
    catalog: Catalog, furnished: Furnished
) -> None:
    key, bare = furnished.stream.key, msgspec.structs.replace(furnished.stream.key, hash="")
    wrong = msgspec.structs.replace(key, secret="00000000-0000-0000-0000-000000000000")
    other = msgspec.structs.replace(key, hash="Other1234567")
    live = catalog.live_state
    assert not await live.is_deleted(key)
    for noun, delete in (("stream", delete_stream), ("project", delete_project)):
        await delete(catalog, furnished)
        assert await live.find_ingest(key) is None
        assert [await live.is_deleted(each) for each in (key, bare, wrong, other)] == [
            True, True, False, False,
        ]  # fmt: skip
        await catalog.trash.restore(await the_one(catalog, noun, furnished), LATER)
        assert not await live.is_deleted(key)
        assert await live.find_ingest(key) is not None


async def test_ingest_is_told_that_the_media_stay(catalog: Catalog, furnished: Furnished) -> None:
    await delete_stream(catalog, furnished)
    (record,) = await catalog.commands.find_unanswered()
    assert (record.command.kind, record.command.keeps_media) == (CommandKind.FORGET, True)


@ON_BOTH
async def test_the_work_of_a_deleted_video_begins_anew_with_the_next_attempt(
    catalog: Catalog, furnished: Furnished
) -> None:
    video = furnished.video
    await catalog.former_files.take_back(video, KEEP)
    job = await catalog.jobs.lease("one", KEEP.now_us, WORK)
    assert job is not None
    await delete_video(catalog, furnished)
    assert await catalog.jobs.lease("two", NOW, WORK) is None
    await catalog.trash.restore(await the_one(catalog, "video", furnished), LATER)
    again = await catalog.jobs.lease("two", LATER.now_us, WORK)
    assert again is not None
    assert (again.subject, again.attempt) == (video, job.attempt + 1)


@ON_BOTH
async def test_the_work_of_a_project_in_the_trash_rests(
    catalog: Catalog, furnished: Furnished
) -> None:
    await catalog.former_files.take_back(furnished.video, KEEP)
    await delete_project(catalog, furnished)
    assert not await catalog.jobs.has_due(NOW + DAY_US, WORK)
    assert await catalog.jobs.lease("one", NOW + DAY_US, WORK) is None
    await catalog.trash.restore(await the_one(catalog, "project", furnished), LATER)
    assert await catalog.jobs.lease("one", NOW + DAY_US, WORK) is not None


async def test_a_video_whose_file_has_not_arrived_is_deleted_at_once(
    catalog: Catalog, furnished: Furnished
) -> None:
    number = await catalog.videos.expect(furnished.project.id, new_video(source=""), NOW)
    assert await catalog.videos.remove(number, KEEP) is not None
    kinds = [
        each.kind for each in (await catalog.trash.find_page(furnished.project.id, 1, NOW)).items
    ]
    assert kinds == ["file"]


async def test_nothing_is_kept_for_no_time(
    catalog: Catalog, location: str | Path, furnished: Furnished
) -> None:
    await catalog.streams.remove(furnished.stream.id, LATER)
    await catalog.videos.remove(furnished.video, LATER)
    assert await catalog.trash.count() == 0, "the former file goes with its video"
    assert len(run_sql(location, "SELECT 1 FROM removals")) == 4
