"""A video's file replaced by a resumable upload: the video stays available meanwhile."""

import asyncio

import httpx
import pytest

from media.stream_keys import new_hash
from storage.catalog.records.common import Change
from storage.catalog.videos.jobs import TRANSCODE
from storage.cleanup.expired_uploads import remove_expired_uploads
from storage.objects import addresses
from storage.objects.disk import DiskObjects
from tests.api.uploads.test_replace_file import put
from tests.api.uploads.test_single_request import (
    nothing_is_left,
    remove_for_good,
    stored_addresses,
)
from tests.api.videos.test_item import get_video
from tests.api.videos.test_item_made import transcode_videos
from tests.support.api.application import NOW_US, ApiService, Json
from tests.support.api.tus_client import OFFSETS, TUS, UPLOADS, create, metadata, send
from tests.support.api.upload_clips import clip, upload
from tests.support.shared_engines import ON_SHARED
from tests.support.storage.new_videos import new_upload, new_video

OTHER = ("320x180", "2")


def replacing(video: Json, **more: str) -> str:
    return metadata(filename="a.mp4", replaces=str(video["id"]), **more)


async def begin(api_service: ApiService, video: Json, length: int | None = None) -> str:
    size = len(clip(*OTHER)) if length is None else length
    return await create(api_service, size, Upload_Metadata=replacing(video))


async def source_of(api_service: ApiService, objects: DiskObjects, video: Json) -> bytes:
    """Return the file that a video's row names: there are no others but the former one."""
    (row,) = await api_service.catalog.references.find_references([video["hash"]])
    assert row.source is not None
    assert set(await objects.addresses("sources")) == {row.source, *row.former}
    assert await objects.addresses("uploads") == []
    return await objects.get(row.source)


async def event_kinds(api_service: ApiService) -> list[str]:
    return [event.kind for event in (await api_service.catalog.events.find_page(1)).items]


async def test_a_file_in_pieces_replaces_a_videos_and_the_hash_stays(
    api_service: ApiService, objects: DiskObjects
) -> None:
    first: Json = (await upload(api_service))["video"]
    await transcode_videos(api_service, objects, first["id"])
    before = await get_video(api_service, first["id"])
    data = clip(*OTHER)
    path = await begin(api_service, first)
    assert (await send(api_service, path, 0, data[:999])).status_code == 204
    # Until the last byte, the video does not change.
    assert await get_video(api_service, first["id"]) == before
    status = (await api_service.client.get(path, headers=api_service.owner)).json()["data"]
    assert status["video"] == {"id": first["id"], "hash": first["hash"]}
    answer = await send(api_service, path, 999, data[999:])
    assert answer.status_code == 204, answer.text
    assert answer.headers["headend-video-id"] == str(first["id"])
    after = await get_video(api_service, first["id"])
    for key in ("id", "hash", "title", "name", "video", "published_at"):
        assert after[key] == before[key], key
    assert (after["size"], after["completed"], after["published"]) == (len(data), False, True)
    assert (await event_kinds(api_service))[:2] == ["video replaced", "video completed"]
    record = await api_service.catalog.videos.find(first["id"])
    assert record is not None
    assert record.video.media == "1-1"
    assert await source_of(api_service, objects, first) == data
    head = await api_service.client.head(path, headers={**api_service.owner, **TUS})
    assert head.headers["upload-offset"] == str(len(data))
    # Another HEAD request changes nothing.
    assert (
        await api_service.client.head(path, headers={**api_service.owner, **TUS})
    ).status_code == 200
    assert await source_of(api_service, objects, first) == data


async def test_a_file_sent_with_its_creation_or_of_unknown_length_replaces_too(
    api_service: ApiService, objects: DiskObjects
) -> None:
    first: Json = (await upload(api_service))["video"]
    data = clip(*OTHER)
    headers = {**api_service.owner, **TUS, **OFFSETS, "Upload-Metadata": replacing(first)}
    answer = await api_service.client.post(
        UPLOADS, headers={**headers, "Upload-Length": str(len(data))}, content=data
    )
    assert (answer.status_code, answer.headers["upload-offset"]) == (201, str(len(data)))
    assert await source_of(api_service, objects, first) == data
    deferred = await api_service.client.post(
        UPLOADS, headers={**headers, "Upload-Defer-Length": "1"}, content=clip()
    )
    path = httpx.URL(deferred.headers["location"]).path
    assert (await get_video(api_service, first["id"]))["size"] == len(data)
    length = {"Upload-Length": str(len(clip()))}
    assert (await send(api_service, path, len(clip()), b"", length)).status_code == 204
    assert await source_of(api_service, objects, first) == clip()


