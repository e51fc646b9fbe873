"""Processes killed in the middle of a change leave no file without a row, no row without its file.

A replacement, a deletion, an upload with checksums and a move of all media in turn, each killed at
a random moment; then the cleanups of a day, whose time is an argument.
"""

import asyncio
import posixpath
import random
import re
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from api.schemas.filenames import slug
from headend.install.media_store import open_store
from media.no_op import do_nothing_async
from media.ticks import DAY_US
from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import Change
from storage.catalog.videos.recordings import MadeRecording
from storage.cleanup.expired_uploads import remove_expired_uploads
from storage.cleanup.orphans import remove_orphans
from storage.cleanup.removals import remove_due
from storage.objects.addresses import video, video_folder, video_variants
from storage.objects.base import ObjectMissing
from storage.objects.store import MediaStore
from tests.conftest import Proof
from tests.support.e2e.killed_site import CHANGES, KilledSite
from tests.support.postgres import PostgresServer
from tests.support.sql import run_sql
from tests.support.storage.s3_server import S3Server

pytestmark = pytest.mark.e2e

_SEED: Final = 42
_HOUR_US: Final = DAY_US // 24
# When the cleanups run, in hours: an unfinished upload is kept for a day.
_HOURS: Final = (0.1, 1, 7, 13, 19, 25, 31)
_TOPS: Final = ("sources", "videos", "live", "slates", "uploads", "pieces")
_URI: Final = re.compile(r'(?m)^([^#\s].*)$|URI="([^"]+)"')
_ALL: Final = pytest.mark.prove


@pytest.fixture(params=["sqlite", "postgresql"])
def site(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    s3_server: S3Server,
    monkeypatch: pytest.MonkeyPatch,
) -> Generator[KilledSite]:
    for name, value in s3_server.credentials.items():
        monkeypatch.setenv(name, value)
    chance = random.Random(_SEED)
    if request.param == "sqlite":
        yield KilledSite(tmp_path, s3_server, chance)
        return
    postgres_server: PostgresServer = request.getfixturevalue("postgres_server")
    with postgres_server.empty_database() as database:
        yield KilledSite(tmp_path, s3_server, chance, database)


@pytest.mark.parametrize(
    ("site", "kills"),
    [
        pytest.param("sqlite", 4, id="a few on SQLite"),
        pytest.param("sqlite", 30, id="thirty on SQLite", marks=_ALL),
        pytest.param("postgresql", 30, id="thirty on PostgreSQL", marks=_ALL),
    ],
    indirect=["site"],
)
def test_kills_leave_no_file_without_a_row_and_no_row_without_its_file(
    site: KilledSite, kills: int, proof: Proof
) -> None:
    with site.serving() as first:
        assert first.stop() == 0
    site.videos = asyncio.run(add_recordings(site, 3 * kills))
    for number in range(kills):
        site.kill_during(CHANGES[number % len(CHANGES)])
    site.finish_jobs()
    removed, stored, named, trashed = asyncio.run(pass_a_day(site))
    assert stored == named, "files without a row, or rows without a file"
    deleted = run_sql(site.location, "SELECT subject FROM events WHERE kind = 'video deleted'")
    hashes = {str(hash_) for (hash_,) in deleted}
    assert not [each for each in trashed if each.split("/")[3] in hashes], "owners rely on removal"
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(site.kills.items()))
    proof(
        f"processes killed in the middle of a change ({kinds}): files, and those that rows name",
        f"{len(stored)}, {len(named)}; {removed} were removed within a day",
        "the same",
    )


@asynccontextmanager
async def opened(site: KilledSite) -> AsyncGenerator[tuple[Catalog, MediaStore]]:
    """Open the catalog and the store, which no process uses."""
    with open_store(site.data, site.bucket) as store:
        async with open_catalog(site.location, migrate=False) as catalog:
            await catalog.clock.synchronize()
            yield catalog, store


async def add_recordings(site: KilledSite, count: int) -> list[int]:
    """Add videos that were recorded, and so have no file of their own; return their numbers."""
    made = MadeRecording(media="1-1", size=3, length_us=2_000_000, width=0, height=0, rungs=())
    numbers: list[int] = []
    async with opened(site) as (catalog, store):
        project = await catalog.projects.find("1")
        assert project is not None
        stream = await catalog.streams.add(project.id, "Morning", Change(1))
        for run in range(count):
            now_us = catalog.clock.now_us()
            row = await catalog.recordings.begin(stream.hash, f"run-{run}", 30, now_us)
            assert row is not None
            folder = f"videos/{row.hash}/1-1"
            await store.put_all(
                {
                    f"{folder}/index.m3u8": b"#EXTM3U\n1-1/audio/index.m3u8\n",
                    f"{folder}/audio/index.m3u8": b"#EXTM3U\n0.m4s\n",
                    f"{folder}/audio/0.m4s": b"one",
                }
            )
            number = await catalog.recordings.finish(row, made, now_us, slug)
            assert number is not None
            numbers.append(number)
    return numbers


async def pass_a_day(site: KilledSite) -> tuple[int, set[str], set[str], list[str]]:
    """Run the cleanups of a day.

    Returns how many orphans and what else was removed, the files outside of the trash, those that
    rows name, and those in the trash.
    """
    removed = 0
    async with opened(site) as (catalog, store):
        now_us = catalog.clock.now_us()
        for hours in _HOURS:
            at_us = now_us + round(hours * _HOUR_US)
            removed += await remove_expired_uploads(store, catalog.uploads, at_us)
            removed += await remove_due(store, do_nothing_async, catalog.removals, at_us)
            removed += await remove_orphans(store, catalog.references, at_us)
        stored = {each for top in _TOPS for each in await store.addresses(top)}
        named = {each async for each in named_objects(catalog, store)}
        trashed = await store.addresses("trash")
    return removed, stored, named, trashed


async def named_objects(catalog: Catalog, store: MediaStore) -> AsyncGenerator[str]:
    """Yield the addresses of all objects that rows need."""
    for row in await catalog.references.page("", 1000):
        assert not row.at_work
        for address in (row.source, *row.former):
            if address is not None:
                yield address
        if row.media is not None:
            # It is served from the folder above.
            variants = video_variants(row.hash, row.media)
            async for address in listed_objects(store, variants, video(row.hash)):
                yield address
        for folder in (row.posters, row.previews):
            if folder is not None:
                place = video_folder(row.hash, folder)
                for address in await store.addresses(place) or [f"{place}/missing"]:
                    yield address


async def listed_objects(store: MediaStore, playlist: str, folder: str) -> AsyncGenerator[str]:
    """Yield the address of a playlist, and those of all that it lists, relative to `folder`."""
    yield playlist
    with suppress(ObjectMissing):  # then it is named, and not stored
        text = (await store.get(playlist)).decode()
        for match in _URI.finditer(text):
            address = posixpath.normpath(f"{folder}/{match[1] or match[2]}")
            if address.endswith(".m3u8"):
                async for each in listed_objects(store, address, posixpath.dirname(address)):
                    yield each
            else:
                yield address
