"""Downloads from loopback, with short pauses between retries."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from outbound.http_client import CheckedClient, FetchRefused
from outbound.policy import parse_networks, parse_web_address
from storage.objects.disk import DiskObjects
from storage.objects.resumable_file import ResumableFile
from tests.support.transcode.web_servers import Responder, WebRequest, web_server
from transcode.imports.download import DownloadLimits, download
from transcode.imports.importer import open_partial_file

LOOPBACK = parse_networks("127.0.0.1")
MiB = 1 << 20


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


class Downloaded(msgspec.Struct):
    """The bytes that were downloaded, and the progress that was reported."""

    data: bytes
    progress: list[tuple[int, int | None]]


@asynccontextmanager
async def open_file(folder: Path, most: int) -> AsyncGenerator[ResumableFile]:
    with DiskObjects(folder / "objects", reserve_bytes=0) as objects:
        async with open_partial_file(
            objects, "abcdefghijkl", attempt=1, received=0, max_bytes=most, min_free_bytes=0
        ) as inflow:
            yield inflow


async def download_from(
    url: str,
    port: int,
    folder: Path,
    *,
    remote: CheckedClient | None = None,
    bounds: DownloadLimits | None = None,
) -> Downloaded:
    """Download a file, with loopback allowed and short pauses."""
    limits = bounds or DownloadLimits(max_bytes=64 * MiB, ports=frozenset())
    limits = msgspec.structs.replace(limits, ports=frozenset({80, port}), pause_seconds=0.001)
    progress: list[tuple[int, int | None]] = []

    async def note_progress(received: int, size: int | None) -> None:
        progress.append((received, size))

    async with open_file(folder, limits.max_bytes) as inflow:
        await download(
            parse_web_address(url, limits.ports),
            inflow,
            client=remote or CheckedClient(allowed=LOOPBACK),
            limits=limits,
            on_progress=note_progress,
        )
        await inflow.flush()
        return Downloaded(await asyncio.to_thread(inflow.path.read_bytes), progress)


async def refusal_by(
    answering: Responder, folder: Path, bounds: DownloadLimits | None = None
) -> str:
    """Download from a server that fails by `answering`, and return the reason of the failure."""
    async with web_server(answering) as site:
        with pytest.raises(FetchRefused) as error:
            await download_from(site.url(), site.port, folder, bounds=bounds)
    return error.value.reason


def always_respond(whole: bytes) -> Responder:
    async def respond(_: WebRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(whole)

    return respond
