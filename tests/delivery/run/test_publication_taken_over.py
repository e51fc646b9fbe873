"""A host that freezes at any write, the one that takes its run over, and the first one's return.

The frozen host wakes up in the middle of its write and continues, unaware of the takeover.
"""

import asyncio
from collections.abc import Collection
from pathlib import Path

import pytest

from delivery.edge.memory import MemoryEdge
from delivery.run.publication import Publication
from delivery.run.run_objects import OwnershipLost, RunOwner
from delivery.run.run_state import LiveWindow
from delivery.run.run_store import newest_run
from media.ladder import AUDIO_RENDITION
from storage.objects.disk import DiskObjects
from tests.support.manual_clock import ManualClock
from tests.support.storage.engine_reports import (
    HASH,
    NOON_US,
    RUN,
    TOP,
    CheckedEdge,
    FailingObjects,
    ReportMaker,
    append_all,
    append_until_full,
    begin_epoch,
    check_named_addresses,
    on_disk,
    open_run,
    resume_run,
    variants,
)

pytestmark = pytest.mark.anyio

NAMES = (TOP.name, AUDIO_RENDITION)
SECOND_US = 1_000_000


class FreezingObjects(FailingObjects):
    """A store on whose n-th write its host freezes, until it is woken."""

    def __init__(self, disk: DiskObjects, *, freeze_at: int | None) -> None:
        super().__init__(disk)
        self.frozen = asyncio.Event()
        self.woken = asyncio.Event()
        self._freeze_at = freeze_at

    async def put(self, address: str, data: bytes, *, vital: bool = False) -> None:
        await self._wait()
        await super().put(address, data, vital=vital)

    async def put_if(
        self, address: str, data: bytes, version: str | None, *, vital: bool = False
    ) -> str:
        await self._wait()
        return await super().put_if(address, data, version, vital=vital)

    async def delete_all(self, addresses: Collection[str]) -> None:
        await self._wait()
        await super().delete_all(addresses)

    async def _wait(self) -> None:
        if self._freeze_at is not None and self.writes >= self._freeze_at:
            self.frozen.set()
            await self.woken.wait()


async def steps(
    publication: Publication, maker: ReportMaker, clock: ManualClock, count: int
) -> int:
    """Publish a source of so many steps; return how often storing failed."""
    await publication.prepare(maker.epoch, maker.renditions, NOON_US)
    failures = await append_until_full(publication, maker.begin())
    for number in range(count):
        reports = maker.step(discontinuity=maker.epoch > 0 and number == 0)
        failures += await append_until_full(publication, reports)
        clock.now += 2.0
    maker.epoch += 1
    return failures


def contents(disk: DiskObjects) -> dict[str, bytes]:
    files = (path for path in disk.path(f"live/{HASH}").rglob("*") if path.is_file())
    return {path.relative_to(disk.root).as_posix(): path.read_bytes() for path in files}


class FirstHost:
    """The host that begins the run, and learns that it has lost it."""

    def __init__(self, disk: DiskObjects, freeze_at: int | None) -> None:
        self.objects = FreezingObjects(disk, freeze_at=freeze_at)
        self.clock = ManualClock()
        self.losses = 0
        self.finished = False

    async def broadcast(self) -> None:
        # The other host removes a run that has listed nothing yet, so viewers come first.
        edge = MemoryEdge()
        owner = RunOwner(generation=1, fenced=True, on_lost=self.lose)
        publication = await open_run(self.objects, edge, self.clock, owner=owner)
        maker = ReportMaker(TOP, salt="first")
        await steps(publication, maker, self.clock, 3)
        await steps(publication, maker, self.clock, 14)
        await publication.finish()
        self.finished = True

    def lose(self) -> None:
        self.losses += 1


async def take_over(disk: DiskObjects, *, at: ManualClock) -> tuple[Publication, ReportMaker]:
    """Resume the run as another host, or begin one where there is nothing to resume."""
    objects, clock = FailingObjects(disk), ManualClock()
    owner, now_us = RunOwner(generation=2, fenced=True), NOON_US + 40 * SECOND_US
    edge = CheckedEdge(disk)
    clock.now = at.now
    publication = await resume_run(objects, edge, clock, now_us=now_us, owner=owner)
    if publication is None:
        publication = await open_run(objects, edge, clock, now_us=now_us, owner=owner)
        maker = ReportMaker(TOP, salt="second")
    else:
        maker = ReportMaker.continuing(publication, salt="second")
    assert await steps(publication, maker, clock, 2) == 0
    return publication, maker


