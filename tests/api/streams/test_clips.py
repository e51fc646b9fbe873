"""Clips, through the whole application: live media become a video, or are refused with a reason."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from httpx import Response

from api.app import create_app
from api.intake.upload_intake import UploadIntake
from api.schemas.timestamps import format_timestamp
from delivery.edge.memory import MemoryEdge
from delivery.run.publication import Publication
from headend.roles.upload_intake import create_intake
from media.fair_share import Holder
from storage.catalog import open_catalog
from storage.catalog.records.common import Change
from storage.objects.disk import DiskObjects
from storage.quotas import QuotaLimits
from tests.support.api import contract_shapes
from tests.support.api.application import ADDRESSES, NOW_US, ApiService, Json
from tests.support.api.in_loop_client import client_of
from tests.support.manual_clock import ManualClock
from tests.support.sql import migrated
from tests.support.storage.engine_reports import (
    LOW,
    NOON_US,
    TOP,
    WINDOW,
    ReportMaker,
    append_all,
    begin_epoch,
)

CLIP: Final = {
    "message": contract_shapes.STRING,
    "video": contract_shapes.VIDEO,
    "clip": {"from": contract_shapes.STAMP, "to": contract_shapes.STAMP},
}
AVAILABLE: Final = (
    "Not all of this time is kept."
    " There is 2026-01-31T12:00:08.123000Z to 2026-01-31T12:00:20.123000Z."
)


def at(seconds: float) -> str:
    """Return a time by seconds from the run's beginning."""
    return format_timestamp(NOON_US + round(seconds * 1_000_000))


async def go_live(objects: DiskObjects, hash_: str, number: int = 10) -> Publication:
    """Begin a run of so many steps of 2 s; the live window has the last six."""
    clock = ManualClock()
    publication = await Publication.open(
        objects, MemoryEdge(), hash=hash_, now_us=NOON_US, window=WINDOW, clock=clock
    )
    maker = ReportMaker(TOP, LOW)
    await begin_epoch(publication, maker)
    for _ in range(number):
        await append_all(publication, maker.step())
        clock.now += 2.0
    return publication


async def post(
    api_service: ApiService, stream: object, body: object, headers: dict[str, str] | None = None
) -> Response:
    path = f"/api/streams/{stream}/clips"
    return await api_service.client.post(path, json=body, headers=headers or api_service.owner)


async def get(api_service: ApiService, path: str) -> Json:
    answer = await api_service.client.get(path, headers=api_service.owner)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture
async def stream(api_service: ApiService, objects: DiskObjects) -> Json:
    """A stream that is live."""
    record = await api_service.add("The match")
    await go_live(objects, record["hash"])
    return record


async def test_a_clip_of_live_media_is_a_video_at_once(
    api_service: ApiService, objects: DiskObjects, stream: Json
) -> None:
    answer = await post(api_service, stream["id"], {"from": at(11), "to": at(14)})
    assert answer.status_code == 201, answer.text
    body = answer.json()
    assert contract_shapes.faults(body, CLIP) == []
    assert body["message"] == "Clip added."
    assert body["clip"] == {"from": at(10), "to": at(14)}
    video = body["video"]
    assert (video["completed"], video["transcoding_progress"], video["published"]) == (
        True, 100, True,
    )  # fmt: skip
    assert (video["length"], video["width"], video["height"]) == (4.0, TOP.width, TOP.height)
    assert video["title"] == "The match, 2026-01-31 12:00:10"
    assert video["name"] == "the-match-2026-01-31-12-00-10"
    assert [each["name"] for each in video["resolutions"]] == ["360p", "720p"]
    assert (await get(api_service, f"/api/videos/{video['id']}"))["data"]["title"] == video["title"]
    status = await get(api_service, f"/api/videos/{video['id']}/status")
    assert status["data"]["state"] == "completed"
    listed = await get(api_service, "/api/projects/1/videos?type=completed")
    assert [each["id"] for each in listed["data"]] == [video["id"]]
    events = await get(api_service, f"/api/projects/1/events?stream={stream['id']}")
    (event, *_) = events["data"]
    assert (event["type"], event["subject"], event["token"]) == ("clip added", stream["hash"], 1)
    assert event["facts"] == {"stream": stream["id"], "video": video["hash"], "seconds": 4.0}
    folder = f"videos/{video['hash']}/1-1/{TOP.name}"
    assert [each for each in await objects.addresses(folder) if each.endswith(".m4s")] == [
        f"{folder}/5.m4s", f"{folder}/6.m4s",
    ]  # fmt: skip
    deleted = await api_service.client.delete(
        f"/api/videos/{video['id']}", headers=api_service.owner
    )
    assert deleted.status_code == 204
    assert len(await objects.addresses(folder)) > 0, "it can be restored"


