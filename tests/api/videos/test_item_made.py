"""Really transcoded videos: their records in every response, and the owner's operations."""

import asyncio
from pathlib import PurePath
from typing import Any

from headend.config.settings import TranscodeSettings
from headend.roles.transcode_role import create_file_workers
from storage.objects.disk import DiskObjects
from tests.api.videos.test_item import FULL, get_video
from tests.support.api.application import ApiService, Json
from tests.support.api.upload_clips import VIDEOS, clip, picture, upload

SECONDS = 120


async def transcode_videos(
    api_service: ApiService, objects: DiskObjects, *videos: int
) -> list[Json]:
    """Transcode until these videos are completed or failed; return the state of each."""
    statuses: list[Json] = []
    async with asyncio.TaskGroup() as group:
        workers = create_file_workers(TranscodeSettings(), api_service.catalog, objects)
        working = group.create_task(workers.run())
        async with asyncio.timeout(SECONDS):
            for video in videos:
                while True:
                    path = f"/api/videos/{video}/status"
                    answer = await api_service.client.get(path, headers=api_service.owner)
                    status = answer.json()["data"]
                    if status["state"] in ("completed", "failed"):
                        statuses.append(status)
                        break
                    await asyncio.sleep(0.1)
        working.cancel()
    return statuses


async def post(api_service: ApiService, video: int, verb: str, status: int = 200) -> Json:
    answer = await api_service.client.post(f"/api/videos/{video}/{verb}", headers=api_service.owner)
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_a_completed_video_is_completed_in_every_response(
    api_service: ApiService, objects: DiskObjects
) -> None:
    files: Any = {"poster": ("p.png", picture(), "image/png")}
    with_poster: Json = (await upload(api_service, files=files))["video"]
    video: Json = (await upload(api_service))["video"]
    hidden: Json = (await upload(api_service))["video"]
    await post(api_service, hidden["id"], "unpublish")
    statuses = await transcode_videos(
        api_service, objects, with_poster["id"], video["id"], hidden["id"]
    )
    for status in statuses:
        assert (status["state"], status["progress"], status["eta"]) == ("completed", 100, 0)
        assert (status["attempt"], status["reason"]) == (1, "")
    record = await get_video(api_service, video["id"])
    assert (record["completed"], record["published"]) == (True, True)
    assert record["completed_at"] is not None
    assert record["published_at"] is not None
    assert set(record["image_urls"]) == {"360p"}
    (rung,) = record["resolutions"]
    assert rung["transcoded"] == 1
    assert rung["size"] > 0
    answer = await api_service.client.get(VIDEOS + "?type=completed", headers=api_service.owner)
    items = {item["id"]: item for item in answer.json()["data"]}
    assert set(items) == {with_poster["id"], video["id"], hidden["id"]}
    assert answer.json()["meta"]["total"] == 3
    for item in items.values():
        assert item["transcoding_progress"] == 100
        assert item["transcoding_at"] is not None
        assert item["storage_size"] > 0
        assert item["image_update_at"] is not None
    # A video that its owner unpublished stays so until it is published again.
    assert items[hidden["id"]]["published"] is False
    assert items[hidden["id"]]["published_at"] is None
    answer = await post(api_service, hidden["id"], "publish")
    assert answer["message"] == "Video published."
    assert set(answer["video"]) == FULL
    assert answer["video"]["published"] is True
    assert answer["video"]["published_at"] is not None
    answer = await post(api_service, hidden["id"], "unpublish")
    assert answer["video"]["published"] is False
    # The owner's own poster is still shown.
    assert items[with_poster["id"]]["image_update_at"] == with_poster["image_update_at"]
    paths = [PurePath(each) for each in await objects.addresses(f"videos/{with_poster['hash']}")]
    folders = {path.parent.name for path in paths if len(path.parts) == 4 and path.suffix == ".jpg"}
    assert len(folders) == 1
    assert folders.pop().startswith("own-")
    await post(api_service, video["id"], "retry", 409)


async def test_a_failed_video_has_a_reason_and_can_be_retried(
    api_service: ApiService, objects: DiskObjects
) -> None:
    video: Json = (await upload(api_service))["video"]
    # The file is damaged between the upload and its transcoding.
    source = f"sources/{video['hash']}/1"
    await objects.put(source, clip()[:40])
    (status,) = await transcode_videos(api_service, objects, video["id"])
    assert status["state"] == "failed"
    assert status["reason"]
    record = await get_video(api_service, video["id"])
    assert (record["completed"], record["published"]) == (False, False)
    answer = await api_service.client.get(VIDEOS + "?type=failed", headers=api_service.owner)
    assert answer.json()["meta"]["total"] == 1
    answer = await post(api_service, video["id"], "retry")
    assert answer["message"] == "Video queued again."
    assert answer["video"]["transcoding_progress"] == 0
    answer = await api_service.client.get(VIDEOS + "?type=failed", headers=api_service.owner)
    assert answer.json()["meta"]["total"] == 0
    await objects.put(source, clip())
    (status,) = await transcode_videos(api_service, objects, video["id"])
    assert (status["state"], status["reason"], status["attempt"]) == ("completed", "", 2)
    answer = await api_service.client.get(VIDEOS + "?type=completed", headers=api_service.owner)
    assert answer.json()["meta"]["total"] == len(answer.json()["data"]) == 1
