"""A run on a disk that is really full, for a while or at one moment or another."""

import asyncio
import random
import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path

import pytest

from media.ladder import AUDIO_RENDITION
from storage.objects.disk import DiskObjects
from tests.support.storage.engine_reports import (
    HASH,
    LOW,
    NOON_US,
    RUN,
    TOP,
    PublicationFixture,
    ReportMaker,
    append_all,
    append_until_full,
    begin_epoch,
    resume_run,
    variants,
)
from tests.support.storage.full_disk import KIB, MIB, SmallDisk, small_disk
from tests.support.storage.playlist_viewers import PlaylistViewers

SIZES = {TOP.name: 200_000, LOW.name: 40_000, AUDIO_RENDITION: 8_000}
# 14 steps of 250 kB are listed or kept: 3.5 MB.
ROOM = 8 * MIB
RESERVE = 64 * KIB


@pytest.fixture
def disk(tmp_path: Path) -> Generator[SmallDisk]:
    with small_disk(tmp_path / "disk", ROOM) as volume:
        yield volume


@pytest.fixture
def publication_fixture(disk: SmallDisk) -> Generator[PublicationFixture]:
    fixture = PublicationFixture(disk.folder, reserve_bytes=RESERVE)
    yield fixture
    fixture.disk.close()


def test_a_disk_that_fills_up_costs_the_largest_rungs_and_heals_by_itself(
    disk: SmallDisk, publication_fixture: PublicationFixture
) -> None:
    async def go() -> None:
        publication = await publication_fixture.open()
        maker, viewers = (
            ReportMaker(TOP, LOW),
            PlaylistViewers(publication_fixture, publication_fixture.clock),
        )
        publication.add_observer(lambda _: viewers)
        await begin_epoch(publication, maker)
        for leave, steps in ((None, 16), (150_000, 12), (0, 12), (None, 16)):
            for _ in range(steps):
                if leave is not None:
                    disk.fill(leave)
                await append_until_full(publication, maker.step(size=SIZES))
                publication_fixture.clock.now += 2.0
                await viewers.check_playlists(publication)
            if leave == 150_000:
                assert [
                    variant.height for variant in variants(publication_fixture.disk).variants
                ] == [360]
                assert len(publication_fixture.gaps(TOP.name)) == 6
                assert (
                    publication_fixture.gaps(LOW.name)
                    == publication_fixture.gaps(AUDIO_RENDITION)
                    == []
                )
            disk.empty()
        await viewers.check_recovered(publication)
        assert publication_fixture.gaps(TOP.name) == []
        assert [variant.height for variant in variants(publication_fixture.disk).variants] == [
            720,
            360,
        ]
        await publication.finish()
        await viewers.check_ended(publication)

    asyncio.run(go())


def test_a_disk_that_is_filled_and_freed_at_any_moment_makes_no_playlist_wrong(
    disk: SmallDisk, publication_fixture: PublicationFixture
) -> None:
    stop = threading.Event()

    def fill_and_free() -> None:
        chance = random.Random(5)
        while not stop.wait(chance.choice([0, 0.001, 0.01])):
            if chance.random() < 0.6:
                disk.fill(leave=chance.choice([0, 0, 20_000, 100_000, 300_000]))
            else:
                disk.empty()
        disk.empty()

    async def go() -> None:
        publication = await publication_fixture.open()
        maker, viewers = (
            ReportMaker(TOP, LOW),
            PlaylistViewers(publication_fixture, publication_fixture.clock),
        )
        publication.add_observer(lambda _: viewers)
        await begin_epoch(publication, maker)
        other = threading.Thread(target=fill_and_free)
        other.start()
        try:
            failures = 0
            for _ in range(150):
                failures += await append_until_full(publication, maker.step(size=SIZES))
                publication_fixture.clock.now += 2.0
                await viewers.check_playlists(publication)
            assert failures > 0
        finally:
            stop.set()
            other.join()
        for _ in range(2):
            await append_all(publication, maker.step(size=SIZES))
            await viewers.check_playlists(publication)
        await viewers.check_recovered(publication)

    asyncio.run(go())


CHILD = f"""
import asyncio, sys
from pathlib import Path
from tests.support.storage.engine_reports import (
    LOW,
    TOP,
    PublicationFixture,
    ReportMaker,
    append_until_full,
    begin_epoch,
)

async def go():
    stage = PublicationFixture(Path(sys.argv[1]), reserve_bytes={RESERVE})
    publication, maker = await stage.begin(TOP, LOW)
    while sys.stdin.readline():
        await append_until_full(publication, maker.step(size={SIZES}))
        stage.clock.now += 2.0
        print(len(await stage.objects.addresses("live")), flush=True)

asyncio.run(go())
"""


@pytest.mark.parametrize("leave", [0, 4 * KIB, 100_000])
def test_a_run_whose_process_is_killed_on_a_full_disk_can_be_resumed(
    disk: SmallDisk, leave: int
) -> None:
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        [*disk.prefix, sys.executable, "-c", CHILD, str(disk.inside)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None

        def one_step() -> None:
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write("\n")
            child.stdin.flush()
            assert int(child.stdout.readline()) > 0

        for _ in range(16):
            one_step()
        disk.fill(leave)
        for _ in range(4):
            one_step()
            disk.fill(leave)
        child.stdin.write("\n")  # it is in the middle of this one, or not yet
        child.stdin.flush()
        child.kill()

    async def go() -> None:
        publication_fixture = PublicationFixture(disk.folder, reserve_bytes=RESERVE)
        viewers = PlaylistViewers(publication_fixture, publication_fixture.clock)
        again = await resume_run(
            publication_fixture.objects,
            publication_fixture.edge,
            publication_fixture.clock,
            now_us=NOON_US,
        )
        assert again is not None
        again.add_observer(lambda _: viewers)
        assert (again.run, publication_fixture.disk.path(f"live/{HASH}").name) == (RUN, HASH)
        await viewers.check_playlists(again)
        maker = ReportMaker.continuing(again, salt="again")
        await again.prepare(maker.epoch, maker.renditions, NOON_US)
        await append_until_full(again, maker.begin())
        for number in range(12):
            if number == 8:
                disk.empty()
            step = maker.step(size=SIZES, discontinuity=number == 0)
            await append_until_full(again, step)
            publication_fixture.clock.now += 2.0
            await viewers.check_playlists(again)
        await viewers.check_recovered(again)
        publication_fixture.disk.close()

    asyncio.run(go())


def test_a_closed_store_leaves_nothing_on_the_disk(disk: SmallDisk) -> None:
    DiskObjects(disk.folder, reserve_bytes=RESERVE).close()
    assert disk.free == ROOM
