"""A recording in the store: media linked once, pages that a crash may cut, playlists at the end."""

import asyncio
from collections.abc import Generator
from pathlib import Path

import msgspec
import pytest

from delivery.recording.pages import PAGE_TICKS, TimeRange
from delivery.recording.recording_store import MEDIA, ListedStep, RecordingStore
from delivery.run.run_state import PAGE_STEPS
from media.hls.m3u8 import parse
from media.hls.playlist import MediaPlaylist
from media.ladder import AUDIO_RENDITION
from storage.objects.addresses import (
    live_init,
    live_run,
    live_segment,
    media_init,
    media_segment,
    video_page,
    video_pages,
    video_playlist,
    video_segment,
    video_variants,
)
from storage.objects.base import ObjectMissing
from storage.objects.disk import DiskObjects
from tests.delivery.recording.test_pages import NAMES, RUNGS, step
from tests.support.storage.engine_reports import CODECS, HASH, LOW, NOON_US, ORIGIN, RUN, TOP, TWO

VIDEO = "VVVVVVVVVVVV"
PAGES = 5
OF_A_PAGE = 4


@pytest.fixture
def objects(tmp_path: Path) -> Generator[DiskObjects]:
    with DiskObjects(tmp_path) as opened:
        yield opened


async def listed(objects: DiskObjects, sequence: int, *, lost: str = "") -> ListedStep:
    """Store the media of a step, but for those of one rendition, and list it."""
    for name in NAMES:
        await objects.put(live_init(HASH, RUN, name, 0), b"init")
        if name != lost:
            await objects.put(live_segment(HASH, RUN, name, sequence), b"x" * 1000)
    return listed_of(sequence, live_run(HASH, RUN))


def listed_of(sequence: int, *folders: str) -> ListedStep:
    return ListedStep(step=step(sequence), renditions=RUNGS, codecs=CODECS, folders=folders)


async def load(objects: DiskObjects) -> RecordingStore:
    return await RecordingStore.load(objects, VIDEO)


def time(start: float, end: float) -> TimeRange:
    """Return a time by seconds from the beginning of the first step."""
    began_us = NOON_US + ORIGIN * 100 // 9
    return TimeRange(began_us + round(start * 1_000_000), began_us + round(end * 1_000_000))


async def playlist(objects: DiskObjects, name: str) -> MediaPlaylist:
    parsed = parse((await objects.get(video_playlist(VIDEO, MEDIA, name))).decode())
    assert isinstance(parsed, MediaPlaylist)
    return parsed


async def test_media_remain_when_those_of_the_run_are_deleted(objects: DiskObjects) -> None:
    store = await load(objects)
    for sequence in range(3):
        assert await store.append(await listed(objects, sequence)) is None
    await store.write_page(closed=True)
    playlists_written = await store.write_playlists()
    await store.remove_pages()
    await objects.delete_tree(f"live/{HASH}")
    assert await objects.addresses(video_pages(VIDEO, MEDIA)) == []
    assert playlists_written.size > len(await objects.get(video_variants(VIDEO, MEDIA)))
    for name in NAMES:
        assert len((await playlist(objects, name)).segments) == 3
        assert await objects.get(video_segment(VIDEO, MEDIA, name, 2)) == b"x" * 1000
    assert playlists_written.time == time(0, 6)


async def test_a_recording_continues_after_its_last_page(objects: DiskObjects) -> None:
    before = await load(objects)
    await before.append(await listed(objects, 0))
    await before.write_page()
    await before.append(await listed(objects, 1))  # and the process dies
    store = await load(objects)
    assert (store.totals.last, store.unwritten_count, store.closed) == (0, 0, False)
    for sequence in (0, 1, 2):  # all that the run lists, the first again
        assert await store.append(await listed(objects, sequence)) is None
    assert store.unwritten_count == 2
    await store.write_page(closed=True)
    assert (await load(objects)).closed
    await store.write_playlists()
    assert [each.gap for each in (await playlist(objects, TOP.name)).segments] == [False] * 3


