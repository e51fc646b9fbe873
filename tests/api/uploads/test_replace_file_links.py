"""Upload links for one video: they allow one replacement of its file, and nothing else."""

import pytest

from storage.catalog.records.common import Change
from storage.cleanup.expired_uploads import AGE_US, remove_expired_uploads
from storage.objects.disk import DiskObjects
from storage.objects.trash import empty_trash
from storage.wall_clock import wall_clock_us
from tests.api.uploads.test_link_uploads import LINKS, add_link, create, form, list_links, videos
from tests.api.uploads.test_replace_file_resumable import OTHER, event_kinds, source_of
from tests.api.uploads.test_single_request import nothing_is_left, remove_for_good
from tests.support.api.application import NOW_US, ApiService, Json
from tests.support.api.tus_client import OFFSETS, TUS, metadata, path_of
from tests.support.api.upload_clips import clip, upload
from tests.support.storage.new_videos import new_video


@pytest.fixture
async def first(api_service: ApiService) -> Json:
    """A video with its file."""
    return (await upload(api_service))["video"]


async def test_a_form_sent_through_a_link_replaces_the_file_of_its_video(
    api_service: ApiService, objects: DiskObjects, first: Json
) -> None:
    path = await add_link(api_service, video_id=first["id"])
    for refused in (form(title="Mine"), form(b"Dear diary")):
        assert (await api_service.client.post(path, **refused)).status_code == 422
    assert await source_of(api_service, objects, first) == clip()
    answer = await api_service.client.post(path, **form(clip(*OTHER)))
    assert answer.status_code == 201, answer.text
    assert answer.json() == {
        "message": "File replaced.",
        "video": {
            "id": first["id"],
            "hash": first["hash"],
            "title": first["title"],
            "size": len(clip(*OTHER)),
        },
    }
    assert await source_of(api_service, objects, first) == clip(*OTHER)
    assert (await api_service.client.post(path, **form())).status_code == 409
    assert (await create(api_service, path)).status_code == 409
    assert await source_of(api_service, objects, first) == clip(*OTHER)
    assert [each["id"] for each in await videos(api_service)] == [first["id"]]
    event = (await api_service.catalog.events.find_page(1)).items[0]
    assert (event.kind, event.subject, event.token) == ("video replaced", first["hash"], None)
    (record,) = await list_links(api_service)
    assert (record["state"], record["video_id"]) == ("used", first["id"])


async def test_a_resumable_upload_through_a_link_replaces_the_file_of_its_video(
    api_service: ApiService, objects: DiskObjects, first: Json
) -> None:
    path = await add_link(api_service, video_id=first["id"])
    for metadata_ in (metadata(title="Mine"), metadata(replaces="1"), metadata(replaces="2")):
        refused = await create(api_service, path, **{"Upload-Metadata": metadata_})
        assert refused.status_code == 422, metadata_
    created = await create(api_service, path, **{"Upload-Metadata": metadata(filename="a.mp4")})
    assert created.status_code == 201, created.text
    upload_path, data = path_of(created), clip()
    headers = {**TUS, **OFFSETS, "Upload-Offset": "0"}
    answer = await api_service.client.patch(upload_path, headers=headers, content=data)
    assert answer.status_code == 204, answer.text
    assert answer.headers["headend-video-hash"] == first["hash"]
    assert (await event_kinds(api_service))[0] == "video replaced"
    assert await source_of(api_service, objects, first) == data
    assert (await create(api_service, path)).status_code == 409
    assert [each["id"] for each in await videos(api_service)] == [first["id"]]


async def test_a_link_for_a_new_video_cannot_replace_one(
    api_service: ApiService, objects: DiskObjects, first: Json
) -> None:
    path = await add_link(api_service)
    metadata_ = {"Upload-Metadata": metadata(replaces=str(first["id"]))}
    refused = await create(api_service, path, **metadata_)
    assert (refused.status_code, set(refused.json()["errors"])) == (422, {"replaces"})
    (record,) = await list_links(api_service)
    assert (record["state"], record["video_id"]) == ("open", None)
    assert await source_of(api_service, objects, first) == clip()


