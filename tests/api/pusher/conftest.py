"""The broadcaster's HTTP API over a real catalog."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from api.app import create_app
from api.http.auth import needs_token
from api.http.browser_sessions import BrowserSessions
from api.pusher.limits import PusherSettings
from api.pusher.private import private_channel_handlers
from api.pusher.signed import signed_event_handlers
from api.pusher.socket import Broadcaster
from storage.catalog import open_catalog
from tests.support.api.application import ADDRESSES, NOW_US
from tests.support.api.in_loop_client import client_of
from tests.support.api.pusher_client import PusherService
from tests.support.shared_engines import ON_SHARED
from tests.support.sql import migrated


@pytest.fixture
async def pusher_service(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncGenerator[PusherService]:
    shared: str | None = request.getfixturevalue("postgres_database") if ON_SHARED else None
    location = shared or migrated(tmp_path / "catalog.db")
    async with open_catalog(location, migrate=True) as catalog:
        first = await catalog.installation.first_start(NOW_US)
        key, secret = first.broadcaster_key, first.broadcaster_secret
        broadcaster = Broadcaster(key=key, secret=secret, limits=PusherSettings())
        app = create_app(
            catalog=catalog,
            addresses=ADDRESSES,
            broadcaster_key=key,
            clock_us=lambda: NOW_US,
            handlers=[
                *signed_event_handlers(
                    catalog.outbox, key=key, secret=secret, clock_us=lambda: NOW_US
                ),
                *private_channel_handlers(
                    catalog.outbox,
                    key=key,
                    sign=broadcaster.sign,
                    guard=needs_token(
                        catalog, None, BrowserSessions.of(catalog, ADDRESSES, lambda: NOW_US)
                    ),
                    admits=broadcaster.admits,
                ),
            ],
        )
        async with client_of(app) as client:
            assert first.stream is not None
            yield PusherService(
                client=client,
                catalog=catalog,
                key=key,
                secret=secret,
                hash=first.stream.hash,
                project_key=first.project.key,
                token=first.owner_token or "",
            )
