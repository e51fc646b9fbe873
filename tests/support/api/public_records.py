"""Records for the tests of pages and documents, and the countries of peers."""

from collections.abc import Generator
from contextlib import contextmanager

import msgspec
from litestar import Litestar
from litestar.testing import TestClient

from api.http.client_address import RawHeaders
from api.origin.visibility import VisibilityCache
from api.pages.json_documents import document_handlers
from api.pages.oembed import oembed_handlers
from api.pages.watch_pages import page_handlers
from api.schemas.urls import Addresses
from storage.catalog.records.common import ProjectRecord, PublicRecord

HOSTILE = '"><script>alert(1)</script>'
STREAM = PublicRecord(
    hash="Abcdef123456",
    project=1,
    title=f"A title {HOSTILE}",
    description=f"Über uns {HOSTILE}",
    published=False,
    hidden=False,
    live=False,
)
VIDEO = PublicRecord(
    hash="Video0123456",
    project=1,
    title=f"A film {HOSTILE}",
    description=f"Über uns {HOSTILE}",
    published=True,
    hidden=False,
    live=False,
    kind="video",
    media="1-1",
    posters="poster-1-1",
    previews="previews-1-1",
    poster_labels=("360p", "480p"),
    length_us=61_234_567,
    width=1440,
    height=1080,
)
HIDDEN = msgspec.structs.replace(STREAM, hash="Hidden123456", hidden=True, published=True)

Client = TestClient[Litestar]


def addresses(http: str = "http://headend.test", playback: str | None = None) -> Addresses:
    return Addresses(
        http=http,
        playback=playback or http,
        rtmp="rtmp://headend.test",
        rtmps="rtmps://headend.test",
        rtmp_backup="rtmp://headend.test",
        rtmps_backup="rtmps://headend.test",
    )


class Records:
    """All records; an owner's token is the hash, a request's header `from` its country."""

    def __init__(self, *records: PublicRecord) -> None:
        self.all = {each.hash: each for each in records or (STREAM, VIDEO, HIDDEN)}

    async def find(self, hash_: str, /) -> PublicRecord | None:
        return self.all.get(hash_)

    async def is_owner(self, authorization: str | None, hash_: str, /) -> bool:
        return authorization == f"Bearer {hash_}"

    def country(self, peer: str | None, headers: RawHeaders) -> str | None:
        countries = [value.decode() for name, value in headers if name == b"from"]
        return countries[0] if countries else None


class OneProject:
    """An index of one project, with the id 7."""

    async def find(self, name: str, /) -> ProjectRecord | None:
        title = f"A house {HOSTILE}"
        record = ProjectRecord(id=7, key="aProjectsKey", name=title, created_us=1, updated_us=1)
        return record if name in {"7", "aProjectsKey"} else None


@contextmanager
def serving_pages(
    records: Records,
    where: Addresses | None = None,
    *,
    latency: str = "low",
    media_origin: str = "",
) -> Generator[Client]:
    """Serve pages, documents and descriptions of the records for the length of the block."""
    at = where or addresses()
    visibility = VisibilityCache(
        records, records.is_owner, records.country, clock=_AdvancingClock()
    )
    handlers = [
        *page_handlers(visibility, at, latency=latency, media_origin=media_origin),
        *document_handlers(visibility, OneProject(), at),
        *oembed_handlers(visibility, at),
    ]
    with TestClient(Litestar(handlers, openapi_config=None, logging_config=None)) as client:
        yield client


class _AdvancingClock:
    """A clock that advances an hour at each reading, so that nothing is cached."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 3600.0
        return self.now