async def test_a_replacement_of_an_unknown_video_is_refused(
    api_service: ApiService, objects: DiskObjects
) -> None:
    first: Json = (await upload(api_service))["video"]
    other = await api_service.catalog.projects.add("Other", Change(NOW_US))
    theirs = f"/api/projects/{other.id}/uploads"
    for path, text in (
        (UPLOADS, "999"), (UPLOADS, ""), (UPLOADS, "01"), (UPLOADS, "one"), (UPLOADS, "9" * 30),
        (UPLOADS, first["hash"]), (UPLOADS, str((1 << 31) + 5)), (theirs, str(first["id"])),
    ):  # fmt: skip
        headers = {"Upload-Length": "9", "Upload-Metadata": metadata(replaces=text)}
        answer = await api_service.client.post(
            path, headers={**api_service.owner, **TUS, **headers}
        )
        assert answer.status_code == 404, (text, answer.text)
        assert answer.json() == {"message": "There is no such video."}
    reader = await api_service.headers_of("reader", 1, write=False)
    headers = {**TUS, "Upload-Length": "9", "Upload-Metadata": replacing(first)}
    assert (
        await api_service.client.post(UPLOADS, headers={**reader, **headers})
    ).status_code == 403
    assert await api_service.catalog.uploads.find_expired(1 << 60, 10) == ()
    assert await source_of(api_service, objects, first) == clip()


async def test_a_replacement_takes_no_details_of_the_video(
    api_service: ApiService,
) -> None:
    first: Json = (await upload(api_service))["video"]
    details = replacing(first, filetype="video/mp4", title="New", tags="[]", poem="x")
    headers = {**api_service.owner, **TUS, "Upload-Length": "9", "Upload-Metadata": details}
    answer = await api_service.client.post(UPLOADS, headers=headers)
    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == {"title", "tags", "poem"}
    assert await api_service.catalog.uploads.find_expired(1 << 60, 10) == ()
    assert (await get_video(api_service, first["id"]))["title"] == first["title"]


async def test_a_video_whose_first_file_is_coming_gets_no_other(api_service: ApiService) -> None:
    file = new_video(size=0, source="")
    video = await api_service.catalog.videos.expect(1, file, NOW_US)
    headers = {"Upload-Length": "9", "Upload-Metadata": metadata(replaces=str(video))}
    answer = await api_service.client.post(UPLOADS, headers={**api_service.owner, **TUS, **headers})
    assert answer.status_code == 409
    assert answer.json() == {"message": "The video's first file is still coming."}


async def test_a_file_that_is_no_media_is_refused_at_the_last_byte_and_the_video_stays(
    api_service: ApiService, objects: DiskObjects
) -> None:
    first: Json = (await upload(api_service))["video"]
    before = await get_video(api_service, first["id"])
    path = await begin(api_service, first, 1000)
    answer = await send(api_service, path, 0, b"Dear diary" * 100)
    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == {"video"}
    assert (await send(api_service, path, 1000, b"")).status_code == 404
    assert await source_of(api_service, objects, first) == clip()
    assert await get_video(api_service, first["id"]) == before
    event = (await api_service.catalog.events.find_page(1)).items[0]
    assert (event.kind, event.subject) == ("upload refused", first["hash"])


async def test_an_upload_that_is_ended_leaves_the_video(
    api_service: ApiService, objects: DiskObjects
) -> None:
    first: Json = (await upload(api_service))["video"]
    path = await begin(api_service, first)
    assert (await send(api_service, path, 0, clip(*OTHER)[:500])).status_code == 204
    assert (
        await api_service.client.delete(path, headers={**api_service.owner, **TUS})
    ).status_code == 204
    assert (await send(api_service, path, 500, b"x")).status_code == 404
    assert await source_of(api_service, objects, first) == clip()


async def test_a_video_that_is_deleted_meanwhile_takes_the_upload_with_it(
    api_service: ApiService, objects: DiskObjects
) -> None:
    first: Json = (await upload(api_service))["video"]
    path = await begin(api_service, first)
    assert (await send(api_service, path, 0, clip(*OTHER)[:500])).status_code == 204
    deleted = await api_service.client.delete(
        f"/api/videos/{first['id']}", headers=api_service.owner
    )
    assert deleted.status_code == 204
    assert (await send(api_service, path, 500, clip(*OTHER)[500:])).status_code == 404
    assert await remove_expired_uploads(objects, api_service.catalog.uploads, NOW_US + 1) == 1
    await remove_for_good(api_service)
    await nothing_is_left(api_service, objects)


