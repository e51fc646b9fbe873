"""A client of the broadcaster's HTTP API, with its own implementation of the signature."""

import hashlib
import hmac
import json
from collections.abc import Mapping
from urllib.parse import urlencode

import httpx
import msgspec
from httpx import AsyncClient

from storage.catalog import Catalog
from storage.catalog.events.broadcast import OutboxRecord
from tests.support.api.application import NOW_US


def signed_query(
    path: str, body: bytes, key: str, secret: str, timestamp: int, **others: str
) -> str:
    """Sign a request: method, path and sorted parameters, a line each, and the body's MD5 in them.

    Source: Pusher Channels HTTP API, "Authentication".
    """
    parameters = {
        "auth_key": key,
        "auth_timestamp": str(timestamp),
        "auth_version": "1.0",
        "body_md5": hashlib.md5(body).hexdigest(),
    } | others
    text = "&".join(f"{name}={parameters[name]}" for name in sorted(parameters))
    signed = hmac.new(secret.encode(), f"POST\n{path}\n{text}".encode(), hashlib.sha256)
    return urlencode(parameters | {"auth_signature": signed.hexdigest()})


class PusherService(msgspec.Struct, frozen=True):
    """A new application, and the credentials of its owner."""

    client: AsyncClient
    catalog: Catalog
    key: str
    secret: str
    hash: str
    project_key: str
    token: str

    async def publish(
        self,
        event: object,
        *,
        path: str = "/apps/1/events",
        timestamp: int = NOW_US // 1_000_000,
        secret: str | None = None,
        sent: bytes | None = None,
        parameters: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Publish as a server library does; `sent` replaces the signed body."""
        body = event if isinstance(event, bytes) else json.dumps(event).encode()
        query = signed_query(
            path, body, self.key, secret or self.secret, timestamp, **(parameters or {})
        )
        return await self.client.post(f"{path}?{query}", content=body if sent is None else sent)

    async def notices(self) -> tuple[OutboxRecord, ...]:
        """Return all queued notices."""
        records, _ = await self.catalog.outbox.read_after(0, 1000)
        return records

    async def authorise(
        self, channel: str, *, token: str | None = None, path: str = "/broadcasting/auth"
    ) -> httpx.Response:
        """Authorize a private channel as clients do; an empty token is not sent."""
        token = self.token if token is None else token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        form = {"socket_id": "12.34", "channel_name": channel}
        return await self.client.post(path, data=form, headers=headers)
