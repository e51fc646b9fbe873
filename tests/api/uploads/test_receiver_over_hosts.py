"""Uploads that several hosts receive, which share only PostgreSQL and a bucket."""

import asyncio
import base64
import hashlib
import random
import socket
from collections.abc import AsyncGenerator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import msgspec
import pytest

from api.app import create_app
from api.http.application import PlainApplication
from headend.http.server import serving
from headend.roles.upload_intake import create_intake
from storage.catalog import Catalog, open_catalog
from storage.catalog.videos.jobs import TRANSCODE
from storage.objects.addresses import PIECES, video_source
from storage.objects.disk import DiskObjects
from storage.objects.s3 import S3Objects
from storage.objects.s3_bucket import S3Location
from storage.objects.upload_pieces import UploadPieces
from tests.api.uploads.test_single_request import FORM, form, video
from tests.api.uploads.test_single_request_over_http import MiB, accept_anything
from tests.support.api.application import ADDRESSES, NOW_US
from tests.support.api.tus_client import OFFSETS, TUS, UPLOADS, path_of
from tests.support.api.upload_clips import VIDEOS, clip
from tests.support.plain_http import PLAIN
from tests.support.postgres import PostgresServer
from tests.support.sql import run_sql
from tests.support.storage.s3_server import S3Server
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

