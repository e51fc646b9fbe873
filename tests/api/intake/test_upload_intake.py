"""The checks of every upload: the concurrency limits and the space on the disk."""

import asyncio
from contextlib import ExitStack
from pathlib import Path

import httpx
import msgspec

from api.http.errors import ApiError
from api.intake.concurrency_limit import ConcurrencyLimit
from api.intake.upload_intake import link_holders, token_holders
from headend.roles.upload_intake import create_intake
from media.fair_share import Holder
from storage.catalog.records.common import Change
from storage.catalog.records.details import VideoDetails
from storage.catalog.records.uploads import LinkRecord
from storage.objects.disk import DiskObjects
from tests.api.uploads.test_single_request import files_of, form, video
from tests.api.uploads.test_single_request_over_http import (
    LoopbackService,
    MiB,
    accept_anything,
    open_service,
    send_parts,
)
from tests.support.api.application import NOW_US
from tests.support.plain_http import PLAIN


async def test_more_files_at_once_than_may_come_are_refused_and_the_next_is_served(
    tmp_path: Path,
) -> None:
    async with open_service(tmp_path, gate=ConcurrencyLimit(3), probe=accept_anything) as service:
        _, token = await service.catalog.tokens.add("two", None, Change(NOW_US), write=True)
        other = msgspec.structs.replace(service, token=token)
        body = form(video(data=b"x" * MiB))
        length = f"Content-Length: {len(body)}"
        connections: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

        async def hold(sender: LoopbackService) -> None:
            connections.append(await asyncio.open_connection("127.0.0.1", service.port))
            connections[-1][1].write(sender.head(length) + body[:-10])
            async with asyncio.timeout(20):
                while len(files_of(service.objects)) < len(connections):  # noqa: ASYNC110  # no event to await
                    await asyncio.sleep(0.02)

        for each in (service, service):
            await hold(each)
        mine = await send_parts(service, service.head(length))
        await hold(other)
        assert mine.startswith(b"HTTP/1.1 429 ")
        theirs = await send_parts(service, other.head(length))
        assert theirs.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 10" in mine.lower()
        assert b"retry-after: 10" in theirs.lower()
        for reader, writer in connections:
            writer.write(body[-10:])
            async with asyncio.timeout(20):
                assert (await reader.readline()).startswith(b"HTTP/1.1 201 ")
            writer.close()
        async with httpx.AsyncClient(verify=PLAIN, timeout=60) as client:
            answer = await client.post(service.url, content=body, headers=service.headers)
        assert answer.status_code == 201, answer.text


async def test_a_disk_without_room_refuses_for_now(tmp_path: Path) -> None:
    async with open_service(tmp_path, least_free=1 << 60) as service:
        async with httpx.AsyncClient(verify=PLAIN, timeout=60) as client:
            answer = await client.post(service.url, content=form(video()), headers=service.headers)
        assert answer.status_code == 503
        assert answer.json() == {"message": "There is no room for the file at the moment."}
        assert int(answer.headers["retry-after"]) > 0
        await service.nothing_is_left()


def link(number: int, project: int = 1) -> LinkRecord:
    return LinkRecord(
        id=number,
        project=project,
        project_key="key",
        origins=(),
        wanted=VideoDetails(),
        most_bytes=1,
        expires_us=1,
        used=False,
    )


def acquire_all(stack: ExitStack, gate: ConcurrencyLimit, holders: tuple[Holder, ...]) -> int:
    """Take all places that these holders get, and return their number."""
    for count in range(100):
        try:
            stack.enter_context(gate.acquire(holders))
        except ApiError:
            return count
    raise AssertionError("no limit")


def test_no_link_and_no_project_takes_all_places(tmp_path: Path) -> None:
    with DiskObjects(tmp_path) as objects, ExitStack() as stack:
        gate = create_intake(objects, 0).gate
        assert [acquire_all(stack, gate, link_holders(link(number))) for number in (1, 2, 3)] == [
            2,
            2,
            2,
        ]
        assert [acquire_all(stack, gate, token_holders(number, 1)) for number in (1, 2, 3)] == [
            9,
            3,
            0,
        ]
        assert acquire_all(stack, gate, link_holders(link(4))) == 0
        assert acquire_all(stack, gate, token_holders(9, 2)) == 3
        assert acquire_all(stack, gate, link_holders(link(5, 3))) == 2
