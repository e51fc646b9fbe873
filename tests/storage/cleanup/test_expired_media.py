"""Recordings and former files of videos go to the trash once their time is over, and no earlier.

Many at once wait for an operator, since a clock may be ahead. What cannot be moved stops nothing,
and is tried again.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from pathlib import Path

import msgspec
import pytest

from api.schemas.filenames import slug
from media.no_op import do_nothing_async
from media.ticks import DAY_US
from storage.catalog import Catalog, open_catalog
from storage.catalog.queries.removals import FIRST_US
from storage.catalog.records.common import Change
from storage.catalog.schema.tables import videos
from storage.catalog.videos.recordings import MadeRecording
from storage.cleanup.cleanup_pass import MAX_FAILURES
from storage.cleanup.confirmation import TooMuchDue
from storage.cleanup.expired_media import (
    RECORDINGS,
    ExpiringMedia,
    remove_expired_media,
)
from storage.cleanup.orphans import AGE_US, remove_orphans
from storage.cleanup.removals import LAST_US, remove_due
from tests.support.sql import migrated
from tests.support.storage.many_rows import copy_rows, padded
from tests.support.storage.new_videos import new_video
from tests.support.storage.undeletable_disk import UndeletableDisk

pytestmark = pytest.mark.anyio

NOW_US = 1_769_860_859_123_456
WEEK_US = 7 * DAY_US
MADE = MadeRecording(
    media="1-1", size=3, length_us=2_000_000, width=0, height=0, rungs=()
)  # sound alone
NAME = "1-1/audio/0.m4s"


@pytest.fixture
def objects(tmp_path: Path) -> Generator[UndeletableDisk]:
    disk = UndeletableDisk(tmp_path / "objects")
    with disk:
        yield disk


@pytest.fixture
async def catalog(tmp_path: Path) -> AsyncGenerator[Catalog]:
    async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=True) as opened:
        await opened.installation.first_start(NOW_US)
        yield opened


async def recorded(catalog: Catalog, objects: UndeletableDisk, number: int, now_us: int) -> str:
    """Add a recording whose time is over in a week; return the address of its media."""
    (stream,) = await catalog.streams.find_all()
    row = await catalog.recordings.begin(stream.key.hash, f"a{number}", 7, now_us)
    assert row is not None
    await objects.put(f"videos/{row.hash}/{NAME}", b"one")
    await catalog.recordings.finish(row, MADE, now_us, slug)
    return f"videos/{row.hash}/{NAME}"


class Kind(msgspec.Struct, frozen=True):
    """What expires: its name, how it is added, and its rows."""

    what: str
    add: Callable[[Catalog, UndeletableDisk, int, int], Awaitable[str]]
    rows: Callable[[Catalog], ExpiringMedia]

    async def remove(
        self, catalog: Catalog, objects: UndeletableDisk, now_us: int, *, confirmed: bool = False
    ) -> int:
        rows = self.rows(catalog)
        return await remove_expired_media(
            objects, rows, now_us, what=self.what, confirmed=confirmed
        )


KINDS = pytest.mark.parametrize(
    "kind",
    [
        pytest.param(Kind(RECORDINGS, recorded, lambda each: each.recordings), id="recordings"),
    ],
)


async def trash(objects: UndeletableDisk) -> list[str]:
    return sorted(each.split("/", 2)[2] for each in await objects.addresses("trash"))


async def left(objects: UndeletableDisk, places: list[str]) -> list[str]:
    """Return which of some media are still in their place."""
    return [each for each in places if await objects.stat(each) is not None]


@KINDS
async def test_what_has_expired_goes_to_the_trash_and_the_rest_stays(
    kind: Kind, catalog: Catalog, objects: UndeletableDisk
) -> None:
    expired = sorted([await kind.add(catalog, objects, n, NOW_US) for n in range(3)])
    kept = await kind.add(catalog, objects, 3, NOW_US + DAY_US)
    week_us = NOW_US + WEEK_US
    assert await kind.remove(catalog, objects, week_us - 1) == 0
    assert await left(objects, expired) == expired
    assert await kind.remove(catalog, objects, week_us) == 3
    assert await left(objects, [*expired, kept]) == [kept]
    assert await trash(objects) == expired
    await catalog.clock.synchronize()
    later_us = catalog.clock.now_us() + LAST_US
    assert await remove_due(objects, do_nothing_async, catalog.removals, later_us) == 3
    assert await trash(objects) == expired, "the trash keeps it for days"


@KINDS
async def test_many_at_once_wait_for_an_operator(
    kind: Kind, catalog: Catalog, objects: UndeletableDisk, tmp_path: Path
) -> None:
    added = [await kind.add(catalog, objects, number, NOW_US) for number in range(11)]
    # Videos that never expire do not count.
    location = tmp_path / "catalog.db"
    whole = await catalog.videos.add(1, new_video(), Change(NOW_US))
    copy_rows(location, videos, whole.video.id, 200, {"hash": padded(location, "V")})
    ahead_us = NOW_US + 30 * DAY_US
    with pytest.raises(TooMuchDue, match=f"the time of 11 of 11 {kind.what} is over"):
        await kind.remove(catalog, objects, ahead_us)
    assert await left(objects, added) == added
    assert await kind.remove(catalog, objects, ahead_us, confirmed=True) == 11
    assert await left(objects, added) == []


@KINDS
async def test_what_cannot_be_moved_stops_nothing_and_is_moved_later(
    kind: Kind, catalog: Catalog, objects: UndeletableDisk, caplog: pytest.LogCaptureFixture
) -> None:
    """It is no orphan meanwhile: many of those would wait for an operator."""
    added = sorted([await kind.add(catalog, objects, number, NOW_US) for number in range(5)])
    objects.stuck = {each.split("/")[1] for each in added[1:3]}
    with caplog.at_level(logging.WARNING):
        assert await kind.remove(catalog, objects, NOW_US + WEEK_US) == 5
    assert [record.getMessage() for record in caplog.records] == [
        f"media of {kind.what} not removed"
    ]
    assert vars(caplog.records[0])["objects"] == 2
    assert await left(objects, added) == added[1:3]
    await catalog.clock.synchronize()
    later_us = catalog.clock.now_us() + FIRST_US
    assert await remove_orphans(objects, catalog.references, later_us + 2 * AGE_US) == 0
    objects.stuck.clear()
    await remove_due(objects, do_nothing_async, catalog.removals, later_us)
    assert await left(objects, added) == []
    assert await trash(objects) == added


@KINDS
async def test_a_store_that_fails_as_a_whole_keeps_the_rows_of_the_rest(
    kind: Kind, catalog: Catalog, objects: UndeletableDisk
) -> None:
    """Each call that a store does not answer takes 20 s."""
    for number in range(MAX_FAILURES + 3):
        await kind.add(catalog, objects, number, NOW_US)
    objects.stuck, objects.calls = {"/"}, 0
    week_us = NOW_US + WEEK_US
    assert await kind.remove(catalog, objects, week_us, confirmed=True) == MAX_FAILURES
    assert objects.calls == MAX_FAILURES
    assert (await kind.rows(catalog).count_expired(week_us)).count == 3


async def test_an_expired_recording_leaves_an_event(
    catalog: Catalog, objects: UndeletableDisk
) -> None:
    expired = [await recorded(catalog, objects, number, NOW_US) for number in range(3)]
    kept = await recorded(catalog, objects, 3, NOW_US + DAY_US)
    hashes = [each.split("/")[1] for each in (*expired, kept)]
    rows = catalog.recordings
    assert await remove_expired_media(objects, rows, NOW_US + WEEK_US, what=RECORDINGS) == 3
    assert await catalog.videos.find_known(hashes) == {hashes[-1]}
    events = await catalog.events.find_page(1)
    assert [event.subject for event in events.items][:3] == list(reversed(hashes[:3]))


async def test_recordings_in_progress_are_not_deleted(
    catalog: Catalog, objects: UndeletableDisk
) -> None:
    (stream,) = await catalog.streams.find_all()
    row = await catalog.recordings.begin(stream.key.hash, "a", 1, NOW_US)
    assert row is not None
    await objects.put(f"videos/{row.hash}/{NAME}", b"one")
    stat = await objects.stat(f"videos/{row.hash}/{NAME}")
    assert stat is not None
    later_us = stat.modified_us + 2 * AGE_US
    assert await remove_orphans(objects, catalog.references, later_us) == 0
    await catalog.recordings.remove(row.id)
    assert await remove_orphans(objects, catalog.references, later_us) == 1