def check_playlists(disk: DiskObjects, run: str) -> None:
    for name in NAMES:
        address = f"live/{HASH}/{run}/{name}/index.m3u8"
        check_named_addresses(disk, address, disk.path(address).read_text())


async def check_return(folder: Path, freeze_at: int) -> bool:
    """Freeze the first host, let another take over, wake the first; False if it never froze."""
    disk = DiskObjects(folder)
    first = FirstHost(disk, freeze_at)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(first.broadcast())
        frozen = group.create_task(first.objects.frozen.wait())
        await asyncio.wait((task, frozen), return_when=asyncio.FIRST_COMPLETED)
        if not first.objects.frozen.is_set():
            frozen.cancel()
            return False
        publication, maker = await take_over(disk, at=first.clock)
        before = contents(disk)
        first.objects.woken.set()
    assert first.finished
    after = contents(disk)
    # The woken host may delete what had expired before it froze, add media that no playlist
    # names, and end the playlists of its run if another run has begun since.
    ended = f"/{RUN}/" if publication.run != RUN else None
    before = {
        name: data
        for name, data in before.items()
        if ended is None or ended not in name or not name.endswith(".m3u8")
    }
    assert {name: after.get(name, data) for name, data in before.items()} == before, freeze_at
    check_playlists(disk, publication.run)
    clock = ManualClock()
    clock.now = first.clock.now
    assert await steps(publication, maker, clock, 2) == 0
    check_playlists(disk, publication.run)
    for name in NAMES:
        playlist = on_disk(disk, name, publication.run)
        newest = int(playlist.segments[-1].uri.removesuffix(".m4s"))
        assert newest == publication.next_sequence - 1
        data = disk.path(f"live/{HASH}/{publication.run}/{name}/{newest}.m4s").read_bytes()
        assert b"second" in data
    disk.close()
    return True


@pytest.mark.parametrize("stride", [13, pytest.param(1, marks=pytest.mark.prove)])
async def test_a_host_that_wakes_up_changes_no_byte(tmp_path: Path, stride: int) -> None:
    count = 0
    while await check_return(tmp_path / str(count), count * stride):
        count += 1
    assert count * stride > 100


async def test_a_host_that_lost_its_run_learns_of_it_once_and_writes_nothing_more(
    tmp_path: Path,
) -> None:
    with DiskObjects(tmp_path) as disk:
        first = FirstHost(disk, None)
        owner = RunOwner(generation=1, fenced=True, on_lost=first.lose)
        publication = await open_run(disk, CheckedEdge(disk), first.clock, owner=owner)
        maker = ReportMaker(TOP, salt="first")
        assert await steps(publication, maker, first.clock, 3) == 0
        await take_over(disk, at=first.clock)
        before = contents(disk)
        assert await steps(publication, maker, first.clock, 2) > 0
        assert first.losses == 1
        assert await steps(publication, maker, first.clock, 2) > 0
        await publication.finish()
        assert first.losses == 1
        files_before = contents(disk)
        assert {name: files_before[name] for name in before} == before