async def test_a_segment_that_is_gone_is_a_gap_of_its_rendition_alone(
    objects: DiskObjects,
) -> None:
    store = await load(objects)
    await store.append(await listed(objects, 0))
    error = await store.append(await listed(objects, 1, lost=TOP.name))
    assert isinstance(error, ObjectMissing)
    await store.write_page(closed=True)
    await store.write_playlists()
    gaps = {name: [each.gap for each in (await playlist(objects, name)).segments] for name in NAMES}
    assert gaps == {
        TOP.name: [False, True],
        LOW.name: [False, False],
        AUDIO_RENDITION: [False, False],
    }


async def test_two_hosts_that_record_a_run_keep_each_step_once(objects: DiskObjects) -> None:
    """One host was frozen, and wakes up after the other has continued."""
    frozen = await load(objects)
    await frozen.append(await listed(objects, 0))
    await frozen.write_page()
    await frozen.append(await listed(objects, 1))
    awake = await load(objects)
    for sequence in range(3):
        await awake.append(await listed(objects, sequence))
    await awake.write_page()
    before = {name: await objects.get(name) for name in await objects.addresses("videos")}
    await frozen.write_page()
    assert {name: await objects.get(name) for name in before} == before
    assert (frozen.unwritten_count, frozen.totals) == (0, awake.totals)
    # Steps that only one host has are appended, whichever host is faster.
    await frozen.append(await listed(objects, 3))
    await awake.append(await listed(objects, 3))
    await frozen.write_page()
    await awake.append(await listed(objects, 4))
    await awake.write_page(closed=True)
    await awake.write_playlists()
    stored_playlist = await playlist(objects, TOP.name)
    assert [each.uri for each in stored_playlist.segments] == [
        f"{number}.m4s" for number in range(5)
    ]
    assert not any(each.discontinuity or each.gap for each in stored_playlist.segments)


