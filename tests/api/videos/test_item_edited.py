"""Concurrent edits of one video: the later one is refused."""

from tests.support.api.application import ApiService
from tests.support.api.upload_clips import upload


async def test_an_edit_of_a_video_that_has_changed_since_is_refused(
    api_service: ApiService,
) -> None:
    path = f"/api/videos/{(await upload(api_service))['video']['id']}"
    tag = (await api_service.client.get(path, headers=api_service.owner)).headers["etag"]
    mine = {**api_service.owner, "If-Match": tag}
    first = await api_service.client.put(path, json={"title": "Mine"}, headers=mine)
    assert first.status_code == 200
    second = await api_service.client.put(path, json={"title": "Theirs"}, headers=mine)
    assert second.status_code == 412
    assert second.json() == {
        "message": "The record was edited meanwhile: read it again, then edit it."
    }
    unchanged = await api_service.client.get(path, headers=api_service.owner)
    assert unchanged.json()["data"]["title"] == "Mine"
    assert unchanged.headers["etag"] == first.headers["etag"] != tag
    newer_headers = {**api_service.owner, "If-Match": unchanged.headers["etag"]}
    third = await api_service.client.put(path, json={"title": "Theirs"}, headers=newer_headers)
    assert third.json()["video"]["title"] == "Theirs"


async def test_unpublishing_does_not_make_an_edit_fail(api_service: ApiService) -> None:
    path = f"/api/videos/{(await upload(api_service))['video']['id']}"
    tag = (await api_service.client.get(path, headers=api_service.owner)).headers["etag"]
    assert (
        await api_service.client.post(f"{path}/unpublish", headers=api_service.owner)
    ).status_code == 200
    mine = {**api_service.owner, "If-Match": tag}
    assert (
        await api_service.client.put(path, json={"title": "x"}, headers=mine)
    ).status_code == 200


async def test_without_the_header_the_last_one_wins(api_service: ApiService) -> None:
    path = f"/api/videos/{(await upload(api_service))['video']['id']}"
    for title in ("Mine", "Theirs"):
        answer = await api_service.client.put(
            path, json={"title": title}, headers=api_service.owner
        )
        assert answer.json()["video"]["title"] == title
