"""Renditions on their way to a real store: stored as they arrive, with their totals."""

from collections.abc import Generator
from pathlib import Path

import pytest

from media.hls.segment import InitSection, Part, Segment
from storage.objects.disk import DiskObjects
from transcode.vod.rendition_store import MadeSegment, OutOfStep, RenditionStore

SECOND = 90_000
FOLDER = "videos/Ab3dEf6hIj9l/1-1"


@pytest.fixture
def objects(tmp_path: Path) -> Generator[DiskObjects]:
    with DiskObjects(tmp_path) as opened:
        yield opened


@pytest.fixture
def renditions(objects: DiskObjects) -> RenditionStore:
    return RenditionStore(objects, hash_="Ab3dEf6hIj9l", folder="1-1", names=("360p", "audio"))


def init(name: str, number: int = 0) -> InitSection:
    codecs = "mp4a.40.2" if name == "audio" else "avc1.64001E"
    return InitSection(rendition=name, number=number, codecs=codecs, data=b"init" + name.encode())


def part(name: str, sequence: int, index: int, data: bytes) -> Part:
    return Part(
        rendition=name, sequence=sequence, index=index, duration=SECOND, independent=True, data=data
    )


def segment(name: str, sequence: int, size: int, *, gap: bool = False, init: int = 0) -> Segment:
    return Segment(
        rendition=name,
        sequence=sequence,
        epoch=0,
        start=0,
        duration=2 * SECOND,
        size=size,
        frames=50,
        parts=2,
        init=init,
        discontinuity=False,
        gap=gap,
    )


async def test_a_segment_is_its_parts(objects: DiskObjects, renditions: RenditionStore) -> None:
    await renditions.store(init("360p"))
    await renditions.store(part("360p", 7, 0, b"one"))
    await renditions.store(part("360p", 7, 1, b"two"))
    await renditions.store(segment("360p", 7, 6))
    assert await objects.get(f"{FOLDER}/360p/7.m4s") == b"onetwo"
    assert await objects.get(f"{FOLDER}/360p/init-0.mp4") == b"init360p"
    (rendition,) = renditions.made(["360p"])
    assert rendition.segments == (MadeSegment(7, 6, 2 * SECOND, 50),)
    assert (rendition.codecs, rendition.size) == ("avc1.64001E", 6 + 8)
    assert [each.name for each in renditions.made()] == ["360p", "audio"]


async def test_equal_init_sections_have_equal_digests(renditions: RenditionStore) -> None:
    for name, number in (("360p", 0), ("360p", 1), ("audio", 0)):
        await renditions.store(init(name, number))
    picture, sound = renditions.made()
    assert picture.inits[0] == picture.inits[1] != sound.inits[0]


async def test_what_is_not_whole_is_refused(renditions: RenditionStore) -> None:
    await renditions.store(init("360p"))
    await renditions.store(part("360p", 0, 0, b"one"))
    with pytest.raises(OutOfStep):
        await renditions.store(segment("360p", 0, 4))
    with pytest.raises(OutOfStep):
        await renditions.store(segment("360p", 1, 0, gap=True))
    await renditions.store(part("360p", 1, 0, b"one"))
    with pytest.raises(OutOfStep):
        await renditions.store(segment("360p", 1, 3, init=5))
    with pytest.raises(OutOfStep):
        await renditions.store(init("1080p"))


async def test_parts_without_an_end_are_no_segment(renditions: RenditionStore) -> None:
    """An engine that a hostile file controls can fill its own memory alone."""
    await renditions.store(init("360p"))
    data = bytes(10 << 20)
    with pytest.raises(OutOfStep):
        for index in range(100):
            await renditions.store(part("360p", 0, index, data))
