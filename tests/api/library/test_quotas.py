"""Quotas of projects: every kind of addition beyond a quota is refused with the reason."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest

from api.app import create_app
from api.http.errors import ApiError
from api.library.quotas import ProjectQuotas
from headend.roles.upload_intake import create_intake
from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import Change
from storage.catalog.records.videos import VideoFile
from storage.objects.disk import DiskObjects
from storage.quotas import QuotaCheck, QuotaLimits
from tests.support.api.application import ADDRESSES, NOW_US, STREAMS, ApiService
from tests.support.api.in_loop_client import client_of
from tests.support.api.tus_client import TUS, UPLOADS
from tests.support.sql import migrated
from tests.support.storage.new_videos import new_video

pytestmark = pytest.mark.anyio

DAY_US = 24 * 3600 * 1_000_000
MINUTE_US = 60_000_000
FORM = {"video": ("film.mp4", b"x" * 1000, "video/mp4")}


@asynccontextmanager
async def limited(folder: Path, limits: QuotaLimits) -> AsyncGenerator[ApiService]:
    """Open an application whose projects have these quotas."""
    with DiskObjects(folder / "objects") as objects:
        async with open_catalog(migrated(folder / "catalog.db"), migrate=True) as catalog:
            first = await catalog.installation.first_start(NOW_US)
            app = create_app(
                catalog=catalog,
                addresses=ADDRESSES,
                broadcaster_key=first.broadcaster_key,
                intake=create_intake(objects, min_free_bytes=0),
                quotas=limits,
                clock_us=lambda: NOW_US,
            )
            owner = {"Authorization": f"Bearer {first.owner_token}"}
            async with client_of(app) as client:
                yield ApiService(client, catalog, first.project.key, first.broadcaster_key, owner)


async def add_video(api_service: ApiService, size: int, minutes: int = 0, age_days: int = 0) -> int:
    file = new_video(size=size, length_us=minutes * 60_000_000, source="sources/x/1")
    added = await api_service.catalog.videos.add(1, file, Change(NOW_US - age_days * DAY_US))
    return added.video.id


async def all_ways(api_service: ApiService, number: int) -> list[httpx.Response]:
    """Add a file of 1000 bytes in every possible way, and return the answers."""
    links = f"/api/projects/{api_service.key}/upload-links"
    posted = await api_service.client.post(links, json={}, headers=api_service.owner)
    link = httpx.URL(posted.json()["upload_link"]["address"]).path
    length = {**TUS, "Upload-Length": "1000"}
    url = {"url": "https://files.example/film.mp4"}
    replaced = f"/api/videos/{number}/file"
    post, put = api_service.client.post, api_service.client.put
    return [
        await post("/api/projects/1/videos", files=FORM, headers=api_service.owner),
        await put(replaced, files=FORM, headers=api_service.owner),
        await post(UPLOADS, headers={**api_service.owner, **length}),
        await post(link, files=FORM),
        await post(link, headers=length),
        await post("/api/projects/1/imports", json=url, headers=api_service.owner),
    ]


async def test_a_project_has_no_more_streams_than_its_quota(tmp_path: Path) -> None:
    async with limited(
        tmp_path, QuotaLimits(streams=2)
    ) as api_service:  # the first start makes one
        await api_service.add()
        answer = await api_service.client.post(
            STREAMS, json={"title": "x"}, headers=api_service.owner
        )
        assert answer.status_code == 403
        message = "This project may have 2 streams, and has as many."
        assert answer.json() == {"message": message}
        added = await api_service.client.post(
            "/api/projects", json={"name": "b"}, headers=api_service.owner
        )
        other = f"/api/projects/{added.json()['project']['id']}/streams"
        await api_service.add(path=other)


async def test_no_file_comes_in_beyond_the_bytes_of_a_project(tmp_path: Path) -> None:
    async with limited(tmp_path, QuotaLimits(stored_bytes=1500)) as api_service:
        number = await add_video(api_service, 1500)
        for answer in await all_ways(api_service, number):
            assert answer.status_code == 403
            assert answer.json()["message"] == (
                "This project may store 1500 bytes, and stores 1500: there is no room for this"
                " file."
            )


async def test_the_announced_lengths_of_unfinished_uploads_count(tmp_path: Path) -> None:
    async with limited(tmp_path, QuotaLimits(stored_bytes=1500)) as api_service:
        headers = {**api_service.owner, **TUS, "Upload-Length": "1000"}
        statuses = [
            (await api_service.client.post(UPLOADS, headers=headers)).status_code for _ in "ab"
        ]
        assert statuses == [201, 403]


@asynccontextmanager
async def quotas_of(
    folder: Path, limits: QuotaLimits
) -> AsyncGenerator[tuple[Catalog, ProjectQuotas]]:
    async with open_catalog(migrated(folder / "catalog.db"), migrate=True) as catalog:
        await catalog.installation.first_start(NOW_US)
        yield catalog, ProjectQuotas(QuotaCheck(catalog.usage, limits, lambda: NOW_US))


async def test_files_that_come_at_the_same_moment_do_not_exceed_a_quota_together(
    tmp_path: Path,
) -> None:
    async with quotas_of(tmp_path, QuotaLimits(stored_bytes=2500)) as (catalog, quotas):
        refused: list[ApiError] = []

        async def add() -> None:
            try:
                async with quotas.adding_file(1, 1000):
                    file = new_video(size=1000, source="sources/x/1")
                    await catalog.videos.add(1, file, Change(NOW_US))
            except ApiError as error:
                refused.append(error)

        async with anyio.create_task_group() as tasks:
            for _ in range(6):
                tasks.start_soon(add)
        assert len(refused) == 4
        assert (await catalog.usage.find(1, 0)).stored_bytes == 2000


async def test_streams_that_are_added_at_the_same_moment_do_not_exceed_a_quota(
    tmp_path: Path,
) -> None:
    async with quotas_of(tmp_path, QuotaLimits(streams=3)) as (catalog, quotas):
        refused: list[ApiError] = []

        async def add() -> None:
            try:
                async with quotas.adding_stream(1):
                    await catalog.streams.add(1, "x", Change(NOW_US))
            except ApiError as error:
                refused.append(error)

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(add)
        assert len(refused) == 3  # the first start made one
        assert (await catalog.usage.find(1, 0)).streams == 3


async def test_a_file_counts_while_it_is_received(tmp_path: Path) -> None:
    async with quotas_of(tmp_path, QuotaLimits(stored_bytes=1500)) as (_, quotas):
        async with quotas.adding_file(1, 1000), quotas.adding_file(2, 1000):
            with pytest.raises(ApiError, match="no room for this file"):
                await quotas.adding_file(1, 1000).__aenter__()
            async with quotas.adding_file(1, 500):
                pass
        async with quotas.adding_file(1, 1500):
            pass


async def test_an_upload_without_a_length_counts_with_what_it_may_have(tmp_path: Path) -> None:
    async with limited(tmp_path, QuotaLimits(stored_bytes=1 << 30)) as api_service:
        headers = {**api_service.owner, **TUS, "Upload-Defer-Length": "1"}
        assert (await api_service.client.post(UPLOADS, headers=headers)).status_code == 403


async def test_no_file_comes_in_beyond_the_minutes_of_a_month(tmp_path: Path) -> None:
    async with limited(tmp_path, QuotaLimits(minutes=60)) as api_service:
        number = await add_video(api_service, 1, minutes=59)
        await add_video(api_service, 1, minutes=500, age_days=31)
        headers = {**api_service.owner, **TUS, "Upload-Length": "1000"}
        assert (await api_service.client.post(UPLOADS, headers=headers)).status_code == 201
        await add_video(api_service, 1, minutes=1)
        for answer in await all_ways(api_service, number):
            assert answer.status_code == 403
            assert answer.json()["message"] == (
                "This project may add files of 60 minutes within 30 days, and added 60."
            )


@pytest.mark.parametrize(
    ("limits", "statuses"),
    [
        pytest.param(QuotaLimits(minutes=51), [200, 200], id="room for two"),
        pytest.param(QuotaLimits(minutes=50), [200, 403], id="room for one"),
        pytest.param(QuotaLimits(minutes=40), [403, 403], id="no room"),
        pytest.param(QuotaLimits(stored_bytes=1), [200, 200], id="bytes that are stored already"),
    ],
)
async def test_former_files_are_transcoded_again_within_the_minutes_of_a_month(
    tmp_path: Path, limits: QuotaLimits, statuses: list[int]
) -> None:
    """Two of ten minutes, of videos whose present files have ten minutes, at the same moment."""
    async with limited(tmp_path, limits) as api_service:
        numbers = [await add_former(api_service, tmp_path, hash_) for hash_ in ("A" * 12, "B" * 12)]
        answers: list[httpx.Response] = []

        async def take_back(number: int) -> None:
            path = f"/api/videos/{number}/restore-file"
            answers.append(await api_service.client.post(path, headers=api_service.owner))

        async with anyio.create_task_group() as tasks:
            for number in numbers:
                tasks.start_soon(take_back, number)
        assert sorted(each.status_code for each in answers) == statuses
        used = (await api_service.catalog.usage.find(1, 0)).file_us // MINUTE_US
        assert used == 40 + 10 * statuses.count(200)
        message = f"This project may add files of {limits.minutes} minutes within 30 days"
        refused = [each.json()["message"] for each in answers if each.status_code == 403]
        assert all(each.startswith(message) for each in refused)


async def add_former(api_service: ApiService, folder: Path, hash_: str) -> int:
    """Add a video of ten minutes, and replace its file by one of ten minutes; return its number."""
    minutes = 10 * MINUTE_US
    with DiskObjects(folder / "objects") as objects:
        await objects.put(f"sources/{hash_}/1", b"x")
    video = new_video(hash_, size=1, length_us=minutes, source=f"sources/{hash_}/1")
    added = await api_service.catalog.videos.add(1, video, Change(NOW_US))
    file = VideoFile(source=f"sources/{hash_}/r-two", size=1, length_us=minutes)
    keep = Change(NOW_US, keep_us=MINUTE_US)
    await api_service.catalog.videos.replace(added.video.id, file, keep)
    return added.video.id
