"""Two people edit one video: the later one is told."""

from tests.support.api.application import ApiService
from tests.support.api.upload_clips import upload


async def test_who_edits_what_was_edited_since_is_told(house: ApiService) -> None:
    path = f"/api/videos/{(await upload(house))['video']['id']}"
    read = (await house.client.get(path, headers=house.owner)).headers["etag"]
    mine = {**house.owner, "If-Match": read}
    first = await house.client.put(path, json={"title": "Mine"}, headers=mine)
    assert first.status_code == 200
    second = await house.client.put(path, json={"title": "Theirs"}, headers=mine)
    assert second.status_code == 412
    assert second.json() == {
        "message": "The record was edited meanwhile: read it again, then edit it."
    }
    shown = await house.client.get(path, headers=house.owner)
    assert shown.json()["data"]["title"] == "Mine"
    assert shown.headers["etag"] == first.headers["etag"] != read
    again = {**house.owner, "If-Match": shown.headers["etag"]}
    third = await house.client.put(path, json={"title": "Theirs"}, headers=again)
    assert third.json()["video"]["title"] == "Theirs"


async def test_what_cannot_be_edited_does_not_stand_in_the_way(house: ApiService) -> None:
    path = f"/api/videos/{(await upload(house))['video']['id']}"
    read = (await house.client.get(path, headers=house.owner)).headers["etag"]
    assert (await house.client.post(f"{path}/unpublish", headers=house.owner)).status_code == 200
    mine = {**house.owner, "If-Match": read}
    assert (await house.client.put(path, json={"title": "x"}, headers=mine)).status_code == 200


async def test_without_the_header_the_last_one_wins(house: ApiService) -> None:
    path = f"/api/videos/{(await upload(house))['video']['id']}"
    for title in ("Mine", "Theirs"):
        answer = await house.client.put(path, json={"title": title}, headers=house.owner)
        assert answer.json()["video"]["title"] == title
