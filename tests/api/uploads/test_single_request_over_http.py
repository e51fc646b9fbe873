"""Uploads over real connections: cut, slow, too large, on a full disk, while others wait."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

from api.app import create_app
from api.http.application import PlainApplication
from headend.http.server import serving
from headend.roles.upload_intake import create_intake
from storage.catalog import Catalog, open_catalog
from storage.catalog.videos.jobs import TRANSCODE
from storage.file_intake import FileFacts
from storage.objects.disk import DiskObjects
from tests.api.uploads.test_single_request import BOUNDARY, FORM, files_of, form, video
from tests.support.api.application import ADDRESSES, NOW_US
from tests.support.api.upload_clips import VIDEOS
from tests.support.plain_http import PLAIN
from tests.support.sql import migrated

MiB = 1 << 20


class LoopbackService(msgspec.Struct, frozen=True):
    """A service on a loopback port."""

    port: int
    token: str
    catalog: Catalog
    objects: DiskObjects

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{VIDEOS}"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}", **FORM}

    def head(self, *lines: str) -> bytes:
        """Return the head of an upload, for a client without a library."""
        fields = [f"{name}: {value}" for name, value in self.headers.items()]
        start = [f"POST {VIDEOS} HTTP/1.1", "Host: x"]
        return "\r\n".join([*start, *fields, *lines, "", ""]).encode()

    async def nothing_is_left(self) -> None:
        """Wait until there is no file, and check that there is no job and no record."""
        async with asyncio.timeout(20):
            while files_of(self.objects):  # noqa: ASYNC110  # no event to await
                await asyncio.sleep(0.02)
        project = await self.catalog.projects.find("1")
        assert project is not None
        async with httpx.AsyncClient(verify=PLAIN) as client:
            answer = await client.get(self.url, headers=self.headers)
        assert answer.json()["data"] == []
        assert await self.catalog.jobs.lease("nobody", 1 << 60, TRANSCODE) is None


@asynccontextmanager
async def open_service(
    folder: Path, **changed: Any
) -> AsyncGenerator[LoopbackService]:  # Any: fields of an intake
    with DiskObjects(folder / "objects") as objects, socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        intake = msgspec.structs.replace(create_intake(objects, min_free_bytes=0), **changed)
        async with open_catalog(migrated(folder / "catalog.db"), migrate=True) as catalog:
            first = await catalog.installation.first_start(NOW_US)
            app = create_app(
                catalog=catalog,
                addresses=ADDRESSES,
                broadcaster_key=first.broadcaster_key,
                intake=intake,
            )
            async with serving(PlainApplication(app), sock):
                yield LoopbackService(
                    sock.getsockname()[1], first.owner_token or "", catalog, objects
                )


async def send_parts(service: LoopbackService, *parts: bytes, patience: float = 20) -> bytes:
    """Send parts, and return the bytes received until the server closes or a timeout."""
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        async with asyncio.timeout(patience):
            return await reader.readuntil(b"\r\n\r\n")
    finally:
        writer.close()
        await writer.wait_closed()


async def test_a_connection_cut_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    async with open_service(tmp_path) as service:
        body = form(video(data=b"x" * 8 * MiB))
        for share in (0.0, 0.3, 0.999):
            _, writer = await asyncio.open_connection("127.0.0.1", service.port)
            writer.write(service.head(f"Content-Length: {len(body)}"))
            writer.write(body[: int(len(body) * share)])
            await writer.drain()
            if share:
                async with asyncio.timeout(20):
                    while not files_of(service.objects):  # noqa: ASYNC110  # no event to await
                        await asyncio.sleep(0.02)
            writer.transport.abort()
        await service.nothing_is_left()


async def test_a_client_that_sends_nothing_is_disconnected(tmp_path: Path) -> None:
    async with open_service(tmp_path, quiet_seconds=0.3) as service:
        head = service.head("Content-Length: 9000000")
        answer = await send_parts(service, head, form(video(data=b"x" * MiB))[:-60])
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"connection: close" in answer.lower()
        await service.nothing_is_left()


async def test_a_client_that_sends_too_slowly_is_disconnected(tmp_path: Path) -> None:
    async with open_service(tmp_path, quiet_seconds=0.5) as service:
        reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
        writer.write(service.head("Content-Length: 9000000") + form(video(data=b"x" * MiB))[:-60])
        async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
            response = tasks.create_task(reader.readuntil(b"\r\n\r\n"))
            while not response.done():
                writer.write(b"x")
                await asyncio.sleep(0.05)
        assert response.result().startswith(b"HTTP/1.1 408 ")
        writer.close()
        await service.nothing_is_left()


async def test_a_slow_client_that_keeps_sending_is_served(tmp_path: Path) -> None:
    async with open_service(tmp_path, quiet_seconds=5.0) as service:
        body = form(video())

        async def slowly() -> AsyncGenerator[bytes]:
            for start in range(0, len(body), len(body) // 8):
                yield body[start : start + len(body) // 8]
                await asyncio.sleep(0.05)

        async with httpx.AsyncClient(verify=PLAIN, timeout=60) as client:
            answer = await client.post(service.url, content=slowly(), headers=service.headers)
        assert answer.status_code == 201, answer.text


async def test_each_byte_may_come_by_itself(tmp_path: Path) -> None:
    async with open_service(tmp_path, probe=accept_anything) as service:
        body = form(video(data=b"\r\n--" + BOUNDARY[:-1].encode() + b"\r\n-" * 3))

        async def bytewise() -> AsyncGenerator[bytes]:
            for index in range(len(body)):
                yield body[index : index + 1]

        async with httpx.AsyncClient(verify=PLAIN, timeout=60) as client:
            answer = await client.post(service.url, content=bytewise(), headers=service.headers)
        assert answer.status_code == 201, answer.text
        (file,) = files_of(service.objects)
        assert file.read_bytes() == b"\r\n--" + BOUNDARY[:-1].encode() + b"\r\n-" * 3


async def accept_anything(_: Path, /) -> FileFacts | None:
    return FileFacts(length_us=1_500_000, width=640, height=360)


async def test_a_length_that_is_too_large_is_refused_before_a_byte_is_read(tmp_path: Path) -> None:
    async with open_service(tmp_path) as service:
        # More than a video, a poster and texts can be together.
        head = service.head(f"Content-Length: {600 * MiB}", "Expect: 100-continue")
        answer = await send_parts(service, head)
        assert answer.startswith(b"HTTP/1.1 413 ")
        await service.nothing_is_left()


async def test_the_byte_after_the_last_is_refused_however_it_comes(tmp_path: Path) -> None:
    limit = 3 * MiB
    async with open_service(tmp_path, max_video=limit, probe=accept_anything) as service:
        fits, over = form(video(data=b"x" * limit)), form(video(data=b"x" * (limit + 1)))

        async def chunked() -> AsyncGenerator[bytes]:
            for start in range(0, len(over), 70_000):
                yield over[start : start + 70_000]

        async with httpx.AsyncClient(verify=PLAIN, timeout=60) as client:
            for content in (over, chunked()):
                answer = await client.post(service.url, content=content, headers=service.headers)
                assert answer.status_code == 413, answer.text
                assert set(answer.json()["errors"]) == {"video"}
                await service.nothing_is_left()
            answer = await client.post(service.url, content=fits, headers=service.headers)
        assert answer.status_code == 201, answer.text
        assert answer.json()["video"]["size"] == limit


async def test_uploads_at_once_do_not_hold_each_other_up(tmp_path: Path) -> None:
    async with open_service(tmp_path, probe=accept_anything) as service:
        # One client has begun and pauses, while four others connect and leave.
        _, writer = await asyncio.open_connection("127.0.0.1", service.port)
        writer.write(service.head("Content-Length: 9000000") + form(video())[:4000])
        async with (
            httpx.AsyncClient(verify=PLAIN, timeout=60) as client,
            asyncio.TaskGroup() as tasks,
        ):
            uploads = [
                tasks.create_task(
                    client.post(
                        service.url, content=form(video(data=b"x" * MiB)), headers=service.headers
                    )
                )
                for _ in range(4)
            ]
        assert [each.result().status_code for each in uploads] == [201] * 4
        assert len({each.result().json()["video"]["hash"] for each in uploads}) == 4
        writer.close()
        await writer.wait_closed()
