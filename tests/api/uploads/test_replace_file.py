"""Another file for a video: it is probed first, and the video keeps its identity."""

from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.http.errors import ApiError
from api.uploads.replace_file import replace_source
from media.stream_keys import new_hash
from storage.catalog.records.common import Change
from storage.catalog.records.videos import VideoFile, WholeVideo
from storage.errors import UploadInProgress
from storage.objects.disk import DiskObjects
from tests.api.videos.test_item import FULL
from tests.api.videos.test_item_made import transcode_videos
from tests.support.api.application import NOW_US, ApiService, Json
from tests.support.api.upload_clips import clip, upload
from tests.support.storage.new_videos import new_video
from tests.support.storage.undeletable_disk import UndeletableDisk


async def put(
    api_service: ApiService, number: int, *, token: Any = None, **files: Any
) -> httpx.Response:
    path = f"/api/videos/{number}/file"
    return await api_service.client.put(path, files=files, headers=token or api_service.owner)


async def test_a_file_is_replaced_and_the_hash_stays(
    api_service: ApiService, objects: DiskObjects
) -> None:
    first: Json = (await upload(api_service))["video"]
    await transcode_videos(api_service, objects, first["id"])
    answer = await put(
        api_service, first["id"], video=("Anderer Schnitt.mp4", clip("320x180", "2"))
    )
    assert answer.status_code == 200, answer.text
    body: Json = answer.json()
    assert set(body) == {"message", "video"}
    assert body["message"] == "File replaced."
    video = body["video"]
    assert set(video) == FULL
    for key in ("id", "hash", "title", "name", "video", "published_url"):
        assert video[key] == first[key], key
    assert (video["width"], video["height"]) == (320, 180)
    assert video["size"] == len(clip("320x180", "2"))
    assert (video["completed"], video["completed_at"]) == (False, None)
    assert (video["published"], video["transcoding_progress"]) == (True, 0)
    record = await api_service.catalog.videos.find(first["id"])
    assert record is not None
    assert record.video.media == "1-1"
    (row,) = await api_service.catalog.references.find_references([first["hash"]])
    assert row.source is not None
    assert row.former == {f"sources/{first['hash']}/1"}, "it can be taken back"
    assert await objects.addresses(f"sources/{first['hash']}") == [*row.former, row.source]
    assert await objects.get(row.source) == clip("320x180", "2")
    (status,) = await transcode_videos(api_service, objects, first["id"])
    assert status["state"] == "completed"
    record = await api_service.catalog.videos.find(first["id"])
    assert record is not None
    assert (record.video.media, record.video.width) == ("2-2", 320)


async def test_a_file_that_is_no_media_is_refused_and_changes_nothing(
    api_service: ApiService, objects: DiskObjects
) -> None:
    first: Json = (await upload(api_service))["video"]
    before = await objects.addresses(f"sources/{first['hash']}")
    answer = await put(api_service, first["id"], video=("a.mp4", b"no film"))
    assert answer.status_code == 422
    assert list(answer.json()["errors"]) == ["video"]
    answer = await put(api_service, first["id"], poster=("a.png", b"no film"))
    assert answer.status_code == 422
    assert await objects.addresses(f"sources/{first['hash']}") == before
    record = await api_service.catalog.videos.find(first["id"])
    assert record is not None
    assert record.video.size == first["size"]


async def test_replacing_a_file_requires_a_token_that_may_write(api_service: ApiService) -> None:
    first: Json = (await upload(api_service))["video"]
    film = ("a.mp4", clip())
    reader = await api_service.headers_of("reader", 1, write=False)
    assert (await put(api_service, first["id"], token=reader, video=film)).status_code == 403
    other = await api_service.catalog.projects.add("other", Change(NOW_US))
    stranger = await api_service.headers_of("stranger", other.id, write=True)
    assert (await put(api_service, first["id"], token=stranger, video=film)).status_code == 404
    assert (await put(api_service, 999, video=film)).status_code == 404


async def test_a_file_that_is_still_coming_is_not_replaced(
    api_service: ApiService, objects: DiskObjects
) -> None:
    file = new_video(size=0, source="")
    video = await api_service.catalog.videos.expect(1, file, NOW_US)
    answer = await put(api_service, video, video=("a.mp4", clip()))
    assert answer.status_code == 409
    assert answer.json() == {"message": "The video's first file is still coming."}
    assert await objects.addresses("sources") == []


@pytest.mark.parametrize(
    ("in_progress", "status"),
    [
        pytest.param(True, HTTPStatus.CONFLICT, id="still coming"),
        pytest.param(False, HTTPStatus.NOT_FOUND, id="deleted"),
    ],
)
async def test_a_file_that_cannot_be_deleted_does_not_change_the_refusal(
    tmp_path: Path, in_progress: bool, status: HTTPStatus
) -> None:
    async def record(_file: VideoFile) -> tuple[WholeVideo, str | None] | None:
        if in_progress:
            raise UploadInProgress(1)
        return None

    file = VideoFile(source="sources/x/1", size=1)
    with UndeletableDisk(tmp_path, "sources") as objects, pytest.raises(ApiError) as raised:
        await replace_source(objects, new_hash(), file, record)
    assert raised.value.status_code == status
