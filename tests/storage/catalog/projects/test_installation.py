"""The first start, and the ones after it."""

from pathlib import Path

import msgspec
import pytest

from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import Change
from storage.errors import CatalogError
from tests.support.shared_engines import ON_BOTH
from tests.support.sql import run_sql

# The same statements on both: what differs between them has tests of its own.


async def test_a_first_start_makes_a_project_a_token_and_a_stream(catalog: Catalog) -> None:
    first = await catalog.installation.first_start(7)
    assert (first.project.id, first.project.name, len(first.project.key)) == (1, "default", 12)
    assert first.stream is not None
    assert (first.stream.title, first.stream.project) == ("My first stream", 1)
    assert first.stream.created_us == 7
    assert len(first.broadcaster_key) == 20
    assert first.owner_token is not None
    owner = await catalog.tokens.authenticate(first.owner_token)
    assert owner is not None
    assert (owner.name, owner.project, owner.write) == ("owner", None, True)


async def test_a_second_start_keeps_everything_and_shows_no_token(location: str | Path) -> None:
    async with open_catalog(location, migrate=True) as catalog:
        first = await catalog.installation.first_start(1)
        added = await catalog.streams.add(1, "Another", Change(2))
    async with open_catalog(location, migrate=True) as catalog:
        second = await catalog.installation.first_start(3)
        assert second.owner_token is None
        assert second.project == first.project
        assert second.stream == first.stream
        assert second.broadcaster_key == first.broadcaster_key
        assert (await catalog.streams.find_page(1)).items[0] == added
        assert len(await catalog.tokens.find_all()) == 1


@ON_BOTH
async def test_a_first_start_may_be_repeated_after_one_that_was_interrupted(
    catalog: Catalog, location: str | Path
) -> None:
    # What a rollback leaves of it on PostgreSQL: the next project's number.
    run_sql(
        location,
        "INSERT INTO projects (key, name, created_us, updated_us) VALUES ('k', 'n', 1, 1)",
        "DELETE FROM projects",
    )
    first = await catalog.installation.first_start(1)
    assert first.project.id == 2
    assert (await catalog.installation.first_start(2)).project == first.project
    assert await catalog.installation.find() == msgspec.structs.replace(first, owner_token=None)


async def test_what_the_owner_deleted_is_not_made_again(location: str | Path) -> None:
    async with open_catalog(location, migrate=True) as catalog:
        await catalog.installation.first_start(1)
    run_sql(location, "DELETE FROM streams")
    async with open_catalog(location, migrate=True) as catalog:
        assert (await catalog.installation.first_start(2)).stream is None
        run_sql(location, "DELETE FROM projects")
        with pytest.raises(CatalogError, match="lost its first project"):
            await catalog.installation.first_start(3)


async def test_nothing_shows_the_token_by_accident(catalog: Catalog) -> None:
    first = await catalog.installation.first_start(1)
    assert first.owner_token is not None
    assert first.stream is not None
    for text in (repr(first), str(first), f"{first}"):
        assert first.owner_token not in text
    for text in (repr(first.stream), str(first.stream)):
        assert first.stream.key.secret not in text


async def test_a_pause_of_workers_is_known_until_it_ends_or_its_process_is_gone(
    location: str | Path,
) -> None:
    async with open_catalog(location, migrate=True) as catalog:
        await catalog.installation.first_start(1)
        assert await catalog.installation.find_pause() is None
        await catalog.installation.note_pause("x" * 1000)
        assert await catalog.installation.find_pause() == "x" * 400
        await catalog.installation.note_pause(None)
        assert await catalog.installation.find_pause() is None
        await catalog.installation.note_pause("cause")
        run_sql(location, "UPDATE installation SET paused_us = paused_us - 121000000")
        assert await catalog.installation.find_pause() is None
