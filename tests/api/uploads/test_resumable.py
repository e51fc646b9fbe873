"""Resumable uploads: the protocol, status by status, and the resulting video."""

import base64
import hashlib

import httpx
import pytest

from storage.catalog.records.common import Change
from storage.catalog.videos.jobs import TRANSCODE
from storage.objects.disk import DiskObjects
from tests.api.uploads.test_single_request import nothing_is_left, stored_addresses
from tests.support.api.application import NOW_US, ApiService, Json
from tests.support.api.tus_client import OFFSETS, TUS, UPLOADS, create, metadata, path_of, send
from tests.support.api.upload_clips import VIDEOS, clip

TEXT = b"Dear diary, " * 100


async def find_video(api_service: ApiService, number: object = None) -> Json:
    """Return the newest video's record in the list."""
    listed = (await api_service.client.get(VIDEOS, headers=api_service.owner)).json()["data"]
    matching = [each for each in listed if number is None or each["id"] == int(str(number))]
    return matching[0]


async def head(api_service: ApiService, path: str) -> httpx.Response:
    return await api_service.client.head(path, headers={**api_service.owner, **TUS})


async def test_a_file_in_three_pieces_becomes_a_video(
    api_service: ApiService, objects: DiskObjects
) -> None:
    data = clip()
    details = metadata(
        filename="My Film.mp4", filetype="video/mp4", description="It is ours.",
        tags='[{"name":"New"}]',
        countries='["DE", 40]',
    )  # fmt: skip
    path = await create(api_service, Upload_Metadata=details)
    begun = await find_video(api_service)
    assert (begun["uploading"], begun["title"], begun["size"]) == (
        True,
        "My Film",
        len(data),
    )
    assert begun["uploaded_at"] is None
    third = len(data) // 3
    for start, end in ((0, third), (third, 2 * third), (2 * third, len(data))):
        state = await head(api_service, path)
        assert state.status_code == 200
        assert state.headers["upload-offset"] == str(start)
        assert state.headers["upload-length"] == str(len(data))
        assert state.headers["upload-metadata"] == details
        assert state.headers["cache-control"] == "no-store"
        answer = await send(api_service, path, start, data[start:end])
        assert (answer.status_code, answer.headers["upload-offset"]) == (204, str(end)), answer.text
        assert answer.headers["tus-resumable"] == "1.0.0"
    number = answer.headers["headend-video-id"]
    complete = await find_video(api_service, number)
    assert (complete["uploading"], complete["hash"], complete["size"]) == (
        False,
        begun["hash"],
        len(data),
    )
    record = (
        await api_service.client.get(f"/api/videos/{number}", headers=api_service.owner)
    ).json()["data"]
    assert record["description"] == "It is ours."
    assert [tag["name"] for tag in record["tags"]] == ["New"]
    assert {each["code"] for each in record["countries"]} == {"DE", "AT"}
    assert record["width"] == 640
    (source,) = await stored_addresses(objects)
    assert source == f"sources/{complete['hash']}/1"
    assert await objects.get(source) == data
    job = await api_service.catalog.jobs.lease("worker", 1 << 60, TRANSCODE)
    assert job is not None
    # Afterwards the upload still reports its video.
    assert (await head(api_service, path)).headers["upload-offset"] == str(len(data))
    upload = (await api_service.client.get(path, headers=api_service.owner)).json()["data"]
    assert upload["done"]
    assert upload["video"] == {"id": complete["id"], "hash": complete["hash"]}
    assert (await send(api_service, path, len(data), b"")).status_code == 204
    assert (await send(api_service, path, 0, b"x")).status_code == 409
    assert await stored_addresses(objects) == [source]
    listed = (await api_service.client.get(VIDEOS, headers=api_service.owner)).json()["meta"][
        "total"
    ]
    assert listed == 1


async def test_a_file_may_come_with_its_creation_and_in_pieces_of_one_byte(
    api_service: ApiService,
) -> None:
    data = clip()
    answer = await api_service.client.post(
        UPLOADS,
        headers={**api_service.owner, **TUS, **OFFSETS, "Upload-Length": str(len(data))},
        content=data[:-5],
    )
    assert (answer.status_code, answer.headers["upload-offset"]) == (201, str(len(data) - 5))
    path = path_of(answer)
    for at in range(len(data) - 5, len(data)):
        assert (await send(api_service, path, at, data[at : at + 1])).status_code == 204
    assert not (await find_video(api_service))["uploading"]
    single = await api_service.client.post(
        UPLOADS,
        headers={**api_service.owner, **TUS, **OFFSETS, "Upload-Length": str(len(data))},
        content=data,
    )
    assert (single.status_code, single.headers["upload-offset"]) == (201, str(len(data)))
    assert not (await find_video(api_service, single.headers["headend-video-id"]))["uploading"]


