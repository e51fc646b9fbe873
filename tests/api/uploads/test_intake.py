"""What every upload passes through: the limits and the room on the disk."""

import asyncio
from pathlib import Path

import httpx
import msgspec

from api.http.concurrency_limit import ConcurrencyLimit
from tests.api.uploads.test_single_request import files_of, form, video
from tests.api.uploads.test_single_request_over_http import MiB, anything, opened, talk
from tests.support.api.application import NOW_US


async def test_more_files_at_once_than_may_come_are_refused_and_the_next_is_served(
    tmp_path: Path,
) -> None:
    async with opened(
        tmp_path, gate=ConcurrencyLimit(total=3, per_caller=2), probe=anything
    ) as door:
        _, token = await door.catalog.tokens.add("two", None, write=True, now_us=NOW_US)
        other = msgspec.structs.replace(door, token=token)
        whole = form(video(data=b"x" * MiB))
        length = f"Content-Length: {len(whole)}"
        held: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        for number, each in enumerate((door, door, other), 1):
            held.append(await asyncio.open_connection("127.0.0.1", door.port))
            held[-1][1].write(each.head(length) + whole[:-10])
            async with asyncio.timeout(20):
                while len(files_of(door.objects)) < number:  # noqa: ASYNC110  # nobody tells
                    await asyncio.sleep(0.02)
        mine = await talk(door, door.head(length))
        assert mine.startswith(b"HTTP/1.1 429 ")
        theirs = await talk(door, other.head(length))
        assert theirs.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 10" in mine.lower()
        assert b"retry-after: 10" in theirs.lower()
        for reader, writer in held:
            writer.write(whole[-10:])
            async with asyncio.timeout(20):
                assert (await reader.readline()).startswith(b"HTTP/1.1 201 ")
            writer.close()
        async with httpx.AsyncClient(timeout=60) as client:
            answer = await client.post(door.url, content=whole, headers=door.headers)
        assert answer.status_code == 201, answer.text


async def test_a_disk_without_room_refuses_for_now(tmp_path: Path) -> None:
    async with opened(tmp_path, least_free=1 << 60) as door:
        async with httpx.AsyncClient(timeout=60) as client:
            answer = await client.post(door.url, content=form(video()), headers=door.headers)
        assert answer.status_code == 503
        assert answer.json() == {"message": "There is no room for the file at the moment."}
        assert int(answer.headers["retry-after"]) > 0
        await door.nothing_is_left()