@pytest.mark.parametrize("short", [False, True], ids=["by time", "by count"])
async def test_a_page_is_due_in_time_and_when_it_is_full(objects: DiskObjects, short: bool) -> None:
    store = await load(objects)
    steps = 0
    while not store.is_page_due:
        listed_step = await listed(objects, steps)
        if short:  # steps that end together
            together = msgspec.structs.replace(listed_step.step, segments=step(0).segments)
            listed_step = msgspec.structs.replace(listed_step, step=together)
        await store.append(listed_step)
        steps += 1
        assert store.unwritten_count == steps
    assert steps == (PAGE_STEPS if short else PAGE_TICKS // TWO + 1)
    await store.write_page()
    assert (store.is_page_due, store.unwritten_count) == (False, 0)


async def test_a_page_that_a_power_cut_shortened_costs_its_own_steps(objects: DiskObjects) -> None:
    store = await load(objects)
    for sequence in range(3):
        await store.append(await listed(objects, sequence))
        await store.write_page(closed=sequence == 2)
    await objects.put(video_page(VIDEO, MEDIA, 1), b'{"steps"')
    store = await load(objects)
    assert (store.totals.last, store.closed) == (2, True)
    await store.write_playlists()
    assert [each.discontinuity for each in (await playlist(objects, TOP.name)).segments] == [
        False,
        True,
    ]


async def recorded(objects: DiskObjects, *, lost: int | None = None) -> RecordingStore:
    """Return a recording of five pages of four steps of 2 s; one page may be lost."""
    store = await load(objects)
    for number in range(PAGES * OF_A_PAGE):
        assert await store.append(await listed(objects, number)) is None
        if number % OF_A_PAGE == OF_A_PAGE - 1:
            await store.write_page()
    if lost is not None:
        await objects.put(video_page(VIDEO, MEDIA, lost), b"")
    await store.write_page(closed=True)  # one without steps
    return await load(objects)


@pytest.mark.parametrize("lost", [None, 0, 2, 4])
async def test_the_steps_of_each_time_are_found(objects: DiskObjects, lost: int | None) -> None:
    store = await recorded(objects, lost=lost)
    numbers = {number for number in range(PAGES * OF_A_PAGE) if number // OF_A_PAGE != lost}
    for start in range(0, 40, 3):
        for end in range(start + 1, 41, 3):
            sequences = [one.sequence for one in await store.pages.find(time(start, end))]
            wanted = set(range(start // 2, -(-end // 2))) & numbers
            assert wanted <= set(sequences), (start, end)
            assert sequences == sorted(set(sequences))


async def test_of_another_time_nothing_is_found(objects: DiskObjects) -> None:
    empty = await load(objects)
    assert await empty.pages.begin_us() is None
    assert await empty.pages.find(time(0, 10)) == []
    store = await recorded(objects)
    assert await store.pages.begin_us() == time(0, 0).from_us
    assert await store.pages.find(time(40, 50)) == []


class CountingDisk(DiskObjects):
    """A disk that counts what is read."""

    read = 0

    async def get(self, address: str) -> bytes:
        self.read += 1
        return await super().get(address)


async def test_a_long_recording_is_not_read_in_whole(tmp_path: Path) -> None:
    disk = CountingDisk(tmp_path)
    with disk:
        store = await load(disk)
        for number in range(64):
            assert await store.append(await listed(disk, number)) is None
            await store.write_page()
        for start in (0, 60, 126):
            disk.read = 0
            sequences = [one.sequence for one in await store.pages.find(time(start, start + 2))]
            assert start // 2 in sequences
            # Six or seven to find the first one, and eight at once from there.
            assert disk.read <= 15


async def test_media_are_linked_from_the_first_folder_that_has_them(objects: DiskObjects) -> None:
    here, there = "live/abcdefABCDEF/a", "live/abcdefABCDEF/b"
    for folder, number in ((here, 0), (there, 0), (there, 1)):
        for name in NAMES:
            await objects.put(media_init(folder, name, 0), b"init")
            await objects.put(media_segment(folder, name, number), folder.encode())
    store = await load(objects)
    for number, folder in ((0, here), (1, there)):
        assert await store.append(listed_of(number, here, there)) is None
        address = video_segment(VIDEO, MEDIA, TOP.name, number)
        assert await objects.get(address) == folder.encode()
    assert isinstance(await store.append(listed_of(2, here, there)), ObjectMissing)


class NetworkDisk(DiskObjects):
    """A disk on which links wait for each other, as for a network."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.linking = self.most = 0

    async def link(self, source: str, target: str) -> None:
        self.linking += 1
        self.most = max(self.most, self.linking)
        try:
            await asyncio.sleep(0)
            await super().link(source, target)
        finally:
            self.linking -= 1


async def test_many_steps_are_linked_some_at_a_time_and_kept_in_order(tmp_path: Path) -> None:
    objects = NetworkDisk(tmp_path)
    with objects:
        steps = [await listed(objects, number) for number in range(40)]
        await objects.delete(live_segment(HASH, RUN, TOP.name, 7))
        store = await load(objects)
        assert isinstance(await store.append_all(steps), ObjectMissing)
        assert 10 < objects.most <= 16
        assert await store.append_all(steps[20:]) is None  # they are there
        await store.write_page(closed=True)
        await store.write_playlists()
        top, low = [(await playlist(objects, name)).segments for name in (TOP.name, LOW.name)]
        assert [one.uri for one in low] == [f"{number}.m4s" for number in range(40)]
        assert [number for number, one in enumerate(top) if one.gap] == [7]


async def test_media_that_are_lost_after_another_hosts_page_are_reported(
    objects: DiskObjects,
) -> None:
    frozen = await load(objects)
    for sequence in range(2):
        await frozen.append(await listed(objects, sequence))
    awake = await load(objects)
    await awake.append(await listed(objects, 0))
    assert await awake.write_page() is None
    await objects.delete(live_segment(HASH, RUN, TOP.name, 1))
    assert isinstance(await frozen.write_page(), ObjectMissing)
    assert await frozen.write_page(closed=True) is None
    await frozen.write_playlists()
    assert [each.gap for each in (await playlist(objects, TOP.name)).segments] == [False, True]
    assert [each.gap for each in (await playlist(objects, LOW.name)).segments] == [False, False]
