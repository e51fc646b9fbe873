"""An origin with a live run, and a client of it."""

from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
from litestar import Litestar

from api.http.application import FastAnswer
from api.http.response import HttpResponse
from api.origin.origin import Origin, OriginFirst
from api.origin.visibility import VisibilityCache
from delivery.edge.memory import MemoryEdge
from delivery.edge.publishing import PublishingEdge
from delivery.edge.remote import RemoteEdge
from storage.catalog.records.common import PublicRecord
from storage.errors import StorageError
from storage.objects.disk import DiskObjects
from tests.support.manual_clock import ManualClock
from tests.support.storage.engine_reports import (
    HASH,
    LOW,
    RUN,
    TOP,
    ReportMaker,
    append_all,
    begin_epoch,
    open_run,
)

TOKEN = "Bearer the-owners"
PLAYLIST = f"/live/{HASH}/{RUN}/720p/index.m3u8"
VARIANTS = f"/live/{HASH}/index.m3u8"
SEGMENT = f"/live/{HASH}/{RUN}/720p/1.m4s"


async def later(answer: FastAnswer) -> HttpResponse:
    """Await a response that the fast path delivers later."""
    assert isinstance(answer, Coroutine)
    response = await answer
    assert isinstance(response, HttpResponse)
    return response


class FakePublicRecords:
    """A catalog of streams that counts its queries."""

    def __init__(self) -> None:
        self.streams: dict[str, PublicRecord] = {}
        self.asked = 0
        self.broken = False

    def put(self, *, published: bool = True, hidden: bool = False) -> None:
        self.streams[HASH] = PublicRecord(
            hash=HASH, project=1, title="", description="",
            published=published, hidden=hidden, live=True,
        )  # fmt: skip

    async def find(self, hash_: str, /) -> PublicRecord | None:
        self.asked += 1
        if self.broken:
            raise StorageError("the catalog is away")
        return self.streams.get(hash_)


async def is_owner(authorization: str | None, hash_: str, /) -> bool:
    return authorization == TOKEN and hash_ == HASH


class OriginSite:
    """An origin with a run of three segments, and a client of it.

    Its media are in `objects`, or in the folder. If another process makes the run, it writes to the
    edge `maker`, and the origin reads from `edge`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        objects: DiskObjects | None = None,
        edge: RemoteEdge | None = None,
        maker: PublishingEdge | None = None,
    ) -> None:
        self.objects = DiskObjects(folder) if objects is None else objects
        self._maker = MemoryEdge() if maker is None else maker
        self.edge: MemoryEdge = self._maker if edge is None else edge
        self.public_records = FakePublicRecords()
        self.public_records.put()
        self.origin = Origin(
            objects=self.objects,
            edge=self.edge,
            visibility=VisibilityCache(self.public_records, is_owner),
        )
        fallback: Any = Litestar([], logging_config=None)
        app: Any = OriginFirst(self.origin, fallback)  # Any: httpx has its own ASGI types
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app),
            base_url="http://origin",
            headers={"Accept-Encoding": "identity"},
        )

    async def publish(self) -> None:
        publication = await open_run(self.objects, self._maker, ManualClock())
        report_maker = ReportMaker(TOP, LOW)
        await begin_epoch(publication, report_maker)
        for _ in range(3):
            await append_all(publication, report_maker.step(size=300_000))
        if isinstance(self._maker, PublishingEdge) and isinstance(self.edge, RemoteEdge):
            await self._maker.publish()
            await self.edge.catch_up(PLAYLIST[1:])

    async def get(self, path: str, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.get(path, headers=named)


OnSite = Callable[[Callable[[OriginSite], Awaitable[None]]], None]


async def origin_of(origin: Origin, path: str) -> int:
    """Request a path of an origin without an application, and return the status."""
    app: Any = origin  # Any: httpx has its own ASGI types
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://origin") as client:
        return (await client.get(path)).status_code