@pytest.mark.parametrize("seconds", [12, 30])
async def test_what_left_the_playlists_of_a_host_that_is_gone_does_not_come_back(
    tmp_path: Path, seconds: int
) -> None:
    """The host disappeared after viewers had seen the newest step, but before it was stored."""
    window = LiveWindow(listed_seconds=seconds)
    with DiskObjects(tmp_path) as disk:
        shown, clock = MemoryEdge(), ManualClock()
        owner = RunOwner(generation=1, fenced=True)
        publication = await open_run(disk, shown, clock, window=window, owner=owner)
        maker = ReportMaker(TOP)
        await begin_epoch(publication, maker)
        for _ in range(seconds // 2 + 3):
            await append_all(publication, maker.step())
        for report in maker.step():
            await publication.append(report)
        edge, owner = MemoryEdge(), RunOwner(generation=2, fenced=True)
        assert await resume_run(disk, edge, clock, window=window, owner=owner) is not None
        for name in NAMES:
            address = f"live/{HASH}/{RUN}/{name}/index.m3u8"
            before, after = shown.timeline(address), edge.timeline(address)
            assert before is not None
            assert after is not None
            assert after.sequence >= before.sequence > 0
            assert after.next_msn >= before.next_msn
            assert on_disk(disk, name).sequence == after.sequence


async def test_an_older_host_takes_nothing_over(tmp_path: Path) -> None:
    with DiskObjects(tmp_path) as disk:
        clock = ManualClock()
        edge, owner = CheckedEdge(disk), RunOwner(generation=3, fenced=True)
        publication = await open_run(disk, edge, clock, owner=owner)
        maker = ReportMaker(TOP)
        await steps(publication, maker, clock, 3)
        late = RunOwner(generation=2, fenced=True)
        for begin in (resume_run, open_run):
            with pytest.raises(OwnershipLost):
                await begin(disk, CheckedEdge(disk), clock, owner=late)
        assert await steps(publication, maker, clock, 1) == 0


async def test_a_run_that_a_former_owner_begins_is_not_the_newest_by_its_name(
    tmp_path: Path,
) -> None:
    """The host's clock is ahead, and it stores its run's first step after the present owner."""
    with DiskObjects(tmp_path) as disk:
        first, clock = FirstHost(disk, None), ManualClock()
        former = RunOwner(generation=1, fenced=True, on_lost=first.lose)
        ahead_us = NOON_US + 600 * SECOND_US
        late = await open_run(disk, MemoryEdge(), clock, now_us=ahead_us, owner=former)
        owner = RunOwner(generation=2, fenced=True)
        present = await open_run(disk, CheckedEdge(disk), clock, owner=owner)
        assert late.run > present.run
        maker = ReportMaker(TOP, salt="second")
        assert await steps(present, maker, clock, 2) == 0
        assert await steps(late, ReportMaker(TOP, salt="first"), clock, 2) > 0
        assert first.losses == 1
        assert await steps(present, maker, clock, 1) == 0
        (announced, *_) = variants(disk).variants
        assert announced.uri.startswith(present.run)


async def test_a_former_owner_begins_no_run_after_the_end_of_a_later_owners(tmp_path: Path) -> None:
    with DiskObjects(tmp_path) as disk:
        clock, owner = ManualClock(), RunOwner(generation=3, fenced=True)
        publication = await open_run(disk, CheckedEdge(disk), clock, owner=owner)
        await steps(publication, ReportMaker(TOP), clock, 3)
        await publication.finish()
        with pytest.raises(OwnershipLost):
            await open_run(disk, MemoryEdge(), clock, owner=RunOwner(generation=2, fenced=True))


async def test_a_host_that_has_all_streams_now_continues_with_the_generation_that_it_finds(
    tmp_path: Path,
) -> None:
    with DiskObjects(tmp_path) as disk:
        clock, owner = ManualClock(), RunOwner(generation=3, fenced=True)
        publication = await open_run(disk, CheckedEdge(disk), clock, owner=owner)
        await steps(publication, ReportMaker(TOP), clock, 3)
        await publication.finish()
        later_us = NOON_US + 600 * SECOND_US
        alone = await open_run(disk, CheckedEdge(disk), clock, now_us=later_us)
        await steps(alone, ReportMaker(TOP), clock, 2)
        newest = await newest_run(disk, HASH)
        assert newest is not None
        assert (newest.run, newest.state.generation) == (alone.run, 3)


async def test_a_former_owner_without_media_does_not_delete_what_a_later_one_has_added(
    tmp_path: Path,
) -> None:
    with DiskObjects(tmp_path) as disk:
        clock = ManualClock()
        former = await open_run(
            disk, MemoryEdge(), clock, owner=RunOwner(generation=1, fenced=True)
        )
        maker = ReportMaker(TOP)
        await former.prepare(maker.epoch, maker.renditions, NOON_US)
        assert await append_until_full(former, [*maker.begin(), *maker.step(gaps=NAMES)]) == 0
        publication, _ = await take_over(disk, at=clock)
        assert publication.run == RUN
        before = contents(disk)
        await former.finish()
        assert contents(disk) == before
        check_playlists(disk, RUN)