async def test_the_length_may_be_sent_with_the_last_piece_or_after_it(
    api_service: ApiService,
) -> None:
    data = clip()
    for pieces in ((data[:1000], data[1000:]), (data, b"")):
        answer = await api_service.client.post(
            UPLOADS, headers={**api_service.owner, **TUS, "Upload-Defer-Length": "1"}
        )
        assert answer.status_code == 201
        path = path_of(answer)
        state = await head(api_service, path)
        assert state.headers["upload-defer-length"] == "1"
        assert "upload-length" not in state.headers
        assert (await send(api_service, path, 0, pieces[0])).status_code == 204
        length = {"Upload-Length": str(len(data))}
        answer = await send(api_service, path, len(pieces[0]), pieces[1], length)
        assert answer.status_code == 204, answer.text
        video = await find_video(api_service, answer.headers["headend-video-id"])
        assert (video["uploading"], video["size"]) == (False, len(data))


@pytest.mark.parametrize("algorithm", ["sha1", "sha256", "md5"])
async def test_bytes_with_a_wrong_checksum_are_not_kept(
    api_service: ApiService, algorithm: str
) -> None:
    data = clip()

    def sum_of(part: bytes) -> dict[str, str]:
        digest = hashlib.new(algorithm, part).digest()
        return {"Upload-Checksum": f"{algorithm} {base64.b64encode(digest).decode()}"}

    path = await create(api_service)
    assert (await send(api_service, path, 0, data[:100], sum_of(data[:100]))).status_code == 204
    wrong = await send(api_service, path, 100, data[100:], sum_of(data[101:]))
    assert wrong.status_code == 460
    assert set(wrong.json()) == {"message"}
    assert (await head(api_service, path)).headers["upload-offset"] == "100"
    assert (await send(api_service, path, 100, data[100:], sum_of(data[100:]))).status_code == 204
    assert not (await find_video(api_service))["uploading"]


async def test_a_file_that_is_no_media_is_refused_at_the_last_byte_and_deleted(
    api_service: ApiService, objects: DiskObjects
) -> None:
    path = await create(api_service, len(TEXT))
    assert (await send(api_service, path, 0, TEXT[:500])).status_code == 204
    answer = await send(api_service, path, 500, TEXT[500:])
    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == {"video"}
    assert (await head(api_service, path)).status_code == 404
    await nothing_is_left(api_service, objects)
    events = (
        await api_service.client.get("/api/projects/1/events", headers=api_service.owner)
    ).json()["data"]
    assert events[0]["type"] == "upload refused"


async def test_an_upload_that_is_ended_is_gone_with_its_video(
    api_service: ApiService, objects: DiskObjects
) -> None:
    path = await create(api_service)
    assert (await send(api_service, path, 0, clip()[:500])).status_code == 204
    headers = {**api_service.owner, **TUS}
    assert (await api_service.client.delete(path, headers=headers)).status_code == 204
    assert (await api_service.client.delete(path, headers=headers)).status_code == 404
    assert (await send(api_service, path, 500, b"x")).status_code == 404
    await nothing_is_left(api_service, objects)


async def test_a_deleted_video_takes_its_upload_with_it(api_service: ApiService) -> None:
    path = await create(api_service)
    assert (await send(api_service, path, 0, clip()[:500])).status_code == 204
    number = (await find_video(api_service))["id"]
    assert (
        await api_service.client.delete(f"/api/videos/{number}", headers=api_service.owner)
    ).status_code == 204
    assert (await send(api_service, path, 500, clip()[500:])).status_code == 404
    assert (await head(api_service, path)).status_code == 404


async def test_which_tokens_may_use_an_upload(api_service: ApiService) -> None:
    path = await create(api_service)
    reader = await api_service.headers_of("reader", 1, write=False)
    other = await api_service.catalog.projects.add("Other", Change(NOW_US))
    stranger = await api_service.headers_of("stranger", other.id, write=True)
    for headers, status in (({}, 401), (reader, 403), (stranger, 404)):
        for method in ("POST", "HEAD", "PATCH", "DELETE"):
            at = UPLOADS if method == "POST" else path
            answer = await api_service.client.request(method, at, headers={**TUS, **headers})
            assert answer.status_code == status, (method, status)
    theirs = path.replace(f"/projects/{api_service.key}/", f"/projects/{other.id}/")
    assert (await head(api_service, theirs)).status_code == 404
    assert (await api_service.client.get(path, headers=reader)).status_code == 200
    assert (await api_service.client.get(path, headers=stranger)).status_code == 404