async def test_a_clip_asked_for_twice_is_two_videos(api_service: ApiService, stream: Json) -> None:
    body = {"from": at(11), "to": at(14), "title": "Goal 1/2"}
    first, second = [
        (await post(api_service, stream["id"], body)).json()["video"] for _ in range(2)
    ]
    assert first["hash"] != second["hash"]
    assert (first["title"], second["title"], first["name"]) == ("Goal 1/2", "Goal 1/2", "goal-1-2")


@pytest.mark.parametrize("title", [None, "", "  "])
async def test_a_clip_without_a_title_is_named_after_its_stream_and_time(
    api_service: ApiService, stream: Json, title: str | None
) -> None:
    answer = await post(api_service, stream["id"], {"from": at(10), "to": at(14), "title": title})
    assert answer.status_code == 201, answer.text
    assert answer.json()["video"]["title"] == "The match, 2026-01-31 12:00:10"


async def test_times_may_have_any_offset(api_service: ApiService, stream: Json) -> None:
    body = {"from": "2026-01-31T14:00:10.123+02:00", "to": "2026-01-31t12:00:14.123z"}
    answer = await post(api_service, stream["id"], body)
    assert answer.status_code == 201, answer.text
    assert answer.json()["clip"] == {"from": at(10), "to": at(14)}


async def test_a_clip_has_the_countries_of_its_stream(
    api_service: ApiService, stream: Json
) -> None:
    path = f"/api/streams/{stream['id']}"
    edit: dict[str, Any] = {"countries": ["RO"], "description": "Live"}
    assert (
        await api_service.client.put(path, json=edit, headers=api_service.owner)
    ).status_code == 200
    unpublished = await api_service.client.post(f"{path}/unpublish", headers=api_service.owner)
    assert unpublished.status_code == 200
    video = (await post(api_service, stream["id"], {"from": at(10), "to": at(14)})).json()["video"]
    assert [each["code"] for each in video["countries"]] == ["RO"]
    assert (video["published"], video["description"]) == (False, "Live")


@pytest.mark.parametrize(
    ("start", "end", "field"),
    [(7, 12, "from"), (12, 20.1, "to"), (-90, -60, "from"), (100, 160, "to"), (0, 100, "from")],
)
async def test_a_clip_beyond_the_kept_media_is_refused_with_the_available_time(
    api_service: ApiService,
    objects: DiskObjects,
    stream: Json,
    start: float,
    end: float,
    field: str,
) -> None:
    answer = await post(api_service, stream["id"], {"from": at(start), "to": at(end)})
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"] == {field: [AVAILABLE]}
    assert await objects.addresses("videos") == []


async def test_a_stream_that_was_never_live_has_no_clips(api_service: ApiService) -> None:
    record = await api_service.add()
    answer = await post(api_service, record["id"], {"from": at(10), "to": at(14)})
    assert answer.status_code == 422
    refusal = ["Nothing of this stream is kept, or nothing of this time."]
    assert answer.json()["errors"] == {"from": refusal}


NO_TIME: Final = "This must be a time such as 2026-01-31T12:00:00.123Z (RFC 3339)."


@pytest.mark.parametrize(
    ("change", "errors"),
    [
        ({"to": at(10.9)}, {"to": ["A clip lasts at least 1 s."]}),
        ({"to": at(2)}, {"to": ["A clip lasts at least 1 s."]}),
        ({"to": at(10 + 21_601)}, {"to": ["A clip lasts at most 21600 s."]}),
        ({"from": "2026-01-31"}, {"from": [NO_TIME]}),
        ({"from": "2026-01-31T12:00:10"}, {"from": [NO_TIME]}),
        ({"from": 1_769_860_810, "to": None}, {"from": [NO_TIME], "to": [NO_TIME]}),
        ({"to": "2026-02-30T12:00:10Z"}, {"to": [NO_TIME]}),
        ({"to": "-30"}, {"to": [NO_TIME]}),
        ({"title": "x" * 256}, {"title": ["The title may have at most 255 characters."]}),
        ({"seconds": 10}, {"seconds": ["This key is not known here."]}),
    ],
)
async def test_a_body_that_is_wrong_is_refused_by_its_fields(
    api_service: ApiService, stream: Json, change: Json, errors: Json
) -> None:
    answer = await post(api_service, stream["id"], {"from": at(10), "to": at(14), **change})
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"] == errors


