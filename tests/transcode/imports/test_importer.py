"""Imports: rows, jobs, files, and the reasons that owners get."""

import asyncio
import contextlib
import json
import logging
import secrets
import sqlite3
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from headend.roles.upload_intake import probe_upload
from outbound.http_client import CheckedClient
from outbound.policy import parse_networks
from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import Change
from storage.catalog.records.details import VideoDetails
from storage.catalog.records.videos import VideoFile, VideoStatus, WholeVideo
from storage.catalog.videos.imports import NewImport
from storage.catalog.videos.jobs import IMPORT, TRANSCODE
from storage.errors import CatalogError, VideoNotFailed
from storage.leases import LEASE_US, Lease, LeaseLost
from storage.objects.addresses import imported_source, partial_import, replaced_source
from storage.objects.disk import DiskObjects
from storage.quotas import NO_QUOTAS, QuotaCheck, QuotaLimits
from storage.workers.worker_pool import WorkerPool
from tests.support.storage.new_videos import new_video
from tests.support.transcode.transcode_fixture import now_us
from tests.support.transcode.web_servers import (
    Responder,
    WebRequest,
    file_server,
    response_bytes,
    web_server,
)
from tests.support.waiting import until
from transcode.imports.download import DownloadLimits
from transcode.imports.importer import ImportContext, Importer, ImportJob

MiB = 1 << 20
PATIENCE = 60.0
QUERY = "X-Signature=hush-hush"


class ImportFixture(msgspec.Struct, frozen=True):
    """A catalog and an object store that files are imported to."""

    catalog: Catalog
    objects: DiskObjects

    def importer(
        self,
        port: int,
        least_free: int = 0,
        *,
        places: int = 8,
        clock: Callable[[], float] = time.monotonic,
        quotas: QuotaLimits = NO_QUOTAS,
    ) -> Importer:
        return Importer(
            ImportContext(
                jobs=self.catalog.jobs,
                imports=self.catalog.imports,
                objects=self.objects,
                probe=probe_upload,
                client=CheckedClient(allowed=parse_networks("127.0.0.1")),
                limits=DownloadLimits(
                    max_bytes=64 << 20, ports=frozenset({port}), pause_seconds=0.001
                ),
                least_free=least_free,
                now_us=now_us,
                places=places,
                clock=clock,
                refuse_file=QuotaCheck(self.catalog.usage, quotas, now_us).refuse_file,
            )
        )

    async def ask(
        self,
        port: int,
        wanted: VideoDetails | None = None,
        *,
        query: str = f"?{QUERY}",
        project: int = 1,
    ) -> WholeVideo:
        new = NewImport(
            url=f"http://127.0.0.1:{port}/s3cr3t/film.mp4{query}",
            host="127.0.0.1",
            video=msgspec.structs.replace(
                new_video(size=0, source=""), details=wanted or VideoDetails()
            ),
        )
        assert "s3cr3t" not in repr(new)
        return await self.catalog.imports.add(project, new, Change(now_us()))

    async def lease(self, later_us: int = 0) -> Lease:
        owner = secrets.token_hex(8)
        job = await self.catalog.jobs.lease(owner, now_us() + later_us, IMPORT)
        assert job is not None
        return job

    async def found(self, video: int) -> WholeVideo:
        whole = await self.catalog.videos.find(video)
        assert whole is not None
        return whole

    async def status(self, video: int) -> VideoStatus:
        status = await self.catalog.videos.find_status(video)
        assert status is not None
        return status

    async def broadcasts(self) -> list[dict[str, object]]:
        """Return the bodies of the broadcasts so far."""
        records, _ = await self.catalog.outbox.read_after(0, 1000)
        return [json.loads(record.body) for record in records]

    async def sources(self, whole: WholeVideo) -> list[str]:
        return await self.objects.addresses(f"sources/{whole.video.hash}")

    def temporaries(self) -> list[Path]:
        return [
            path
            for path in (self.objects.root / ".temporary").rglob("*")
            if path.is_file() and path.name != "reserve"
        ]


@asynccontextmanager
async def opened(location: str | Path, folder: Path) -> AsyncGenerator[ImportFixture]:
    async with open_catalog(location, migrate=True) as catalog:
        await catalog.installation.first_start(now_us())
        with DiskObjects(folder / "objects", reserve_bytes=0) as objects:
            yield ImportFixture(catalog, objects)


@pytest.fixture
async def imports(sqlite_database: Path, tmp_path: Path) -> AsyncGenerator[ImportFixture]:
    async with opened(sqlite_database, tmp_path) as fixture:
        yield fixture


