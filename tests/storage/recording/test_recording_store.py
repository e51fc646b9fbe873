"""A recording in the store: media linked once, pages that a crash may cut, playlists at the end."""

from collections.abc import Generator
from pathlib import Path

import msgspec
import pytest

from media.hls.m3u8 import parse
from media.hls.playlist import MediaPlaylist
from media.ladder import AUDIO_RENDITION
from storage.objects.addresses import (
    live_init,
    live_segment,
    video_page,
    video_pages,
    video_playlist,
    video_segment,
    video_variants,
)
from storage.objects.base import ObjectMissing
from storage.objects.disk import DiskObjects
from storage.recording.pages import PAGE_STEPS, PAGE_TICKS
from storage.recording.recording_store import MEDIA, ListedStep, RecordingStore
from tests.storage.recording.test_pages import NAMES, RUNGS, step
from tests.support.storage.engine_reports import CODECS, HASH, LOW, RUN, TOP, TWO

VIDEO = "VVVVVVVVVVVV"


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
    return ListedStep(step=step(sequence), renditions=RUNGS, codecs=CODECS)


async def load(objects: DiskObjects) -> RecordingStore:
    return await RecordingStore.load(objects, stream=HASH, run=RUN, hash_=VIDEO)


async def playlist(objects: DiskObjects, name: str) -> MediaPlaylist:
    parsed = parse((await objects.get(video_playlist(VIDEO, MEDIA, name))).decode())
    assert isinstance(parsed, MediaPlaylist)
    return parsed


async def test_media_remain_when_those_of_the_run_are_deleted(objects: DiskObjects) -> None:
    store = await load(objects)
    for sequence in range(3):
        assert await store.append(await listed(objects, sequence)) is None
    await store.write_page(closed=True)
    size = await store.write_playlists()
    await store.remove_pages()
    await objects.delete_tree(f"live/{HASH}")
    assert await objects.addresses(video_pages(VIDEO, MEDIA)) == []
    assert size > len(await objects.get(video_variants(VIDEO, MEDIA)))
    for name in NAMES:
        assert len((await playlist(objects, name)).segments) == 3
        assert await objects.get(video_segment(VIDEO, MEDIA, name, 2)) == b"x" * 1000


async def test_a_recording_goes_on_after_its_last_page(objects: DiskObjects) -> None:
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


@pytest.mark.parametrize("short", [False, True], ids=["by time", "by count"])
async def test_a_page_is_due_in_time_and_when_it_is_full(objects: DiskObjects, short: bool) -> None:
    store = await load(objects)
    steps = 0
    while not store.is_page_due:
        made = await listed(objects, steps)
        if short:  # steps that end together
            together = msgspec.structs.replace(made.step, segments=step(0).segments)
            made = msgspec.structs.replace(made, step=together)
        await store.append(made)
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
