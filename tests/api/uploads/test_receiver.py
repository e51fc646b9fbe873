"""Resumable uploads over real connections: cut, slow, too long, taken over, on a full disk.

Those that take longer than they are kept run on a clock of their own, without connections.
"""

import asyncio
import base64
import hashlib
import random
import secrets
import shutil
import socket
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import msgspec
import pytest

from api.http.errors import ApiError
from api.http.tus import Patch, read_checksum
from api.intake.limits import UploadLimits
from api.uploads.receiver import UploadReceiver
from headend.roles.upload_intake import create_intake
from media.ticks import DAY_US
from storage.catalog.records.common import Change
from storage.cleanup.expired_uploads import remove_expired_uploads
from storage.objects import addresses
from storage.objects.addresses import PIECES
from storage.objects.disk import DiskObjects
from storage.objects.resumable_file import ResumableFile
from storage.objects.upload_pieces import UploadPieces
from tests.api.uploads.test_single_request_over_http import (
    LoopbackService,
    MiB,
    accept_anything,
    open_service,
)
from tests.support.api.application import ApiService
from tests.support.api.tus_client import OFFSETS, TUS, UPLOADS
from tests.support.api.tus_client import create as create_upload
from tests.support.plain_http import PLAIN
from tests.support.storage.undeletable_disk import UndeletableDisk


def headers_of(service: LoopbackService) -> dict[str, str]:
    return {"Authorization": f"Bearer {service.token}", **TUS}


async def create(service: LoopbackService, length: int) -> str:
    """Begin an upload; return its path."""
    async with httpx.AsyncClient(
        verify=PLAIN, base_url=f"http://127.0.0.1:{service.port}", timeout=60
    ) as client:
        answer = await client.post(
            UPLOADS, headers={**headers_of(service), "Upload-Length": str(length)}
        )
    assert answer.status_code == 201, answer.text
    return httpx.URL(answer.headers["location"]).path


async def send_request(
    service: LoopbackService, method: str, path: str, **request: object
) -> httpx.Response:
    headers = {**headers_of(service), **request.pop("headers", {})}  # type: ignore[dict-item]
    async with httpx.AsyncClient(
        verify=PLAIN, base_url=f"http://127.0.0.1:{service.port}", timeout=60
    ) as client:
        return await client.request(method, path, headers=headers, **request)  # type: ignore[arg-type]


async def offset(service: LoopbackService, path: str) -> int:
    answer = await send_request(service, "HEAD", path)
    assert answer.status_code == 200
    return int(answer.headers["upload-offset"])


async def patch(service: LoopbackService, path: str, at: int, content: object) -> httpx.Response:
    headers = {**OFFSETS, "Upload-Offset": str(at)}
    return await send_request(service, "PATCH", path, headers=headers, content=content)


