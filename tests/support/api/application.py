"""The real application over a real catalog, called without a socket."""

from typing import Any

import msgspec
from httpx import AsyncClient

from api.schemas.urls import Addresses
from storage.catalog import Catalog
from storage.catalog.records.common import Change

NOW_US = 1_700_000_000_123_456
BROADCASTER_KEY = "0123456789abcdef0123"  # fixed in tests; random in a real installation
STREAMS = "/api/projects/1/streams"
ADDRESSES = Addresses(
    http="https://live.example",
    playback="https://cdn.example",
    rtmp="rtmp://in.example:1935",
    rtmps="rtmps://in.example:1936",
    rtmp_backup="rtmp://spare.example:1935",
    rtmps_backup="rtmps://spare.example:1936",
)

Json = dict[str, Any]  # Any: what the tests are about to find out


class ApiService(msgspec.Struct, frozen=True):
    """An application at its first start; `owner` are the headers of its owner's requests."""

    client: AsyncClient
    catalog: Catalog
    key: str
    broadcaster_key: str
    owner: dict[str, str]

    async def headers_of(self, name: str, project: int | None, *, write: bool) -> dict[str, str]:
        """Create a token, and return the headers of requests with it."""
        _, token = await self.catalog.tokens.add(name, project, Change(NOW_US), write=write)
        return {"Authorization": f"Bearer {token}"}

    async def add(self, title: str = "Title", path: str = STREAMS) -> Json:
        """Add a stream and return its record."""
        answer = await self.client.post(path, json={"title": title}, headers=self.owner)
        assert answer.status_code == 201, answer.text
        return answer.json()["stream"]

    async def listed(self, query: str = "", path: str = STREAMS) -> Json:
        """Return a page of streams."""
        answer = await self.client.get(path + query, headers=self.owner)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def newest_event(self) -> Json:
        """Return the newest event of the first project."""
        event: Json = (await self.listed(path="/api/projects/1/events"))["data"][0]
        return event
