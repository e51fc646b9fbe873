"""Nothing of what was deleted answers at any address, and all of it does once it is restored.

Each noun, in each kind of database and of store, and with processes killed in between.
"""

import asyncio
import os
import random
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest

from storage.objects.store import MediaStore
from tests.conftest import Proof
from tests.support.e2e.service import ServiceProcess
from tests.support.e2e.trash_site import NOUNS, TrashSite
from tests.support.postgres import PostgresServer
from tests.support.storage.s3_server import S3Server
from tests.support.storage.trashed_records import all_rows
from tests.support.waiting import SCALE, poll

pytestmark = pytest.mark.e2e

_SEED: Final = 7
_KILLS: Final = int(os.environ.get("HEADEND_TEST_KILLS", "20"))
_ALL: Final = pytest.mark.prove
_TOPS: Final = ("live", "slates", "videos", "sources")
ENGINES: Final = [
    pytest.param(("sqlite", False), id="SQLite and a folder"),
    pytest.param(("postgresql", True), id="PostgreSQL and a bucket", marks=_ALL),
    pytest.param(("sqlite", True), id="SQLite and a bucket", marks=_ALL),
    pytest.param(("postgresql", False), id="PostgreSQL and a folder", marks=_ALL),
]


@pytest.fixture
def site(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    s3_server: S3Server,
    monkeypatch: pytest.MonkeyPatch,
) -> Generator[TrashSite]:
    for name, value in s3_server.credentials.items():
        monkeypatch.setenv(name, value)
    kind, in_bucket = request.param
    if kind == "sqlite":
        yield TrashSite(tmp_path, s3_server, in_bucket=in_bucket)
        return
    postgres_server: PostgresServer = request.getfixturevalue("postgres_server")
    with postgres_server.empty_database() as database:
        yield TrashSite(tmp_path, s3_server, database=database, in_bucket=in_bucket)


async def stored(site: TrashSite) -> dict[str, bytes]:
    """Return all media, by their addresses."""
    async with site.opened() as (_, store):
        # A health check that a kill interrupted leaves its object.
        named = [each for each in await _addresses(store) if "/checks/" not in each]
        return {each: await store.get(each) for each in named}


async def _addresses(store: MediaStore) -> list[str]:
    return [each for top in _TOPS for each in await store.addresses(top)]


def check_gone(site: TrashSite, running: ServiceProcess, noun: str) -> int:
    """Check that no address answers with anything of it; return how many were asked."""
    # Another process's deletion counts within a second, as everything that viewers may see.
    poll(
        lambda: {status for status, _ in site.answers(running, noun).values()} == {404},
        within=3 * SCALE,
        what=f"no answer for the {noun}",
    )
    operations = site.operations(running, noun)
    answers = {each: site.ask(running, each[1], each[0]).status for each in operations}
    # A request to upload is checked for the version of its protocol first.
    allowed = {404, 412} if noun == "project" else {404}
    assert {each: status for each, status in answers.items() if status not in allowed} == {}
    doors = site.doors(running, noun)
    assert not any(doors.values()), doors
    return len(site.addresses(noun)) + len(operations) + len(doors)


@pytest.mark.parametrize("site", ENGINES, indirect=True)
def test_nothing_of_what_was_deleted_answers_until_it_is_restored(
    site: TrashSite, proof: Proof
) -> None:
    site.fill()
    rows, media, asked = all_rows(site.location), asyncio.run(stored(site)), 0
    with site.serving() as running:
        for noun in NOUNS:
            before = site.answers(running, noun)
            assert {status for status, _ in before.values()} == {200}, before
            assert all(site.doors(running, noun).values())
            assert site.delete(running, noun) == 204
            asked += check_gone(site, running, noun)
            number = site.in_trash(running, noun)
            assert number is not None
            assert site.restore(running, number) == 200
            poll(
                lambda noun=noun, before=before: site.answers(running, noun) == before,
                within=3 * SCALE,
                what=f"the {noun} as it was",
            )
            assert all(site.doors(running, noun).values())
        assert running.stop() == 0
    assert all_rows(site.location) == rows
    assert asyncio.run(stored(site)) == media
    proof("addresses of deleted streams, videos, projects that answered", f"0 of {asked}", "0")


@pytest.mark.parametrize(
    ("site", "kills"),
    [pytest.param(each.values[0], _KILLS, id=str(each.id), marks=_ALL) for each in ENGINES],
    indirect=["site"],
)
def test_kills_leave_each_noun_whole_or_in_the_trash(
    site: TrashSite, kills: int, proof: Proof
) -> None:
    site.fill()
    rows, media = all_rows(site.location), asyncio.run(stored(site))
    chance, deleted = random.Random(_SEED), 0
    for _ in range(kills):
        site.kill_during_changes(chance, 0.6 * SCALE)
        with site.serving() as running:
            for noun in ("project", "stream", "video"):  # what is in it comes after it
                number = site.in_trash(running, noun)
                if number is not None:
                    deleted += 1
                    check_gone(site, running, noun)
                    assert site.restore(running, number) == 200
            poll(
                lambda running=running: (
                    {status for status, _ in site.answers(running, "project").values()} == {200}
                ),
                within=3 * SCALE,
                what="all as it was",
            )
            assert running.stop() == 0
        assert all_rows(site.location) == rows
    assert asyncio.run(stored(site)) == media
    proof(
        "processes killed while a stream, a video or a project was deleted or restored",
        f"{kills}, after which {deleted} were in the trash; all rows and media as before",
        "the same",
    )
