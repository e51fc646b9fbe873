"""One request retries all failed videos of a project."""

import secrets

import pytest

from storage.catalog.records.common import Change
from storage.catalog.videos import repository
from storage.catalog.videos.jobs import TRANSCODE
from tests.support.api.application import ApiService
from tests.support.storage.new_videos import new_video

pytestmark = pytest.mark.anyio

NOW_US = 1_800_000_000_000_000
RETRY = "/api/projects/1/videos/retry"


async def add_video(api_service: ApiService, project: int = 1, *, file: bool = True) -> int:
    """Add a video, without its file if `file` is false, and return its ID."""
    new = new_video()
    if file:
        return (await api_service.catalog.videos.add(project, new, Change(NOW_US))).video.id
    return await api_service.catalog.videos.expect(project, new, NOW_US)


async def fail_all(api_service: ApiService) -> None:
    """Fail every video that waits to be transcoded."""
    jobs, transcoding = api_service.catalog.jobs, api_service.catalog.transcoding
    while (job := await jobs.lease(secrets.token_hex(8), NOW_US, TRANSCODE)) is not None:
        await transcoding.begin(job, NOW_US)
        await transcoding.fail(job, "The store was away.", NOW_US)


async def states(api_service: ApiService, videos: list[int]) -> list[str]:
    statuses = [await api_service.catalog.videos.find_status(video) for video in videos]
    return [status.state for status in statuses if status is not None]


async def test_only_failed_videos_of_the_project_are_queued_again(
    api_service: ApiService,
) -> None:
    other = await api_service.catalog.projects.add("other", Change(NOW_US))
    failed = [await add_video(api_service) for _ in range(5)]
    theirs = await add_video(api_service, other.id)
    await fail_all(api_service)
    waiting, coming = await add_video(api_service), await add_video(api_service, file=False)
    answer = await api_service.client.post(RETRY, headers=api_service.owner)
    assert (answer.status_code, answer.json()) == (
        200,
        {"message": "Failed videos queued again.", "videos": 5},
    )
    assert await states(api_service, failed) == ["queued"] * 5
    assert await states(api_service, [theirs, waiting, coming]) == ["failed", "queued", "uploading"]
    second_answer = await api_service.client.post(RETRY, headers=api_service.owner)
    assert second_answer.json()["videos"] == 0
    listed = await api_service.client.get(
        "/api/projects/1/videos?type=failed", headers=api_service.owner
    )
    assert listed.json()["meta"]["total"] == 0
    events = (await api_service.catalog.events.find_page(1)).items
    assert [event.kind for event in events].count("video queued again") == 5


async def test_many_are_queued_in_turns(
    api_service: ApiService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository, "MOST_RETRIES", 2)
    failed = [await add_video(api_service) for _ in range(3)]
    await fail_all(api_service)
    counts = [
        (await api_service.client.post(RETRY, headers=api_service.owner)).json()["videos"]
        for _ in range(3)
    ]
    assert counts == [2, 1, 0]
    assert await states(api_service, failed) == ["queued"] * 3
