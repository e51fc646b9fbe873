"""Concurrent edits of one video: the later one is refused."""

from tests.support.api.application import ApiService
from tests.support.api.upload_clips import upload


async def test_who_edits_what_was_edited_since_is_told(api_service: ApiService) -> None:
    path = f"/api/videos/{(await upload(api_service))['video']['id']}"
    read = (await api_service.client.get(path, headers=api_service.owner)).headers["etag"]
    mine = {**api_service.owner, "If-Match": read}
    first = await api_service.client.put(path, json={"title": "Mine"}, headers=mine)
    assert first.status_code == 200
    second = await api_service.client.put(path, json={"title": "Theirs"}, headers=mine)
    assert second.status_code == 412
    assert second.json() == {
        "message": "The record was edited meanwhile: read it again, then edit it."
    }
    shown = await api_service.client.get(path, headers=api_service.owner)
    assert shown.json()["data"]["title"] == "Mine"
    assert shown.headers["etag"] == first.headers["etag"] != read
    again = {**api_service.owner, "If-Match": shown.headers["etag"]}
    third = await api_service.client.put(path, json={"title": "Theirs"}, headers=again)
    assert third.json()["video"]["title"] == "Theirs"


async def test_what_cannot_be_edited_does_not_stand_in_the_way(api_service: ApiService) -> None:
    path = f"/api/videos/{(await upload(api_service))['video']['id']}"
    read = (await api_service.client.get(path, headers=api_service.owner)).headers["etag"]
    assert (
        await api_service.client.post(f"{path}/unpublish", headers=api_service.owner)
    ).status_code == 200
    mine = {**api_service.owner, "If-Match": read}
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