async def test_both_times_are_needed(api_service: ApiService, stream: Json) -> None:
    answer = await post(api_service, stream["id"], {})
    assert answer.json()["errors"] == {
        "from": ["The from is required."], "to": ["The to is required."],
    }  # fmt: skip


async def test_making_a_clip_requires_a_token_that_may_write(
    api_service: ApiService, stream: Json
) -> None:
    body = {"from": at(10), "to": at(14)}
    reader = await api_service.headers_of("reader", 1, write=False)
    assert (await post(api_service, stream["id"], body, reader)).status_code == 403
    other = await api_service.catalog.projects.add("Other", Change(NOW_US))
    stranger = await api_service.headers_of("stranger", other.id, write=True)
    assert (await post(api_service, stream["id"], body, stranger)).status_code == 404


@asynccontextmanager
async def limited(
    folder: Path, intake: UploadIntake, limits: QuotaLimits
) -> AsyncGenerator[ApiService]:
    """Open an application with this intake and these quotas."""
    async with open_catalog(migrated(folder / "catalog.db"), migrate=True) as catalog:
        first = await catalog.installation.first_start(NOW_US)
        app = create_app(
            catalog=catalog,
            addresses=ADDRESSES,
            broadcaster_key=first.broadcaster_key,
            intake=intake,
            quotas=limits,
            clock_us=lambda: NOW_US,
        )
        owner = {"Authorization": f"Bearer {first.owner_token}"}
        async with client_of(app) as client:
            yield ApiService(client, catalog, first.project.key, first.broadcaster_key, owner)


async def test_a_clip_counts_as_stored_bytes(tmp_path: Path, objects: DiskObjects) -> None:
    intake = create_intake(objects, min_free_bytes=0)
    # Two segments of 1000 bytes in three renditions.
    async with limited(tmp_path, intake, QuotaLimits(stored_bytes=5999, minutes=1)) as api_service:
        record = await api_service.add()
        await go_live(objects, record["hash"])
        answer = await post(api_service, record["id"], {"from": at(10), "to": at(14)})
        assert answer.status_code == 403, answer.text
        assert answer.json()["message"] == (
            "This project may store 5999 bytes, and stores 0: there is no room for this clip."
        )
        answer = await post(api_service, record["id"], {"from": at(10), "to": at(12)})
        assert answer.status_code == 201, answer.text


async def test_more_clips_at_once_than_the_disk_should_link_are_refused(
    tmp_path: Path, objects: DiskObjects
) -> None:
    intake = create_intake(objects, min_free_bytes=0)
    body = {"from": at(10), "to": at(14)}
    async with limited(tmp_path, intake, QuotaLimits()) as api_service:
        record = await api_service.add()
        await go_live(objects, record["hash"])
        mine = (Holder("token 1"),)
        with intake.clip_gate.acquire(mine), intake.clip_gate.acquire(mine):
            answer = await post(api_service, record["id"], body)
            assert answer.status_code == 429
            assert answer.json()["message"].startswith("Too many clips are being made through")
            assert "Retry-After" in answer.headers
        assert (await post(api_service, record["id"], body)).status_code == 201


async def test_a_full_disk_gets_no_clip(tmp_path: Path, objects: DiskObjects) -> None:
    intake = create_intake(objects, min_free_bytes=1 << 60)
    async with limited(tmp_path, intake, QuotaLimits()) as api_service:
        record = await api_service.add()
        await go_live(objects, record["hash"])
        answer = await post(api_service, record["id"], {"from": at(10), "to": at(14)})
        assert answer.status_code == 503
        assert await objects.addresses("videos") == []


async def test_a_clip_of_media_that_cannot_be_linked_is_503(
    api_service: ApiService, objects: DiskObjects, stream: Json
) -> None:
    state = f"live/{stream['hash']}/20260131T120000123/{TOP.name}/6.m4s"
    await objects.delete(state)
    answer = await post(api_service, stream["id"], {"from": at(10), "to": at(14)})
    assert answer.status_code == 503
    assert "Retry-After" in answer.headers
    assert await objects.addresses("videos") == []