async def leave_whole_upload(
    api_service: ApiService, objects: DiskObjects, video: Json, address: str
) -> str:
    """Leave an upload like a process that dies after receiving the whole file; return its path."""
    data = clip(*OTHER)
    new = new_upload(
        new_hash() + new_hash(), length=len(data), expires_us=NOW_US * 2, replaces=video["id"]
    )
    record = await api_service.catalog.uploads.begin(1, new, NOW_US)
    await api_service.catalog.uploads.claim(record.name, "dead")
    assert await api_service.catalog.uploads.record_received(
        record, "dead", len(data), NOW_US * 2, NOW_US
    )
    await objects.put(address.format(record.name), data)
    return f"{UPLOADS}/{record.name}"


@pytest.mark.skipif(ON_SHARED, reason="arriving bytes are in scratch (test_receiver_over_hosts)")
@pytest.mark.parametrize("moved", [True, False])
async def test_a_file_received_before_a_crash_replaces_at_the_next_request(
    api_service: ApiService, objects: DiskObjects, moved: bool
) -> None:
    first: Json = (await upload(api_service))["video"]
    address = addresses.replaced_source(first["hash"], "{}") if moved else addresses.upload("{}")
    path = await leave_whole_upload(api_service, objects, first, address)
    answer = await api_service.client.head(path, headers={**api_service.owner, **TUS})
    assert answer.status_code == 200
    assert await source_of(api_service, objects, first) == clip(*OTHER)
    assert (await event_kinds(api_service))[0] == "video replaced"


async def test_a_video_that_is_deleted_at_the_last_moment_leaves_nothing(
    api_service: ApiService, objects: DiskObjects
) -> None:
    """The video is deleted while the completely received file is being probed."""
    first: Json = (await upload(api_service))["video"]
    path = await begin(api_service, first)
    async with asyncio.TaskGroup() as tasks:
        append = tasks.create_task(send(api_service, path, 0, clip(*OTHER)))
        name = path.rpartition("/")[2]
        async with asyncio.timeout(30):
            while True:
                record = await api_service.catalog.uploads.find(name)
                assert record is not None
                if record.whole or append.done():
                    break
                await asyncio.sleep(0.005)
        deleted = await api_service.client.delete(
            f"/api/videos/{first['id']}", headers=api_service.owner
        )
        assert deleted.status_code == 204
    # The answer depends on which was faster; in both cases nothing is left.
    assert append.result().status_code in (204, 404), append.result().text
    await remove_expired_uploads(objects, api_service.catalog.uploads, NOW_US + 1)
    await remove_for_good(api_service)
    await nothing_is_left(api_service, objects)


@pytest.mark.parametrize("last", ["put", "tus"])
async def test_the_later_of_two_replacements_stays(
    api_service: ApiService, objects: DiskObjects, last: str
) -> None:
    first: Json = (await upload(api_service))["video"]
    data = clip(*OTHER)
    path = await begin(api_service, first)
    assert (await send(api_service, path, 0, data[:-1])).status_code == 204
    if last == "put":
        assert (await send(api_service, path, len(data) - 1, data[-1:])).status_code == 204
    answer = await put(api_service, first["id"], video=("a.mp4", clip("64x64", "1")))
    assert answer.status_code == 200, answer.text
    if last == "tus":
        assert (await send(api_service, path, len(data) - 1, data[-1:])).status_code == 204
    assert await source_of(api_service, objects, first) == (
        data if last == "tus" else clip("64x64", "1")
    )
    assert await api_service.catalog.jobs.lease("one", 1 << 60, TRANSCODE) is not None
    assert await api_service.catalog.jobs.lease("two", 1 << 60, TRANSCODE) is None


async def test_concurrent_replacements_leave_one_file_all_former_ones_and_one_job(
    api_service: ApiService, objects: DiskObjects
) -> None:
    first: Json = (await upload(api_service))["video"]
    data, other = clip(*OTHER), clip("64x64", "1")
    paths = [await begin(api_service, first) for _ in range(2)]
    async with asyncio.TaskGroup() as tasks:
        replacements = [tasks.create_task(send(api_service, path, 0, data)) for path in paths]
        replacements += [
            tasks.create_task(put(api_service, first["id"], video=("a.mp4", other))) for _ in "ab"
        ]
    assert [each.result().status_code for each in replacements] == [204, 204, 200, 200]
    source = await source_of(api_service, objects, first)
    assert (await get_video(api_service, first["id"]))["size"] == len(source)
    assert source in (data, other)
    assert len(await stored_addresses(objects)) == 5, "the file, and those in the trash"
    assert await api_service.catalog.jobs.lease("one", 1 << 60, TRANSCODE) is not None
    assert await api_service.catalog.jobs.lease("two", 1 << 60, TRANSCODE) is None
    assert (await event_kinds(api_service)).count("video replaced") == 4
