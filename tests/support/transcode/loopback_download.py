"""Fetching from loopback, with next to no pauses."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from storage.fetch_policy import parse_networks, parse_web_address
from storage.objects.disk import DiskObjects
from storage.objects.incoming_file import IncomingFile, open_incoming_file
from tests.support.transcode.web_servers import Answer, Asked, serving
from transcode.imports.download import Bounds, fetch
from transcode.imports.http_client import FetchRefused, Remote

__all__ = ["LOOPBACK", "MiB", "always", "fetched", "noise", "place", "refused"]

LOOPBACK = parse_networks("127.0.0.1")
MiB = 1 << 20


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


class Fetched(msgspec.Struct):
    """What came of it: the bytes, and what was told on the way."""

    data: bytes
    told: list[tuple[int, int | None]]


@asynccontextmanager
async def place(folder: Path, most: int) -> AsyncGenerator[IncomingFile]:
    with DiskObjects(folder / "objects", reserve_bytes=0) as objects:
        async with open_incoming_file(objects, max_bytes=most) as inflow:
            yield inflow


async def fetched(
    url: str,
    port: int,
    folder: Path,
    *,
    remote: Remote | None = None,
    bounds: Bounds | None = None,
) -> Fetched:
    """Fetch with loopback allowed and next to no pauses."""
    given = bounds or Bounds(most_bytes=64 * MiB, ports=frozenset())
    given = msgspec.structs.replace(given, ports=frozenset({80, port}), pause_seconds=0.001)
    told: list[tuple[int, int | None]] = []

    async def tell(received: int, size: int | None) -> None:
        told.append((received, size))

    async with place(folder, given.most_bytes) as inflow:
        await fetch(
            parse_web_address(url, given.ports),
            inflow,
            remote=remote or Remote(allowed=LOOPBACK),
            bounds=given,
            told=tell,
        )
        await inflow.flush()
        return Fetched(await asyncio.to_thread(inflow.path.read_bytes), told)


async def refused(answering: Answer, folder: Path, bounds: Bounds | None = None) -> str:
    """Fetch from a server; return why that came to nothing."""
    async with serving(answering) as site:
        with pytest.raises(FetchRefused) as error:
            await fetched(site.url(), site.port, folder, bounds=bounds)
    return error.value.reason


def always(whole: bytes) -> Answer:
    async def say(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(whole)

    return say
