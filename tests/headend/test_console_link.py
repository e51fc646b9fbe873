"""Links that sign a browser in, for operators with a shell."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from headend.console_link import NoSuchToken, console_link, first_link
from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import Change
from tests.support.sql import migrated

HTTP = "http://localhost:8080"
PREFIX = f"{HTTP}/console/sign-in#link="


@pytest.fixture
async def catalog(tmp_path: Path) -> AsyncGenerator[Catalog]:
    async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=False) as opened:
        yield opened


async def token_of(catalog: Catalog, link: str) -> int:
    """Sign in with a link, and return the ID of its token."""
    assert link.startswith(PREFIX)
    session = await catalog.sessions.redeem_link(link.removeprefix(PREFIX), 5)
    assert session is not None
    return session[0]


async def test_a_link_is_for_the_oldest_owner_token_or_a_named_one(catalog: Catalog) -> None:
    await catalog.installation.first_start(1)
    reader, _ = await catalog.tokens.add("reader", None, Change(2), write=False)
    second, _ = await catalog.tokens.add("second", None, Change(3), write=True)
    assert await token_of(catalog, await console_link(catalog, HTTP, 5)) == 1
    assert await token_of(catalog, await console_link(catalog, HTTP, 5, reader.id)) == reader.id
    await catalog.tokens.revoke(1, Change(4))
    assert await token_of(catalog, await console_link(catalog, HTTP, 5)) == second.id
    for number in (1, 99):
        with pytest.raises(NoSuchToken, match=f"no token {number}, or it has been revoked"):
            await console_link(catalog, HTTP, 5, number)


async def test_without_an_owner_there_is_no_link(catalog: Catalog) -> None:
    assert await first_link(catalog, HTTP, 5) is None
    with pytest.raises(NoSuchToken, match="headend token create"):
        await console_link(catalog, HTTP, 5)


async def test_a_start_offers_a_link_until_a_browser_has_signed_in(catalog: Catalog) -> None:
    await catalog.installation.first_start(1)
    first = await first_link(catalog, HTTP, 5)
    second = await first_link(catalog, HTTP, 5)
    assert first is not None
    assert second is not None
    assert first != second
    assert await token_of(catalog, second) == 1
    assert await first_link(catalog, HTTP, 5) is None
