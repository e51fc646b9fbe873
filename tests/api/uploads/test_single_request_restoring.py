"""A video's former file, taken back by its owner."""

from storage.objects.disk import DiskObjects
from tests.api.uploads.test_replace_file import put
from tests.api.videos.test_item import FULL
from tests.api.videos.test_item_made import transcode_videos
from tests.support.api.application import ApiService, Json
from tests.support.api.upload_clips import clip, upload


async def restore(api_service: ApiService, number: int, **seen: str) -> tuple[int, Json]:
    path = f"/api/videos/{number}/restore-file"
    answer = await api_service.client.post(path, params=seen, headers=api_service.owner)
    return answer.status_code, answer.json()


async def test_the_former_file_plays_again_and_undoing_undoes_it(
    api_service: ApiService, objects: DiskObjects
) -> None:
    first: Json = (await upload(api_service))["video"]
    number = first["id"]
    before = await api_service.client.get(f"/api/videos/{number}/file", headers=api_service.owner)
    assert await restore(api_service, number) == (
        409,
        {"message": "There is no former file in the trash."},
    )
    other = clip("320x180", "2")
    assert (await put(api_service, number, video=("b.mp4", other))).status_code == 200
    for size, content in ((first["size"], before.content), (len(other), other)):
        status, body = await restore(api_service, number)
        assert (status, set(body), body["message"]) == (
            200, {"message", "video"}, "The former file is back.",
        )  # fmt: skip
        assert set(body["video"]) == FULL
        assert (body["video"]["size"], body["video"]["completed"]) == (size, False)
        sent = await api_service.client.get(f"/api/videos/{number}/file", headers=api_service.owner)
        assert sent.content == content
    assert len(await objects.addresses(f"sources/{first['hash']}")) == 2
    (status_of,) = await transcode_videos(api_service, objects, number)
    assert status_of["state"] == "completed"
    events = await api_service.client.get("/api/projects/1/events", headers=api_service.owner)
    kinds = [each["type"] for each in events.json()["data"]]
    assert kinds.count("video file taken back") == 2


async def test_a_former_file_that_is_not_there_any_more_is_not_promised(
    api_service: ApiService, objects: DiskObjects
) -> None:
    """A process of an older version does not know of it, and its cleanup takes it away."""
    first: Json = (await upload(api_service))["video"]
    assert (await put(api_service, first["id"], video=("b.mp4", clip("320x180", "2")))).is_success
    await objects.delete(f"sources/{first['hash']}/1")
    assert (await restore(api_service, first["id"]))[0] == 409


async def test_only_the_file_that_was_seen_is_exchanged(api_service: ApiService) -> None:
    number = (await upload(api_service))["video"]["id"]
    answer = await put(api_service, number, video=("b.mp4", clip("320x180", "2")))
    present = answer.json()["video"]["uploaded_at"]
    assert await restore(api_service, number, uploaded_at="2026-01-31T12:00:00.123456Z") == (
        409,
        {"message": "The video has another file meanwhile: look at it again."},
    )
    status, body = await restore(api_service, number, uploaded_at="now")
    assert (status, set(body["errors"])) == (422, {"uploaded_at"})
    status, body = await restore(api_service, number, uploaded_at=present)
    assert (status, body["message"]) == (200, "The former file is back.")