async def test_a_link_is_for_a_video_of_its_project_and_sets_no_details(
    api_service: ApiService, first: Json
) -> None:
    other = await api_service.catalog.projects.add("Other", Change(NOW_US))
    elsewhere = f"/api/projects/{other.id}/upload-links"
    number = first["id"]
    cases: tuple[tuple[str, Json, set[str]], ...] = (
        (LINKS, {"video_id": 999}, {"video_id"}),
        (LINKS, {"video_id": 1 << 70}, {"video_id"}),
        (LINKS, {"video_id": 0}, {"video_id"}),
        (LINKS, {"video_id": str(number)}, {"video_id"}),
        (elsewhere, {"video_id": number}, {"video_id"}),
        (LINKS, {"video_id": number, "title": "x", "tags": []}, {"title", "tags"}),
    )
    for path, body, fields in cases:
        answer = await api_service.client.post(path, json=body, headers=api_service.owner)
        assert answer.status_code == 422, (body, answer.text)
        assert set(answer.json()["errors"]) == fields
    assert await list_links(api_service) == []
    # Details that are null are allowed.
    await add_link(api_service, video_id=number, category=None)
    await add_link(api_service, video_id=None, title="x")


async def test_a_link_waits_for_the_first_file_of_its_video(api_service: ApiService) -> None:
    file = new_video(size=0, source="")
    video = await api_service.catalog.videos.expect(1, file, NOW_US)
    path = await add_link(api_service, video_id=video)
    for answer in (await create(api_service, path), await api_service.client.post(path, **form())):
        assert answer.status_code == 409
        assert answer.json() == {"message": "The video's first file is still coming."}
    (record,) = await list_links(api_service)
    assert record["state"] == "open"


async def test_a_deleted_video_ends_its_links_and_what_comes_through_them(
    api_service: ApiService, objects: DiskObjects, first: Json
) -> None:
    paths = [await add_link(api_service, video_id=first["id"]) for _ in range(2)]
    upload_path = path_of(await create(api_service, paths[0]))
    headers = {**TUS, **OFFSETS, "Upload-Offset": "0"}
    assert (
        await api_service.client.patch(upload_path, headers=headers, content=clip()[:99])
    ).status_code == 204
    deleted = await api_service.client.delete(
        f"/api/videos/{first['id']}", headers=api_service.owner
    )
    assert deleted.status_code == 204
    assert await list_links(api_service) == []
    assert (await api_service.client.head(upload_path, headers=TUS)).status_code == 404
    for path in paths:
        assert (await create(api_service, path)).status_code == 404
        assert (await api_service.client.post(path, **form())).status_code == 404
    assert len(await objects.addresses("uploads")) == 1
    later_us = wall_clock_us() + AGE_US + 1
    await remove_expired_uploads(objects, api_service.catalog.uploads, later_us)
    assert await objects.addresses("uploads") == []
    await empty_trash(objects, later_us)
    await remove_for_good(api_service)
    await nothing_is_left(api_service, objects)


async def test_a_deleted_link_ends_what_comes_through_it_and_the_video_stays(
    api_service: ApiService, objects: DiskObjects, first: Json
) -> None:
    path = await add_link(api_service, video_id=first["id"])
    upload_path = path_of(await create(api_service, path))
    headers = {**TUS, **OFFSETS, "Upload-Offset": "0"}
    assert (
        await api_service.client.patch(upload_path, headers=headers, content=clip()[:99])
    ).status_code == 204
    (record,) = await list_links(api_service)
    link_path = f"{LINKS}/{record['id']}"
    assert (
        await api_service.client.delete(link_path, headers=api_service.owner)
    ).status_code == 204
    assert (await api_service.client.head(upload_path, headers=TUS)).status_code == 404
    assert await source_of(api_service, objects, first) == clip()
    assert (await event_kinds(api_service))[:2] == ["upload link deleted", "upload deleted"]