PIECE = 256 * 1024
DATA = random.Random(21).randbytes(5 * MiB // 2)


class UploadHost(msgspec.Struct, frozen=True):
    """A host that receives uploads, on a loopback port."""

    port: int
    token: str
    catalog: Catalog
    objects: S3Objects

    async def ask(self, method: str, path: str, **request: object) -> httpx.Response:
        authorized = {"Authorization": f"Bearer {self.token}"}
        headers = {**authorized, **request.pop("headers", {})}  # type: ignore[dict-item]
        async with httpx.AsyncClient(
            verify=PLAIN, base_url=f"http://127.0.0.1:{self.port}", timeout=60
        ) as client:
            return await client.request(method, path, headers=headers, **request)  # type: ignore[arg-type]

    async def create(self, length: int) -> str:
        answer = await self.ask("POST", UPLOADS, headers={**TUS, "Upload-Length": str(length)})
        assert answer.status_code == 201, answer.text
        return path_of(answer)

    async def head(self, path: str) -> httpx.Response:
        return await self.ask("HEAD", path, headers=TUS)

    async def offset(self, path: str) -> int:
        answer = await self.head(path)
        assert answer.status_code == 200
        return int(answer.headers["upload-offset"])

    async def append(self, path: str, at: int, body: object, **more: str) -> httpx.Response:
        headers = {**TUS, **OFFSETS, "Upload-Offset": str(at), **more}
        return await self.ask("PATCH", path, headers=headers, content=body)


class UploadHosts(msgspec.Struct, frozen=True):
    """Hosts that share a database and a bucket."""

    hosts: list[UploadHost]
    database: str

    async def has_a_video(self, hash_: str, data: bytes) -> None:
        """Check that there is one video with these bytes, and nothing else."""
        objects = self.hosts[0].objects
        assert await objects.addresses("sources") == [video_source(hash_, 1)]
        assert await objects.get(video_source(hash_, 1)) == data
        assert await objects.addresses(PIECES) == []
        assert await self.hosts[0].catalog.jobs.lease("one", 1 << 60, TRANSCODE) is not None
        assert await self.hosts[0].catalog.jobs.lease("two", 1 << 60, TRANSCODE) is None


@asynccontextmanager
async def host_of(
    folder: Path, database: str, bucket: S3Location, token: str
) -> AsyncGenerator[UploadHost]:
    async with AsyncExitStack() as stack:
        scratch = stack.enter_context(DiskObjects(folder))
        sock = stack.enter_context(socket.socket())
        sock.bind(("127.0.0.1", 0))
        objects = S3Objects(bucket, scratch, cache_bytes=1 << 20)
        catalog = await stack.enter_async_context(open_catalog(database, migrate=False))
        intake = msgspec.structs.replace(
            create_intake(objects, 0, shared=True),
            probe=accept_anything,
            pieces=UploadPieces(objects, piece_bytes=PIECE),
        )
        key = (await catalog.installation.first_start(NOW_US)).broadcaster_key
        app = create_app(catalog=catalog, addresses=ADDRESSES, broadcaster_key=key, intake=intake)
        await stack.enter_async_context(serving(PlainApplication(app), sock))
        yield UploadHost(sock.getsockname()[1], token, catalog, objects)


@pytest.fixture
async def upload_hosts(
    s3_server: S3Server,
    postgres_server: PostgresServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncGenerator[UploadHosts]:
    for name, value in s3_server.credentials.items():
        monkeypatch.setenv(name, value)
    bucket = s3_server.new_bucket("media")
    with postgres_server.fresh_database() as database:
        async with AsyncExitStack() as stack:
            async with open_catalog(database, migrate=False) as catalog:
                token = (await catalog.installation.first_start(NOW_US)).owner_token or ""
            hosts = [
                await stack.enter_async_context(
                    host_of(tmp_path / f"host-{number}", database, bucket, token)
                )
                for number in range(3)
            ]
            yield UploadHosts(hosts, database)


async def test_an_upload_can_be_continued_at_other_hosts(
    upload_hosts: UploadHosts,
) -> None:
    first, second, third = upload_hosts.hosts
    path = await first.create(len(DATA))
    assert (await first.append(path, 0, DATA[: 3 * PIECE + 1])).status_code == 204
    at = await second.offset(path)
    assert at == 3 * PIECE + 1
    assert (await second.append(path, at, DATA[at:MiB])).status_code == 204
    assert await first.offset(path) == await third.offset(path) == MiB
    answer = await third.append(path, MiB, DATA[MiB:])
    assert answer.status_code == 204, answer.text
    await upload_hosts.has_a_video(answer.headers["headend-video-hash"], DATA)
    for host in upload_hosts.hosts:
        assert await host.offset(path) == len(DATA)


async def test_a_request_that_was_overtaken_at_another_host_changes_nothing(
    upload_hosts: UploadHosts,
) -> None:
    """Such a request comes from a host that is cut off, or that the client has abandoned."""
    first, second, _ = upload_hosts.hosts
    path = await first.create(len(DATA))
    go_on = asyncio.Event()

    async def body() -> AsyncGenerator[bytes]:
        yield DATA[:MiB]
        await go_on.wait()
        yield bytes(len(DATA) - MiB)  # other bytes than the client sends again

    async with asyncio.TaskGroup() as tasks:
        old = tasks.create_task(status_of(first.append(path, 0, body())))
        await until(lambda: _has_pieces(second))
        at = await second.offset(path)
        assert at <= MiB
        answer = await second.append(path, at, DATA[at:])
        assert answer.status_code == 204, answer.text
        go_on.set()
    assert old.result() in {None, 423}
    source = video_source(answer.headers["headend-video-hash"], 1)
    assert await second.objects.get(source) == DATA


async def status_of(request: Awaitable[httpx.Response]) -> int | None:
    """Return the status of an answer; None if the host closed the connection before."""
    try:
        return (await request).status_code
    except httpx.TransportError:
        return None


async def _has_pieces(host: UploadHost) -> bool:
    return bool(await host.objects.addresses(PIECES))


async def test_hosts_that_append_at_once_leave_one_whole_file(upload_hosts: UploadHosts) -> None:
    path = await upload_hosts.hosts[0].create(len(DATA))

    async def append_rest(host: UploadHost) -> int:
        head = await host.head(path)
        if head.status_code != 200:
            return head.status_code
        at = int(head.headers["upload-offset"])
        return (await host.append(path, at, DATA[at:])).status_code

    async with asyncio.TaskGroup() as tasks:
        appends = [
            tasks.create_task(append_rest(host)) for host in upload_hosts.hosts for _ in "ab"
        ]
    assert {each.result() for each in appends} <= {204, 409, 423}

    async def is_whole() -> bool:
        answer = await upload_hosts.hosts[2].head(path)
        at = int(answer.headers.get("upload-offset", "0"))
        return (
            answer.status_code == 200
            and (await upload_hosts.hosts[2].append(path, at, DATA[at:])).status_code == 204
        )

    await until(is_whole, within=60)
    hash_ = (await upload_hosts.hosts[1].head(path)).headers["headend-video-hash"]
    await upload_hosts.has_a_video(hash_, DATA)


async def test_another_host_completes_the_upload_of_a_host_that_died(
    upload_hosts: UploadHosts,
) -> None:
    first, second, _ = upload_hosts.hosts
    path = await first.create(len(DATA))
    name = path.rpartition("/")[2]
    assert (await first.append(path, 0, DATA[:-1])).status_code == 204
    # The state that the first host leaves when it is killed while it completes the file.
    record = await first.catalog.uploads.claim(name, "dead")
    assert record is not None
    pieces = UploadPieces(first.objects)
    async with pieces.open(first.catalog.uploads, name, wait_seconds=1) as file:
        await file.truncate(record.received)
        await file.write(DATA[-1:])
        await file.flush()
        assert await first.catalog.uploads.record_received(
            record, "dead", len(DATA), NOW_US * 2, NOW_US, file.unrecorded
        )
    assert await first.catalog.uploads.hold(name, "dead", 30)
    # Until that hold expires, other hosts answer 423, so that the client tries again.
    assert (await second.head(path)).status_code == 423
    assert (await second.append(path, len(DATA), b"")).status_code == 423
    run_sql(upload_hosts.database, "UPDATE uploads SET held_until_us = held_until_us - 31000000")
    head = await second.head(path)
    assert (head.status_code, head.headers["upload-offset"]) == (200, str(len(DATA)))
    await upload_hosts.has_a_video(head.headers["headend-video-hash"], DATA)


async def test_bytes_with_a_wrong_checksum_are_not_kept_at_any_host(
    upload_hosts: UploadHosts,
) -> None:
    first, second, third = upload_hosts.hosts
    path = await first.create(len(DATA))

    def checksum(part: bytes) -> dict[str, str]:
        digest = base64.b64encode(hashlib.sha256(part).digest()).decode()
        return {"Upload-Checksum": f"sha256 {digest}"}

    half = DATA[:MiB]
    assert (await first.append(path, 0, half, **checksum(DATA))).status_code == 460
    assert await second.offset(path) == 0
    assert (await second.append(path, 0, half, **checksum(half))).status_code == 204
    rest = DATA[MiB:]
    assert (await third.append(path, MiB, rest, **checksum(half))).status_code == 460
    answer = await first.append(path, MiB, rest, **checksum(rest))
    assert answer.status_code == 204, answer.text
    await upload_hosts.has_a_video(answer.headers["headend-video-hash"], DATA)


async def test_an_upload_that_is_ended_at_another_host_leaves_nothing(
    upload_hosts: UploadHosts,
) -> None:
    first, second, third = upload_hosts.hosts
    path = await first.create(len(DATA))
    assert (await first.append(path, 0, DATA[:MiB])).status_code == 204
    assert (await second.ask("DELETE", path, headers=TUS)).status_code == 204
    assert await second.objects.addresses(PIECES) == []
    assert (await first.append(path, MiB, DATA[MiB:])).status_code == 404
    assert (await third.head(path)).status_code == 404
    assert await second.objects.addresses(PIECES) == []
    assert run_sql(upload_hosts.database, "SELECT count(*) FROM upload_pieces") == [(0,)]


async def test_a_form_may_come_to_any_host(upload_hosts: UploadHosts) -> None:
    for host in upload_hosts.hosts[1:]:
        answer = await host.ask("POST", VIDEOS, headers=FORM, content=form(video(data=clip())))
        assert answer.status_code == 201, answer.text
        hash_ = answer.json()["video"]["hash"]
        assert await upload_hosts.hosts[0].objects.get(video_source(hash_, 1)) == clip()