def head(service: LoopbackService, path: str, at: int, length: int) -> bytes:
    """Return the head of a PATCH, for a client without a library."""
    headers = {
        "Host": "x",
        **headers_of(service),
        **OFFSETS,
        "Upload-Offset": str(at),
        "Content-Length": str(length),
    }
    lines = [f"PATCH {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


async def wait_for_bytes(service: LoopbackService, path: str, least: int) -> None:
    """Wait until the file has so many bytes."""
    file = service.objects.path(addresses.upload(path.rpartition("/")[2]))
    async with asyncio.timeout(30):
        while not file.exists() or file.stat().st_size < least:  # noqa: ASYNC110  # no event to await
            await asyncio.sleep(0.02)


async def test_an_upload_that_is_cut_again_and_again_comes_whole(tmp_path: Path) -> None:
    data = random.Random(7).randbytes(24 * MiB)
    async with open_service(tmp_path, probe=accept_anything) as service:
        path = await create(service, len(data))
        at = 0
        for cut in range(10):
            _, writer = await asyncio.open_connection("127.0.0.1", service.port)
            writer.write(head(service, path, at, len(data) - at))
            until = at + (cut + 1) * 300_000
            writer.write(data[at:until])
            await writer.drain()
            # Cut with a reset, in the middle of a piece.
            # From the third cut on at least one whole piece was sent, which the file must get.
            await wait_for_bytes(service, path, at + (cut > 1))
            writer.transport.abort()
            previous, at = at, await offset(service, path)
            assert previous <= at <= until
        assert at > 0
        answer = await patch(service, path, at, data[at:])
        assert answer.status_code == 204, answer.text
        hash_ = answer.headers["headend-video-hash"]
        stored = service.objects.path(addresses.video_source(hash_, 1)).read_bytes()
        assert hashlib.sha256(stored).digest() == hashlib.sha256(data).digest()


async def test_a_client_that_sends_too_slowly_is_disconnected_and_its_bytes_stay(
    tmp_path: Path,
) -> None:
    async with open_service(tmp_path, quiet_seconds=0.6) as service:
        path = await create(service, 1000)
        reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
        writer.write(head(service, path, 0, 1000))
        sent_bytes = 0
        async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
            response = tasks.create_task(reader.readuntil(b"\r\n\r\n"))
            while not response.done():
                writer.write(b"x")
                sent_bytes += 1
                await asyncio.sleep(0.05)
        writer.close()
        assert response.result().startswith(b"HTTP/1.1 408 ")
        assert 0 < await offset(service, path) <= sent_bytes


async def test_a_body_without_a_length_that_is_too_long_is_cut(tmp_path: Path) -> None:
    async with open_service(tmp_path) as service:
        path = await create(service, 100)

        async def endless() -> AsyncGenerator[bytes]:
            for _ in range(50):
                yield b"x" * 10

        answer = await patch(service, path, 0, endless())
        assert answer.status_code == 413
        # The announced bytes were kept; the next HEAD request probes them and finds no media.
        assert (await send_request(service, "HEAD", path)).status_code == 422
        assert (await send_request(service, "HEAD", path)).status_code == 404
        await service.nothing_is_left()


async def test_the_newest_of_two_appending_requests_continues_and_no_byte_is_lost(
    tmp_path: Path,
) -> None:
    data = random.Random(8).randbytes(4 * MiB)
    async with open_service(tmp_path, probe=accept_anything) as service:
        path = await create(service, len(data))
        loop = asyncio.get_running_loop()
        with socket.create_connection(("127.0.0.1", service.port)) as old:
            old.setblocking(False)
            await loop.sock_sendall(old, head(service, path, 0, len(data)) + data[: 2 * MiB])
            await wait_for_bytes(service, path, MiB)
            at = await offset(service, path)
            assert MiB <= at <= 2 * MiB
            async with asyncio.timeout(20):
                # Where the server closes before it has read all, a stream loses what it answered.
                old_answer = await loop.sock_recv(old, 1000)
            assert old_answer.startswith(b"HTTP/1.1 423 ")
        answer = await patch(service, path, at, data[at:])
        assert answer.status_code == 204, answer.text
        hash_ = answer.headers["headend-video-hash"]
        assert service.objects.path(addresses.video_source(hash_, 1)).read_bytes() == data


async def test_ten_concurrent_appends_leave_one_whole_file(tmp_path: Path) -> None:
    data = random.Random(9).randbytes(3 * MiB)
    async with open_service(tmp_path, probe=accept_anything) as service:
        path = await create(service, len(data))

        async def append_rest() -> int:
            at = await offset(service, path)
            return (await patch(service, path, at, data[at:])).status_code

        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            appends = [tasks.create_task(append_rest()) for _ in range(10)]
        assert {each.result() for each in appends} <= {204, 409, 423}
        at = await offset(service, path)
        answer = await patch(service, path, at, data[at:])
        assert answer.status_code == 204, answer.text
        hash_ = answer.headers["headend-video-hash"]
        assert service.objects.path(addresses.video_source(hash_, 1)).read_bytes() == data


async def test_a_disk_without_room_refuses_and_keeps_the_offset(tmp_path: Path) -> None:
    async with open_service(tmp_path) as service:
        path = await create(service, 100)
        assert (await patch(service, path, 0, b"x" * 10)).status_code == 204
    async with open_service(tmp_path, least_free=1 << 60) as service:
        _, token = await service.catalog.tokens.add("two", None, Change(1), write=True)
        full = LoopbackService(service.port, token, service.catalog, service.objects)
        created = await send_request(full, "POST", UPLOADS, headers={"Upload-Length": "100"})
        assert created.status_code == 503
        assert int(created.headers["retry-after"]) > 0
        assert (await patch(full, path, 10, b"x" * 10)).status_code == 503
        assert await offset(full, path) == 10


async def test_a_length_for_which_there_is_no_room_is_refused_when_it_is_named(
    tmp_path: Path,
) -> None:
    async with open_service(tmp_path, probe=accept_anything) as service:
        headers = {"Upload-Defer-Length": "1"}
        created = await send_request(service, "POST", UPLOADS, headers=headers)
        path = httpx.URL(created.headers["location"]).path
        assert (await patch(service, path, 0, b"x" * 10)).status_code == 204
        most = UploadLimits().most_bytes
        free = shutil.disk_usage(tmp_path).free
    with_less = open_service(tmp_path, probe=accept_anything, least_free=free - most // 2)
    async with with_less as service:
        _, token = await service.catalog.tokens.add("two", None, Change(1), write=True)
        full = LoopbackService(service.port, token, service.catalog, service.objects)
        for length, status in ((most, 503), (20, 204)):
            headers = {**OFFSETS, "Upload-Offset": "10", "Upload-Length": str(length)}
            answer = await send_request(full, "PATCH", path, headers=headers, content=b"x" * 10)
            assert answer.status_code == status, answer.text


@pytest.mark.parametrize("refused", [True, False], ids=["no video", "deleted by its owner"])
async def test_an_upload_ends_while_the_store_cannot_delete_its_bytes(
    api_service: ApiService, tmp_path: Path, refused: bool
) -> None:
    name = (await create_upload(api_service, 4)).rpartition("/")[2]
    catalog = api_service.catalog
    with UndeletableDisk(tmp_path / "stuck", PIECES) as disk:
        receiver = UploadReceiver(
            uploads=catalog.uploads,
            intake=msgspec.structs.replace(create_intake(disk, 0), pieces=UploadPieces(disk)),
            clock_us=lambda: 1,
            holders=(),
            by=None,
        )

        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": b"text", "more_body": False}

        if refused:
            with pytest.raises(ApiError) as told:
                await receiver.receive(name, Patch(offset=0, length=None, checksum=None), receive)
            assert told.value.status_code == 422, "not 503: to send it again is of no use"
        else:
            await receiver.end(name)
        assert await catalog.uploads.find(name) is None
        due = {each.address for each in await catalog.removals.find_due(1 << 60, 9)}
        assert addresses.upload_pieces(name) in due
        assert bool(await disk.addresses(PIECES)) == refused


@pytest.mark.parametrize("checked", [True, False], ids=["with a checksum", "without"])
async def test_an_upload_does_not_expire_while_it_sends(
    api_service: ApiService,
    objects: DiskObjects,
    monkeypatch: pytest.MonkeyPatch,
    checked: bool,
) -> None:
    """Each piece comes half of the time later for which an upload is kept without any."""
    monkeypatch.setattr(ResumableFile, "save_seconds", 0.0)
    data = secrets.token_bytes(4000)
    name = (await create_upload(api_service, len(data))).rpartition("/")[2]
    begun = await api_service.catalog.uploads.find(name)
    assert begun is not None
    now_us = begun.expires_us - DAY_US
    pieces = [data[at : at + 1000] for at in range(0, len(data), 1000)]

    async def receive() -> dict[str, object]:
        nonlocal now_us
        now_us += DAY_US // 2
        await remove_expired_uploads(objects, api_service.catalog.uploads, now_us)
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    intake = msgspec.structs.replace(
        create_intake(objects, 0), keep_us=DAY_US, probe=accept_anything
    )
    receiver = UploadReceiver(
        uploads=api_service.catalog.uploads,
        intake=intake,
        clock_us=lambda: now_us,
        holders=(),
        by=None,
    )
    digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
    checksum = read_checksum({"Upload-Checksum": f"sha256 {digest}"}) if checked else None
    patch = Patch(offset=0, length=None, checksum=checksum)
    assert (await receiver.receive(name, patch, receive)).done