@pytest.fixture
async def any_imports(either_database: str | Path, tmp_path: Path) -> AsyncGenerator[ImportFixture]:
    async with opened(either_database, tmp_path) as fixture:
        yield fixture


async def test_an_import_becomes_the_source_of_its_video(
    any_imports: ImportFixture, short_film: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    imports = any_imports
    data = await asyncio.to_thread(short_film.read_bytes)
    async with web_server(file_server(data)) as site:
        details = VideoDetails(title="A film", countries=(642,), tags=("holiday",))
        asked = await imports.ask(site.port, details)
        assert (asked.video.state, asked.video.size) == ("uploading", 0)
        assert [tag.name for tag in asked.tags] == ["holiday"]
        assert (
            await imports.catalog.jobs.lease("nobody's", now_us(), TRANSCODE) is None
        )  # nothing to transcode
        await imports.importer(site.port).do(await imports.lease())
    whole = await imports.found(asked.video.id)
    assert (whole.video.state, whole.video.size, whole.video.title) == (
        "queued",
        len(data),
        "A film",
    )
    assert (whole.video.width, whole.video.height) == (854, 480)
    (source,) = await imports.sources(whole)
    assert await imports.objects.get(source) == data
    job = await imports.catalog.jobs.lease("worker", now_us(), TRANSCODE)
    assert job is not None and job.subject == whole.video.id
    assert (await imports.catalog.transcoding.begin(job, now_us())).source == source
    assert imports.temporaries() == []
    events = (await imports.catalog.events.find_page(1)).items
    assert [event.kind for event in events][1:3] == ["video added", "import asked for"]
    messages = await imports.broadcasts()
    assert messages[0]["uploading"] is True
    assert messages[0]["received_bytes"] == 0
    assert messages[0]["size"] == len(data)
    everything = caplog.text + repr(events) + repr(messages)
    assert "s3cr3t" not in everything
    assert QUERY not in everything


@pytest.mark.parametrize(
    ("answering", "reason"),
    [
        (response_bytes("404 Not Found", "Content-Length: 0"), "The server answered 404."),
        (response_bytes("200 OK", "Content-Length: 4", body=b"text"), "The file cannot be read"),
        (response_bytes("302 Found", "Location: http://10.0.0.1/", "Content-Length: 0"), "not go"),
    ],
)
async def test_what_cannot_be_had_fails_with_a_reason(
    imports: ImportFixture, answering: bytes, reason: str
) -> None:
    async def say(_: WebRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(answering)

    async with web_server(say) as site:
        video = (await imports.ask(site.port)).video.id
        await imports.importer(site.port).do(await imports.lease())
    status = await imports.status(video)
    assert status.state == "failed"
    assert reason in status.reason
    assert await imports.sources(await imports.found(video)) == []
    assert imports.temporaries() == []


@pytest.mark.parametrize("announced", [True, False])
async def test_an_import_beyond_the_bytes_of_its_project_fails(
    any_imports: ImportFixture, short_film: Path, announced: bool
) -> None:
    """The second of two that were asked for while there was room for one."""
    imports = any_imports
    data = await asyncio.to_thread(short_film.read_bytes)

    async def say(request: WebRequest, writer: asyncio.StreamWriter) -> None:
        length = [f"Content-Length: {len(data)}"] if announced else ["Connection: close"]
        writer.write(response_bytes("200 OK", *length, body=data))

    async with web_server(say) as site:
        quotas = QuotaLimits(stored_bytes=len(data) * 3 // 2)
        importer = imports.importer(site.port, quotas=quotas)
        videos = [(await imports.ask(site.port)).video.id for _ in range(2)]
        await importer.do(await imports.lease())
        await importer.do(await imports.lease())
    assert (await imports.status(videos[0])).state == "queued"
    assert "there is no room for this file" in (await imports.status(videos[1])).reason
    assert await imports.sources(await imports.found(videos[1])) == []


async def test_a_failed_import_can_be_asked_again(
    any_imports: ImportFixture, short_film: Path
) -> None:
    imports = any_imports
    data = await asyncio.to_thread(short_film.read_bytes)
    good = False

    async def recover(request: WebRequest, writer: asyncio.StreamWriter) -> None:
        if good:
            await file_server(data)(request, writer)
        else:
            writer.write(response_bytes("404 Not Found", "Content-Length: 0"))

    async with web_server(recover) as site:
        video = (await imports.ask(site.port, query="")).video.id
        with pytest.raises(VideoNotFailed):
            await imports.catalog.videos.retry(video, Change(now_us()))
        await imports.importer(site.port).do(await imports.lease())
        good = True
        again = await imports.catalog.videos.retry(video, Change(now_us()))
        assert again is not None and again.video.state == "uploading"
        await imports.importer(site.port).do(await imports.lease())
    status = await imports.status(video)
    assert (status.state, status.reason) == ("queued", "")


def slowly(data: bytes, begun: asyncio.Event) -> Responder:
    """Serve a file that stalls in its middle until the test is over."""

    async def serve(_: WebRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(response_bytes("200 OK", f"Content-Length: {len(data)}"))
        while True:
            writer.write(data[:20_000])
            await writer.drain()
            begun.set()
            await asyncio.sleep(0.05)

    return serve


@asynccontextmanager
async def under_way(
    imports: ImportFixture,
) -> AsyncGenerator[tuple[int, Lease, "asyncio.Task[None]"]]:
    """Yield an import that is in the middle of its file."""
    begun = asyncio.Event()
    async with web_server(slowly(bytes(50 << 20), begun)) as site:
        video = (await imports.ask(site.port)).video.id
        job = await imports.lease()
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
            task = tasks.create_task(_ending(imports.importer(site.port), job))
            await begun.wait()
            yield video, job, task
            task.cancel()


async def _ending(importer: Importer, job: Lease) -> None:
    try:
        await importer.do(job)
    except LeaseLost:
        return


async def test_deleting_the_video_ends_the_fetch(any_imports: ImportFixture) -> None:
    imports = any_imports
    async with under_way(imports) as (video, _, task):
        await imports.catalog.videos.remove(video, Change(now_us()))
        await task
    assert not task.cancelled()
    assert imports.temporaries() == []


async def test_progress_is_reported_once_a_second_at_most(imports: ImportFixture) -> None:
    async with under_way(imports):
        before = now_us()

        async def has_told() -> bool:
            return (
                len([body for body in await imports.broadcasts() if body.get("received_bytes")])
                >= 2
            )

        await until(has_told, within=PATIENCE)
        seconds = (now_us() - before) / 1e6
        counts = [body["received_bytes"] for body in await imports.broadcasts()]
    assert counts == sorted(counts, key=lambda count: int(str(count)))
    assert len(counts) <= seconds + 2


async def test_a_worker_that_is_told_to_stop_gives_the_job_back(imports: ImportFixture) -> None:
    async with under_way(imports) as (video, job, task):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await imports.status(video)).state == "uploading"
        again = await imports.lease()
        assert (again.id, again.failures) == (job.id, 0)
    assert imports.temporaries() == []


async def test_a_worker_that_lost_the_job_changes_nothing(
    any_imports: ImportFixture, short_film: Path
) -> None:
    """A worker that slept through its lease wakes up when another has brought the file."""
    imports = any_imports
    data = await asyncio.to_thread(short_film.read_bytes)
    async with web_server(file_server(data)) as site:
        video = (await imports.ask(site.port)).video.id
        slow = await imports.lease()
        quick = await imports.lease(later_us=LEASE_US + 1_000_000)
        assert (quick.id, quick.attempt, quick.failures) == (slow.id, 2, 1)
        with pytest.raises(LeaseLost):
            await imports.importer(site.port).do(slow)
        await imports.importer(site.port).do(quick)
        with pytest.raises(LeaseLost):
            await imports.importer(site.port).do(slow)
    whole = await imports.found(video)
    assert await imports.sources(whole) == [f"sources/{whole.video.hash}/1-2"]
    assert [event.kind for event in (await imports.catalog.events.find_page(1)).items].count(
        "video added"
    ) == 1


class PausedDisk(DiskObjects):
    """A disk that blocks before it lists the files of older attempts."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, reserve_bytes=0)
        self.asleep = asyncio.Event()
        self.awake = asyncio.Event()

    async def addresses(self, prefix: str) -> list[str]:
        self.asleep.set()
        await self.awake.wait()
        return await super().addresses(prefix)


async def test_a_file_that_took_the_fetched_one_s_place_meanwhile_stays(
    any_imports: ImportFixture, short_film: Path
) -> None:
    """A worker removes what imports left, and nothing that others stored since."""
    data = await asyncio.to_thread(short_film.read_bytes)
    disk = PausedDisk(any_imports.objects.root)
    with disk:
        imports = ImportFixture(any_imports.catalog, disk)
        async with web_server(file_server(data)) as site, asyncio.TaskGroup() as tasks:
            whole = await imports.ask(site.port)
            hash_ = whole.video.hash
            await disk.put(imported_source(hash_, 0), b"of an older attempt")
            working = tasks.create_task(imports.importer(site.port).do(await imports.lease()))
            async with asyncio.timeout(PATIENCE):
                await disk.asleep.wait()
            source = replaced_source(hash_, "other")
            await disk.put(source, data)
            landed = VideoFile(source=source, size=len(data), length_us=1, width=640, height=480)
            assert await imports.catalog.videos.replace(whole.video.id, landed, Change(now_us()))
            disk.awake.set()
            await working
        assert source in await imports.sources(whole)
        assert imported_source(hash_, 0) not in await imports.sources(whole)


async def test_a_catalog_that_does_not_answer_at_the_end_is_no_mistake_of_ours(
    sqlite_database: Path, tmp_path: Path, short_film: Path
) -> None:
    """The lease runs out, and the file is fetched again: no traceback, and no group of errors."""
    data = await asyncio.to_thread(short_film.read_bytes)
    async with opened(sqlite_database, tmp_path) as imports, web_server(file_server(data)) as site:
        whole = await imports.ask(site.port)
        job = await imports.lease()
        with contextlib.closing(sqlite3.connect(sqlite_database)) as database:
            database.execute(
                "CREATE TRIGGER refuses BEFORE DELETE ON imports"
                " BEGIN SELECT RAISE(ABORT, 'no'); END"
            )
            with pytest.raises(CatalogError):
                await imports.importer(site.port).do(job)
            database.execute("DROP TRIGGER refuses")
        assert (await imports.status(whole.video.id)).state == "uploading"
        again = await imports.lease(later_us=LEASE_US + 1_000_000)
        await imports.importer(site.port).do(again)
        assert (await imports.status(whole.video.id)).state == "queued"
        assert await imports.sources(whole) == [imported_source(whole.video.hash, 2)]


async def test_an_import_whose_end_is_refused_once_is_not_fetched_again(
    sqlite_database: Path, tmp_path: Path, short_film: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = await asyncio.to_thread(short_film.read_bytes)
    async with opened(sqlite_database, tmp_path) as imports, web_server(file_server(data)) as site:
        whole = await imports.ask(site.port)
        job = await imports.lease()
        with contextlib.closing(sqlite3.connect(sqlite_database)) as database:
            database.execute(
                "CREATE TRIGGER refuses BEFORE DELETE ON imports"
                " BEGIN SELECT RAISE(ABORT, 'no'); END"
            )
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(imports.importer(site.port).do(job))
                await until(lambda: "catalog not written yet" in caplog.text, within=PATIENCE)
                database.execute("DROP TRIGGER refuses")
        assert (await imports.status(whole.video.id)).state == "queued"
        assert await imports.sources(whole) == [imported_source(whole.video.hash, 1)]


async def test_an_import_whose_workers_die_is_given_up(imports: ImportFixture) -> None:
    async with web_server(file_server(b"")) as site:
        video = (await imports.ask(site.port)).video.id
        for attempt in range(1, 4):
            job = await imports.lease(later_us=attempt * (LEASE_US + 1_000_000))
            assert job.attempt == attempt
        last = await imports.lease(later_us=4 * (LEASE_US + 1_000_000))
        assert last.spent
        await imports.importer(site.port).do(last)
    status = await imports.status(video)
    assert status.state == "failed"
    assert status.reason == "The import broke off 3 times and was given up."


async def test_a_full_disk_is_tried_again_later(imports: ImportFixture, short_film: Path) -> None:
    data = await asyncio.to_thread(short_film.read_bytes)
    async with web_server(file_server(data)) as site:
        video = (await imports.ask(site.port)).video.id
        full = imports.importer(site.port, least_free=1 << 62)
        for later_us in (0, 60_000_000, 600_000_000):
            assert (await imports.status(video)).state == "uploading"
            await full.do(await imports.lease(later_us=later_us))
    status = await imports.status(video)
    assert (status.state, status.reason) == ("failed", "There is no room for the file.")


async def test_importers_take_what_is_asked_for(imports: ImportFixture, short_film: Path) -> None:
    data = await asyncio.to_thread(short_film.read_bytes)
    async with web_server(file_server(data)) as site, asyncio.TaskGroup() as tasks:
        running = tasks.create_task(WorkerPool(imports.importer(site.port), size=2).run())
        videos = [(await imports.ask(site.port)).video.id for _ in range(3)]

        async def are_there() -> bool:
            return {(await imports.status(video)).state for video in videos} == {"queued"}

        await until(are_there, within=PATIENCE)
        running.cancel()


async def test_one_project_s_imports_leave_places_for_another_s(
    any_imports: ImportFixture,
) -> None:
    """Four crawling servers once held all four places."""
    imports = any_imports
    other = (await imports.catalog.projects.add("Other", Change(now_us()))).id
    now = 0.0
    importer = imports.importer(1, places=4, clock=lambda: now)
    for _ in range(5):
        await imports.ask(1)
    jobs = [await importer.lease(secrets.token_hex(8)) for _ in range(4)]
    assert [each.project for each in jobs if each is not None] == [1, 1]
    await imports.ask(1, project=other)
    now += 10
    job = await importer.lease(secrets.token_hex(8))
    assert job is not None
    assert job.project == other
    assert await importer.lease(secrets.token_hex(8)) is None
    # A place that becomes free goes to the next import that waits.
    assert jobs[0] is not None
    await importer.do(jobs[0])
    now += 10
    again = await importer.lease(secrets.token_hex(8))
    assert again is not None
    assert again.project == 1


async def begun_and_killed(imports: ImportFixture, port: int) -> Lease:
    """Import until some of the file is on the disk, and stop as a killed process does."""
    job = await imports.lease()
    work = await imports.catalog.imports.begin(job, now_us())
    killed = ImportJob(imports.importer(port).context, work, job)
    async with asyncio.TaskGroup() as tasks:
        making = tasks.create_task(killed.make())

        async def is_safe() -> bool:
            return await received(imports, job) > MiB

        await until(is_safe, within=PATIENCE)
        making.cancel()
    return job


async def received(imports: ImportFixture, job: Lease) -> int:
    return (await imports.catalog.imports.begin(job, now_us())).received


def slow_server(data: bytes, tags: list[str], *, ranges: bool = True) -> Responder:
    """Serve a file: the first time half of it, and then nothing; later what is asked for.

    `tags` are those of the versions that it has in turn.
    """
    asked_before: list[WebRequest] = []

    async def serve(request: WebRequest, writer: asyncio.StreamWriter) -> None:
        tag = tags[min(len(asked_before), len(tags) - 1)]
        asked_before.append(request)
        if len(asked_before) > 1:
            await file_server(data, tag=tag, ranges=ranges)(request, writer)
            return
        writer.write(response_bytes("200 OK", f"Content-Length: {len(data)}", f"ETag: {tag}"))
        for start in range(0, len(data) // 2, MiB):
            writer.write(data[start : start + MiB])
            await writer.drain()
            await asyncio.sleep(0.3)
        await asyncio.Event().wait()

    return serve


def padded(film: bytes) -> bytes:
    """A film with so much room behind it that it takes a while to arrive."""
    room = 16 * MiB
    return film + (room + 8).to_bytes(4) + b"free" + bytes(room)


@pytest.mark.parametrize(
    ("tags", "ranges"),
    [
        pytest.param(['"one"'], True, id="the same file"),
        pytest.param(['"one"', '"two"'], True, id="another file by now"),
        pytest.param(['"one"'], False, id="a server without ranges"),
    ],
)
async def test_an_import_whose_worker_was_killed_resumes_where_the_server_allows_it(
    imports: ImportFixture, short_film: Path, tags: list[str], ranges: bool
) -> None:
    data = padded(await asyncio.to_thread(short_film.read_bytes))
    async with web_server(slow_server(data, tags, ranges=ranges)) as site:
        whole = await imports.ask(site.port)
        killed = await begun_and_killed(imports, site.port)
        safe = await received(imports, killed)
        assert await imports.sources(whole) == [partial_import(whole.video.hash)]
        await imports.importer(site.port).do(await imports.lease(LEASE_US + 1))
        second = site.requests[1]
        assert second.headers["if-range"] == '"one"'
        assert MiB < second.range_start == safe
        assert len(site.requests) == 2
    (source,) = await imports.sources(whole)
    assert source == imported_source(whole.video.hash, 2)
    assert await imports.objects.get(source) == data


async def test_what_came_of_an_import_that_is_given_up_is_removed(
    imports: ImportFixture, short_film: Path
) -> None:
    data = padded(await asyncio.to_thread(short_film.read_bytes))
    async with web_server(slow_server(data, ['"one"'])) as site:
        whole = await imports.ask(site.port, query="")
        await begun_and_killed(imports, site.port)
    later_us = LEASE_US + 1
    for attempt in range(3):  # the server is gone
        job = await imports.lease((attempt + 1) * later_us)
        await imports.importer(site.port).do(job)
        if (await imports.status(whole.video.id)).state == "failed":
            break
    assert (await imports.status(whole.video.id)).state == "failed"
    assert await imports.sources(whole) == []
