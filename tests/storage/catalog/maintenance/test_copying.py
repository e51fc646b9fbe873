"""A catalog moves from the real SQLite to the real PostgreSQL with all that it holds."""

from pathlib import Path

import pytest
from sqlalchemy import select

from storage.catalog import Catalog, open_catalog
from storage.catalog.engine.database import database_url, open_database
from storage.catalog.maintenance.copying import copy_catalog
from storage.catalog.records.common import Change
from storage.catalog.records.details import StreamDetails, VideoDetails
from storage.catalog.schema.tables import METADATA
from storage.errors import (
    CatalogBusy,
    CatalogError,
    CatalogNotEmpty,
    CopyOutdated,
    SchemaMissing,
    SchemaOlder,
)
from tests.support.sql import migrated, run_sql
from tests.support.storage.new_videos import new_video

pytestmark = pytest.mark.anyio


# What differs in the rows of the i-th video from those of the second one, which is number 1.
_HASH = "printf('V%011d', i)"
_MULTIPLIED = {
    "videos": {"hash": _HASH, "source": f"'sources/' || {_HASH} || '/1'"},
    "jobs": {"video_id": "i + 1"},
    "events": {"subject": _HASH},
}
_SECOND = {"videos": "id = 2", "jobs": "video_id = 2", "events": "subject = 'V00000000001'"}


async def _fill(file: Path, videos: int) -> str:
    """Fill a catalog with something of most kinds; return the owner's token.

    The first two videos are added as uploads are, the others are copies of the second one's rows.
    """
    async with open_catalog(migrated(file), migrate=True) as catalog:
        first = await catalog.installation.first_start(1)
        await catalog.installation.add_key("k" * 32)
        tag = await catalog.labels.add("tag", 1, "Știri", Change(2), active=False)
        for number in range(min(videos, 2)):
            video = new_video(
                f"V{number:011}",
                file_title="NUL\0 and é",
                size=1 << 40,
                source=f"sources/V{number:011}/1",
            )
            added = await catalog.videos.add(1, video, Change(number, by=1))
            if number == 0:
                change = VideoDetails.edit(tags=(tag.id,))
                await catalog.videos.edit(added.video.id, change, Change(3, by=1))
        await catalog.streams.edit(1, StreamDetails.edit(description="live"), Change(4, by=1))
        deleted = await catalog.streams.add(1, "deleted", Change(5))
        assert await catalog.streams.remove(deleted.id, Change(6, by=1)) is not None
    for table, changed in _MULTIPLIED.items():
        columns = [
            each.name for each in METADATA.tables[table].c if each.name not in ("id", *changed)
        ]
        run_sql(
            file,
            f"WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < {videos})"
            f" INSERT INTO {table} ({', '.join((*columns, *changed))})"
            f" SELECT {', '.join((*columns, *changed.values()))} FROM {table}, n"
            f" WHERE {_SECOND[table]} AND i < {videos}",
        )
    assert first.owner_token is not None
    return first.owner_token


async def _rows(location: str | Path) -> dict[str, list[tuple[object, ...]]]:
    """Return the rows of each table, with NUL replaced as PostgreSQL stores it."""
    async with (
        open_database(database_url(location), create=False) as database,
        database.reading() as connection,
    ):
        return {
            each.name: sorted(
                (
                    tuple(c.replace("\0", "\ufffd") if isinstance(c, str) else c for c in row)
                    for row in await connection.execute(select(each))
                ),
                key=repr,
            )
            for each in METADATA.sorted_tables
        }


async def test_every_row_is_copied_in_order_and_numbering_continues(
    file: Path, empty_postgres_url: str
) -> None:
    token = await _fill(file, 1003)  # more than are copied at once
    copied = await copy_catalog(file, empty_postgres_url)
    before, after = await _rows(file), await _rows(empty_postgres_url)
    assert after == before
    assert copied.rows == sum(map(len, before.values())) > 3000
    assert len(after["videos"]) == 1003
    async with open_catalog(empty_postgres_url, migrate=False) as catalog:
        await _check(catalog, token)


async def test_hosts_stay_behind_and_runs_that_may_be_open_are_left_by_none(
    file: Path, empty_postgres_url: str
) -> None:
    async with open_catalog(migrated(file), migrate=True) as catalog:
        first = (await catalog.installation.first_start(1)).stream
        assert first is not None
        await catalog.streams.add(1, "never live", Change(1))
        host = await catalog.hosts.register("here", "ingest", None, "1")
        await catalog.owners.claim(first.id, host, dead_seconds=60)
        await catalog.live_state.set(
            first.id, live=True, processing=True, on_air=0, sending=(0,), no_audio=False, now_us=5
        )
    await copy_catalog(file, empty_postgres_url)
    after = await _rows(empty_postgres_url)
    assert after["hosts"] == []
    assert after["stream_owners"] == [(first.id, 0, 0, 0)]
    async with open_catalog(empty_postgres_url, migrate=False) as catalog:
        host = await catalog.hosts.register("there", "ingest", None, "1")
        (orphan,) = await catalog.owners.find_orphaned(host, 60)
        assert orphan.stream == first.id
        assert (await catalog.owners.claim(first.id, host, dead_seconds=60)).generation > 0


async def _check(catalog: Catalog, token: str) -> None:
    """Check that the copy works: its key, its token, its counters and its next numbers."""
    assert await catalog.installation.find_key() == "k" * 32
    principal = await catalog.tokens.authenticate(token)
    assert principal is not None
    assert principal.write
    added = await catalog.streams.add(1, "next", Change(9))
    assert added.id == 3, "2 was given, and deleted"
    assert (await catalog.projects.add("next", Change(9))).id == 2
    assert (await catalog.labels.add("tag", 1, "next", Change(9, by=1), active=True)).id == 2


