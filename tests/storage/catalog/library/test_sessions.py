"""Sessions of browsers: what opens them, what ends them, what is kept of them."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from storage.catalog import Catalog, open_catalog
from storage.catalog.library.sessions import LIFE_SECONDS, LINK_SECONDS
from storage.catalog.records.common import Change
from storage.errors import TokenRevoked
from tests.support.shared_engines import ON_BOTH
from tests.support.sql import run_sql

SECOND_US = 1_000_000
HOUR_US = 3600 * SECOND_US
DAY_US = 24 * HOUR_US
NOW = 100 * DAY_US


@pytest.fixture
async def token(catalog: Catalog) -> int:
    project = await catalog.projects.add("Sport", Change(1))
    record, _ = await catalog.tokens.add("editor", project.id, Change(1), write=True)
    return record.id


async def test_a_session_is_its_tokens(catalog: Catalog, token: int) -> None:
    secret = await catalog.sessions.add(token, NOW)
    principal = await catalog.sessions.authenticate(secret, NOW)
    assert principal is not None
    assert (principal.id, principal.name, principal.write) == (token, "editor", True)
    assert principal.project is not None
    assert principal.reaches(principal.project)
    assert not principal.reaches(principal.project + 1)


async def test_each_sign_in_has_its_own_secret(catalog: Catalog, token: int) -> None:
    secrets = {await catalog.sessions.add(token, NOW) for _ in range(5)}
    assert len(secrets) == 5
    assert all(len(secret) == 43 for secret in secrets)
    assert not await catalog.sessions.authenticate("", NOW)
    assert not await catalog.sessions.authenticate("A" * 43, NOW)
    assert not await catalog.sessions.authenticate("\udcff", NOW)


async def test_a_session_ends_two_weeks_after_its_last_use(catalog: Catalog, token: int) -> None:
    secret = await catalog.sessions.add(token, NOW)
    then = NOW + 14 * DAY_US - 1
    assert await catalog.sessions.authenticate(secret, then) is not None
    assert await catalog.sessions.authenticate(secret, then + 14 * DAY_US - 1) is not None
    assert await catalog.sessions.authenticate(secret, then + 28 * DAY_US) is None


async def test_a_session_ends_after_90_days_however_it_is_used(
    catalog: Catalog, token: int
) -> None:
    secret = await catalog.sessions.add(token, NOW)
    end = NOW + LIFE_SECONDS * SECOND_US
    for day in range(10, 90, 10):
        assert await catalog.sessions.authenticate(secret, NOW + day * DAY_US) is not None
    assert await catalog.sessions.authenticate(secret, end - 1) is not None
    assert await catalog.sessions.authenticate(secret, end) is None


async def test_use_is_written_once_an_hour(
    catalog: Catalog, token: int, location: str | Path
) -> None:
    secret = await catalog.sessions.add(token, NOW)
    last_uses: list[object] = []
    for moment in (NOW + 1, NOW + HOUR_US, NOW + HOUR_US + 1, NOW + HOUR_US + 2):
        await catalog.sessions.authenticate(secret, moment)
        ((at,),) = run_sql(location, "SELECT seen_us FROM sessions")
        last_uses.append(at)
    assert last_uses == [NOW, NOW, NOW + HOUR_US + 1, NOW + HOUR_US + 1]


async def test_a_session_is_valid_although_its_use_cannot_be_written(
    sqlite_database: Path,
) -> None:
    later = NOW + HOUR_US + 1
    async with open_catalog(sqlite_database, migrate=False) as catalog:
        record, _ = await catalog.tokens.add("editor", None, Change(1), write=True)
        secret = await catalog.sessions.add(record.id, NOW)
        run_sql(
            sqlite_database,
            "CREATE TRIGGER no_use BEFORE UPDATE ON sessions BEGIN SELECT RAISE(ABORT, 'no'); END",
        )
        assert await catalog.sessions.authenticate(secret, later) is not None
        run_sql(sqlite_database, "DROP TRIGGER no_use")
        assert await catalog.sessions.authenticate(secret, later) is not None
        assert run_sql(sqlite_database, "SELECT seen_us FROM sessions") == [(later,)]


async def test_a_signed_out_session_is_refused(catalog: Catalog, token: int) -> None:
    mine, other = await catalog.sessions.add(token, NOW), await catalog.sessions.add(token, NOW)
    await catalog.sessions.remove(mine)
    await catalog.sessions.remove("unknown")
    assert await catalog.sessions.authenticate(mine, NOW) is None
    assert await catalog.sessions.authenticate(other, NOW) is not None


@ON_BOTH
async def test_a_revoked_token_takes_its_sessions_and_links_along(
    catalog: Catalog, token: int, location: str | Path
) -> None:
    child, _ = await catalog.tokens.add("child", None, Change(2, by=token), write=True)
    other, _ = await catalog.tokens.add("other", None, Change(3), write=True)
    secrets = {each: await catalog.sessions.add(each, NOW) for each in (token, child.id, other.id)}
    links = {each: await catalog.sessions.add_link(each, NOW) for each in (token, other.id)}
    await catalog.tokens.revoke(token, Change(NOW), descendants=True)
    remaining_rows = run_sql(location, "SELECT token_id FROM sessions")
    assert remaining_rows == [(other.id,)]
    assert run_sql(location, "SELECT token_id FROM sign_in_links") == [(other.id,)]
    for each, secret in secrets.items():
        principal = await catalog.sessions.authenticate(secret, NOW)
        assert (principal is not None) is (each == other.id)
    assert await catalog.sessions.redeem_link(links[token], NOW) is None
    for adding in (catalog.sessions.add, catalog.sessions.add_link):
        for gone in (token, 999, 2**70):
            with pytest.raises(TokenRevoked):
                await adding(gone, NOW)


@ON_BOTH
async def test_a_link_signs_in_once_and_soon(catalog: Catalog, token: int) -> None:
    link = await catalog.sessions.add_link(token, NOW)
    late = await catalog.sessions.add_link(token, NOW)
    redeemed = await catalog.sessions.redeem_link(link, NOW + LINK_SECONDS * SECOND_US - 1)
    assert redeemed is not None
    number, secret = redeemed
    assert number == token
    assert await catalog.sessions.authenticate(secret, NOW) is not None
    assert await catalog.sessions.redeem_link(link, NOW) is None
    assert await catalog.sessions.redeem_link(late, NOW + LINK_SECONDS * SECOND_US) is None
    assert await catalog.sessions.redeem_link("", NOW) is None


async def test_it_is_known_whether_any_browser_has_signed_in(catalog: Catalog, token: int) -> None:
    assert not await catalog.sessions.has_any()
    await catalog.sessions.add_link(token, NOW)
    assert not await catalog.sessions.has_any()
    await catalog.sessions.add(token, NOW)
    assert await catalog.sessions.has_any()


@ON_BOTH
async def test_sessions_and_links_are_bounded_and_the_oldest_go(
    catalog: Catalog, token: int, location: str | Path
) -> None:
    other, _ = await catalog.tokens.add("other", None, Change(3), write=True)
    other_session = await catalog.sessions.add(other.id, NOW - 1)
    first = await catalog.sessions.add(token, NOW)
    second = await catalog.sessions.add(token, NOW + 1)
    for number in range(99):
        await catalog.sessions.add(token, NOW + 2 + number)
        await catalog.sessions.add_link(token, NOW + 2 + number)
    await catalog.sessions.add_link(token, NOW + 101)
    await catalog.sessions.add_link(token, NOW + 102)
    assert run_sql(location, "SELECT count(*) FROM sign_in_links") == [(100,)]
    assert run_sql(location, f"SELECT count(*) FROM sessions WHERE token_id = {token}") == [(100,)]
    assert await catalog.sessions.authenticate(first, NOW) is None
    assert await catalog.sessions.authenticate(second, NOW) is not None
    assert await catalog.sessions.authenticate(other_session, NOW) is not None


async def test_what_has_ended_is_removed_with_the_next_sign_in(
    catalog: Catalog, token: int, location: str | Path
) -> None:
    await catalog.sessions.add(token, NOW)
    await catalog.sessions.add_link(token, NOW)
    later = NOW + 14 * DAY_US
    await catalog.sessions.add(token, later)
    await catalog.sessions.add_link(token, later)
    assert run_sql(location, "SELECT created_us FROM sessions") == [(later,)]
    assert run_sql(location, "SELECT count(*) FROM sign_in_links") == [(1,)]


async def test_the_files_hold_no_secret(file: Path) -> None:
    async with open_catalog(file, migrate=True) as catalog:
        record, _ = await catalog.tokens.add("editor", None, Change(1), write=True)
        secrets = [
            await catalog.sessions.add(record.id, NOW),
            await catalog.sessions.add_link(record.id, NOW),
        ]
        stored_bytes = b"".join(path.read_bytes() for path in file.parent.iterdir())
    assert b"editor" in stored_bytes
    assert not any(secret.encode() in stored_bytes for secret in secrets)


async def test_an_unknown_secret_does_not_wait_for_its_turn_to_write(
    sqlite_database: Path,
) -> None:
    """Anybody may send one, as often as they like."""
    async with open_catalog(sqlite_database, migrate=False) as catalog:
        with closing(sqlite3.connect(sqlite_database)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            async with asyncio.timeout(2):
                await catalog.sessions.remove("unknown")
                assert await catalog.sessions.redeem_link("unknown", NOW) is None


@ON_BOTH
async def test_many_sessions_are_told_apart_by_their_digests(
    catalog: Catalog, token: int, location: str | Path
) -> None:
    secrets = [await catalog.sessions.add(token, NOW + day * DAY_US) for day in range(3)]
    principals = [await catalog.sessions.authenticate(each, NOW + 2 * DAY_US) for each in secrets]
    first, second, third = [each.session or "" for each in principals if each is not None]
    seen = run_sql(location, "SELECT id, seen_us FROM sessions ORDER BY id")
    asked = [first, second, third, "0" * 64, ""]
    assert await catalog.sessions.find_open(asked, NOW + 3 * DAY_US) == {first, second, third}
    assert await catalog.sessions.find_open([], NOW) == frozenset()
    await catalog.sessions.remove(secrets[1])
    assert await catalog.sessions.find_open(asked, NOW + 3 * DAY_US) == {first, third}
    idle = await catalog.sessions.find_open(asked, NOW + 17 * DAY_US)
    assert idle == frozenset(), "unused for two weeks"
    assert run_sql(location, "SELECT id, seen_us FROM sessions ORDER BY id") == [
        row for row in seen if row[0] != second
    ], "looking is no use"
