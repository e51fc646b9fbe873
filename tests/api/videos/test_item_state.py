"""The states of videos, publishing, and their public records."""

from tests.api.videos.test_item import FULL
from tests.support.api.application import ApiService
from tests.support.api.upload_clips import upload


async def test_the_status_of_a_new_video_is_queued(api_service: ApiService) -> None:
    video = (await upload(api_service))["video"]
    answer = await api_service.client.get(
        f"/api/videos/{video['id']}/status", headers=api_service.owner
    )
    assert answer.status_code == 200
    assert answer.json() == {
        "data": {
            "state": "queued", "progress": 0, "eta": 0, "attempt": 0, "reason": "", "warnings": [],
            "waits_for": "",
        }
    }  # fmt: skip


async def test_a_video_that_does_not_play_yet_is_published_later(api_service: ApiService) -> None:
    video = (await upload(api_service))["video"]
    path = f"/api/videos/{video['id']}"
    for verb, message in (
        ("unpublish", "Video unpublished."),
        ("publish", "Video to be published as soon as it plays."),
    ):
        answer = await api_service.client.post(f"{path}/{verb}", headers=api_service.owner)
        assert answer.status_code == 200
        assert answer.json()["message"] == message
        assert set(answer.json()["video"]) == FULL
        assert answer.json()["video"]["published"] is False


async def test_a_video_is_kept(api_service: ApiService) -> None:
    video = (await upload(api_service))["video"]
    answer = await api_service.client.post(
        f"/api/videos/{video['id']}/keep", headers=api_service.owner
    )
    assert answer.status_code == 200
    assert answer.json()["message"] == "Video kept until it is deleted."
    assert set(answer.json()["video"]) == FULL


async def test_only_a_failed_video_is_tried_again(api_service: ApiService) -> None:
    video = (await upload(api_service))["video"]
    answer = await api_service.client.post(
        f"/api/videos/{video['id']}/retry", headers=api_service.owner
    )
    assert answer.status_code == 409
    assert answer.json() == {"message": "Only a video that has failed can be tried again."}


async def test_a_player_of_the_project_is_chosen_and_taken_back(api_service: ApiService) -> None:
    video = (await upload(api_service))["video"]
    player = await api_service.client.post(
        "/api/projects/1/players", json={"name": "Quiet"}, headers=api_service.owner
    )
    number = player.json()["player"]["id"]
    path = f"/api/videos/{video['id']}/player"
    answer = await api_service.client.put(path, json={"player": number}, headers=api_service.owner)
    assert answer.status_code == 200, answer.text
    assert answer.json()["video"]["player"] == {"id": number, "name": "Quiet"}
    for body in ({"player": 99}, {}, {"player": "x"}):
        refused = await api_service.client.put(path, json=body, headers=api_service.owner)
        assert refused.status_code == 422
        assert set(refused.json()["errors"]) == {"player"}
    back = await api_service.client.put(path, json={"player": None}, headers=api_service.owner)
    assert back.json()["video"]["player"] is None
