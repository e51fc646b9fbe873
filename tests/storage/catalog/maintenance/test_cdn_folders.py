"""Folders of copies: one for each public record, withdrawn when it is not, on both databases."""

import asyncio

from media.countries import find_country
from storage.catalog import Catalog
from storage.catalog.records.common import Change, ProjectRecord
from storage.catalog.records.details import StreamDetails, VideoDetails
from tests.storage.catalog.videos.test_queries import NOW_US, add
from tests.support.shared_engines import ON_BOTH
from tests.support.storage.new_videos import complete_video


async def token(catalog: Catalog, hash_: str) -> str | None:
    record = await catalog.visibility.find(hash_)
    assert record is not None
    return record.cdn_token


async def public_stream(catalog: Catalog, project: ProjectRecord) -> tuple[int, str]:
    stream = await catalog.streams.add(project.id, "A stream", Change(NOW_US))
    await catalog.streams.publish(stream.id, Change(NOW_US))
    return stream.id, stream.hash


@ON_BOTH
async def test_a_record_has_one_secret_folder(catalog: Catalog, project: ProjectRecord) -> None:
    _, hash_ = await public_stream(catalog, project)
    assert await token(catalog, hash_) is None
    async with asyncio.TaskGroup() as tasks:
        for _ in range(8):
            tasks.create_task(catalog.cdn_folders.open(hash_))
    first = await token(catalog, hash_)
    assert first is not None
    assert len(bytes.fromhex(first)) == 16
    assert await catalog.cdn_folders.count() == 1
    assert await catalog.cdn_folders.withdraw(NOW_US) == 0
    assert await token(catalog, hash_) == first
    assert first not in repr(await catalog.visibility.find(hash_))


@ON_BOTH
async def test_a_restricted_unpublished_or_deleted_record_loses_its_folder_for_good(
    catalog: Catalog, project: ProjectRecord
) -> None:
    germany = find_country("DE")
    assert germany is not None
    number, hash_ = await public_stream(catalog, project)
    seen: list[str | None] = []
    for step in ("restrict", "unpublish", "delete"):
        await catalog.cdn_folders.open(hash_)
        seen.append(await token(catalog, hash_))
        match step:
            case "restrict":
                change = StreamDetails.edit(countries=(germany.number,))
                await catalog.streams.edit(number, change, Change(NOW_US))
            case "unpublish":
                await catalog.streams.unpublish(number, Change(NOW_US))
            case _:
                await catalog.streams.remove(number, Change(NOW_US))
        assert await catalog.cdn_folders.withdraw(NOW_US) == 1
        assert await catalog.cdn_folders.withdraw(NOW_US) == 0
        if step != "delete":
            assert await token(catalog, hash_) is None
            change = StreamDetails.edit(countries=())
            await catalog.streams.edit(number, change, Change(NOW_US))
            await catalog.streams.publish(number, Change(NOW_US))
    assert len({*seen, None}) == 4
    withdrawn = await catalog.cdn_folders.find_withdrawn(NOW_US, 10)
    assert {each.token for each in withdrawn} == set(seen)
    assert {each.hash for each in withdrawn} == {hash_}
    assert not any(str(each) in repr(withdrawn) for each in seen)


@ON_BOTH
async def test_videos_have_folders_too(catalog: Catalog, project: ProjectRecord) -> None:
    germany = find_country("DE")
    assert germany is not None
    video = (await add(catalog, project)).video
    assert await catalog.cdn_folders.count_restricted() == 1  # it is not published yet
    await complete_video(catalog, NOW_US)
    await catalog.cdn_folders.open(video.hash)
    assert await catalog.cdn_folders.withdraw(NOW_US) == 0
    assert await token(catalog, video.hash) is not None
    assert await catalog.cdn_folders.count_restricted() == 0
    change = VideoDetails.edit(countries=(germany.number,))
    assert await catalog.videos.edit(video.id, change, Change(NOW_US)) is not None
    assert await catalog.cdn_folders.count_restricted() == 1
    assert await catalog.cdn_folders.withdraw(NOW_US) == 1
    assert await token(catalog, video.hash) is None


@ON_BOTH
async def test_withdrawn_folders_are_found_and_forgotten(
    catalog: Catalog, project: ProjectRecord
) -> None:
    hashes = [(await public_stream(catalog, project))[1] for _ in range(3)]
    for hash_ in hashes:
        await catalog.cdn_folders.open(hash_)
    kept = await token(catalog, hashes[0])
    folders = catalog.cdn_folders
    assert kept is not None
    assert await folders.withdraw(NOW_US, all_folders=True) == 3
    assert await folders.find_withdrawn(NOW_US - 1, 10) == ()
    found = await folders.find_withdrawn(NOW_US, 2)
    assert len(found) == 2
    assert await folders.count_overdue(NOW_US) == 3
    await folders.open(hashes[0])  # it has a new one, which stays
    new = await token(catalog, hashes[0])
    assert new is not None
    await folders.forget(await folders.find_withdrawn(NOW_US, 10))
    assert (await folders.count(), await folders.count_overdue(NOW_US)) == (1, 0)
    assert await folders.find_known([kept, new, "other"]) == {new}
