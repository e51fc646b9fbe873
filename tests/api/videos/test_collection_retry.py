"""All failed videos of a project are tried again by one request."""

import secrets

import pytest

from storage.catalog.videos import repository
from tests.support.api.application import ApiService
from tests.support.storage.new_videos import new_video

pytestmark = pytest.mark.anyio

NOW_US = 1_800_000_000_000_000
RETRY = "/api/projects/1/videos/retry"


async def added(house: ApiService, project: int = 1, *, file: bool = True) -> int:
    """Add a video, or one whose file never came."""
    new = new_video()
    if file:
        return (await house.catalog.videos.add(project, new, NOW_US, by=None)).video.id
    return await house.catalog.videos.expect(project, new, NOW_US)


async def fail_all(house: ApiService) -> None:
    """Fail every video that waits to be transcoded."""
    jobs, transcoding = house.catalog.jobs, house.catalog.transcoding
    while (held := await jobs.lease(secrets.token_hex(8), NOW_US)) is not None:
        await transcoding.begin(held, NOW_US)
        await transcoding.fail(held, "The store was away.", NOW_US)


async def states(house: ApiService, videos: list[int]) -> list[str]:
    found = [await house.catalog.videos.find_status(video) for video in videos]
    return [status.state for status in found if status is not None]


async def test_failed_videos_of_a_project_are_queued_again_and_no_others(
    house: ApiService,
) -> None:
    other = await house.catalog.projects.add("other", NOW_US)
    failed = [await added(house) for _ in range(5)]
    theirs = await added(house, other.id)
    await fail_all(house)
    waiting, coming = await added(house), await added(house, file=False)
    answer = await house.client.post(RETRY, headers=house.owner)
    assert (answer.status_code, answer.json()) == (
        200,
        {"message": "Failed videos queued again.", "videos": 5},
    )
    assert await states(house, failed) == ["queued"] * 5
    assert await states(house, [theirs, waiting, coming]) == ["failed", "queued", "uploading"]
    again = await house.client.post(RETRY, headers=house.owner)
    assert again.json()["videos"] == 0
    listed = await house.client.get("/api/projects/1/videos?type=failed", headers=house.owner)
    assert listed.json()["meta"]["total"] == 0
    events = (await house.catalog.events.find_page(1)).items
    assert [event.kind for event in events].count("video queued again") == 5


async def test_many_are_queued_in_turns(house: ApiService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository, "MOST_RETRIES", 2)
    failed = [await added(house) for _ in range(3)]
    await fail_all(house)
    counts = [
        (await house.client.post(RETRY, headers=house.owner)).json()["videos"] for _ in range(3)
    ]
    assert counts == [2, 1, 0]
    assert await states(house, failed) == ["queued"] * 3