async def test_a_database_that_holds_rows_is_refused_and_left_alone(
    file: Path, postgres_url: str
) -> None:
    await _fill(file, 1)
    async with open_catalog(postgres_url, migrate=False) as catalog:
        await catalog.projects.add("theirs", Change(1))
    before = await _rows(postgres_url)
    with pytest.raises(CatalogNotEmpty, match="holds rows already: create an empty one"):
        await copy_catalog(file, postgres_url)
    assert await _rows(postgres_url) == before


async def test_a_copy_that_was_made_before_is_recognized_by_every_row(
    file: Path, empty_postgres_url: str
) -> None:
    """As after a kill between the end of the transaction and the message."""
    await _fill(file, 1003)
    made = await copy_catalog(file, empty_postgres_url)
    before = await _rows(empty_postgres_url)
    found = await copy_catalog(file, empty_postgres_url)
    assert (found.rows, found.was_there, made.was_there) == (made.rows, True, False)
    assert await _rows(empty_postgres_url) == before


@pytest.mark.parametrize("used", ["the file", "the copy", "the copy, a row less"])
async def test_a_copy_is_refused_once_it_or_the_file_was_used(
    file: Path, empty_postgres_url: str, used: str
) -> None:
    await _fill(file, 1)
    await copy_catalog(file, empty_postgres_url)
    if used == "the copy, a row less":
        run_sql(empty_postgres_url, "DELETE FROM events WHERE id = 1")
    else:
        place = file if used == "the file" else empty_postgres_url
        async with open_catalog(place, migrate=False) as catalog:
            await catalog.streams.edit(1, StreamDetails.edit(description="later"), Change(9, by=1))
    before = await _rows(empty_postgres_url)
    with pytest.raises(CopyOutdated, match="one of them was used since"):
        await copy_catalog(file, empty_postgres_url)
    assert await _rows(empty_postgres_url) == before


async def test_a_foreign_table_with_rows_is_refused_and_no_table_is_made(
    file: Path, empty_postgres_url: str
) -> None:
    await _fill(file, 1)
    run_sql(
        empty_postgres_url, 'CREATE TABLE "their own" (x int)', 'INSERT INTO "their own" VALUES (1)'
    )
    with pytest.raises(CatalogNotEmpty):
        await copy_catalog(file, empty_postgres_url)
    tables = run_sql(
        empty_postgres_url, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    )
    assert tables == [("their own",)]


async def test_a_failure_in_the_middle_leaves_nothing(file: Path, postgres_url: str) -> None:
    await _fill(file, 1)
    run_sql(postgres_url, "ALTER TABLE jobs ADD CONSTRAINT refuses CHECK (false)")
    with pytest.raises(CatalogError, match="the catalog refused"):
        await copy_catalog(file, postgres_url)
    assert set(map(len, (await _rows(postgres_url)).values())) == {0}


async def test_a_target_in_use_is_refused(file: Path, postgres_url: str) -> None:
    await _fill(file, 1)
    async with open_catalog(postgres_url, migrate=False) as catalog:
        await catalog.ping()
        with pytest.raises(CatalogBusy, match="while another Headend uses it"):
            await copy_catalog(file, postgres_url, busy_ms=100)


@pytest.mark.parametrize("target", ["sqlite:///other.db", "mysql://x/y", "nonsense://"])
async def test_only_postgresql_is_a_target(file: Path, target: str) -> None:
    await _fill(file, 1)
    with pytest.raises(CatalogError):
        await copy_catalog(file, target)


async def test_an_older_or_missing_catalog_is_refused(
    file: Path, empty_postgres_url: str, tmp_path: Path
) -> None:
    (tmp_path / "empty.db").touch()
    with pytest.raises(SchemaMissing):
        await copy_catalog(tmp_path / "empty.db", empty_postgres_url)
    await _fill(file, 1)
    run_sql(file, "UPDATE alembic_version SET version_num = '0016.3'")
    with pytest.raises(SchemaOlder, match="run `headend migrate`"):
        await copy_catalog(file, empty_postgres_url)


@pytest.mark.parametrize(
    ("statement", "place"),
    [
        ("UPDATE videos SET file_title = printf('%0300d', 1) WHERE id = 7", "videos with id 7"),
        ("UPDATE videos SET width = 'wide' WHERE id = 12", "videos with id 12"),
        ("UPDATE totals SET number = 1 << 40 WHERE kind = 'videos'", "row [0-9]+ of totals in the"),
        ("PRAGMA foreign_keys=OFF; UPDATE video_tags SET tag_id = 9", "tags with video_id 1 and t"),
        (
            "UPDATE events SET facts = CAST(x'ff' AS TEXT) WHERE id = 5",
            "the row after the row of events with id 4",
        ),
    ],
)
async def test_a_row_that_cannot_be_copied_is_named_without_what_it_holds(
    file: Path, empty_postgres_url: str, statement: str, place: str
) -> None:
    await _fill(file, 12)
    run_sql(file, *statement.split("; "))
    with pytest.raises(
        CatalogError, match=f"{place}.* cannot be (copied|read): the catalog refused"
    ) as refused:
        await copy_catalog(file, empty_postgres_url)
    assert "wide" not in str(refused.value)
    assert "000" not in str(refused.value)
    count = "SELECT count(*) FROM pg_class WHERE relname = 'videos'"
    assert run_sql(empty_postgres_url, count) == [(0,)], "nothing of it is left"
