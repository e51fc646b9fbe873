"""Renditions on their way to a real store: stored as they come, named when all are there."""

from collections.abc import Generator
from pathlib import Path

import pytest

from media.ladder import Rendition
from media.m3u8 import parse
from media.playlist import MediaPlaylist
from media.segment import InitSection, Part, Segment
from storage.objects.base import ObjectMissing
from storage.objects.disk import DiskObjects
from transcode.renditions import OutOfStep, Renditions

pytestmark = pytest.mark.anyio

SECOND = 90_000
RUNG = Rendition(name="360p", width=640, height=360, rate=800_000)
FOLDER = "videos/Ab3dEf6hIj9l/1-1"


@pytest.fixture
def objects(tmp_path: Path) -> Generator[DiskObjects]:
    with DiskObjects(tmp_path) as opened:
        yield opened


@pytest.fixture
def renditions(objects: DiskObjects) -> Renditions:
    return Renditions(objects, hash_="Ab3dEf6hIj9l", media="1-1", rungs=(RUNG,))


def init(name: str) -> InitSection:
    codecs = "mp4a.40.2" if name == "audio" else "avc1.64001E"
    return InitSection(rendition=name, number=0, codecs=codecs, data=b"init" + name.encode())


def part(name: str, sequence: int, index: int, data: bytes) -> Part:
    return Part(
        rendition=name, sequence=sequence, index=index, duration=SECOND, independent=True, data=data
    )


def segment(
    name: str, sequence: int, size: int, *, seconds: float = 2, gap: bool = False
) -> Segment:
    return Segment(
        rendition=name,
        sequence=sequence,
        epoch=0,
        start=0,
        duration=round(seconds * SECOND),
        size=size,
        frames=50,
        parts=2,
        init=0,
        discontinuity=False,
        gap=gap,
    )


async def fill(renditions: Renditions, name: str, lengths: list[float]) -> None:
    await renditions.take(init(name))
    for sequence, seconds in enumerate(lengths):
        await renditions.take(part(name, sequence, 0, b"one"))
        await renditions.take(part(name, sequence, 1, b"two"))
        await renditions.take(segment(name, sequence, 6, seconds=seconds))


async def test_a_segment_is_its_parts_and_playlists_come_last(
    objects: DiskObjects, renditions: Renditions
) -> None:
    await fill(renditions, "360p", [2, 2.6, 0.5])
    assert await objects.get(f"{FOLDER}/360p/0.m4s") == b"onetwo"
    assert not [name for name in await objects.addresses(FOLDER) if name.endswith(".m3u8")]
    await fill(renditions, "audio", [2, 2.6, 0.5])
    await renditions.finish()
    playlist = parse((await objects.get(f"{FOLDER}/360p/index.m3u8")).decode())
    assert isinstance(playlist, MediaPlaylist)
    assert [each.uri for each in playlist.segments] == ["0.m4s", "1.m4s", "2.m4s"]
    assert {each.map_uri for each in playlist.segments} == {"init-0.mp4"}
    # The longest, rounded to the nearest second.
    assert (playlist.target, playlist.ended, playlist.whole) == (3, True, True)
    variants = (await objects.get(f"{FOLDER}/index.m3u8")).decode()
    assert "1-1/360p/index.m3u8" in variants
    assert 'URI="1-1/audio/index.m3u8"' in variants


async def test_sizes_are_the_stored_bytes(objects: DiskObjects, renditions: Renditions) -> None:
    await fill(renditions, "360p", [2])
    await fill(renditions, "audio", [2])
    await renditions.finish()
    stored = 0
    for address in await objects.addresses(FOLDER):
        found = await objects.stat(address)
        stored += found.size if found is not None else 0
    assert renditions.size == stored
    assert renditions.length == 2 * SECOND


@pytest.mark.parametrize(
    ("picture", "sound"),
    [
        pytest.param([2, 2], [2], id="sound is missing"),
        pytest.param([2], [2, 2], id="a picture is missing"),
        pytest.param([], [], id="nothing at all"),
    ],
)
async def test_renditions_that_do_not_fit_together_are_not_named(
    objects: DiskObjects, renditions: Renditions, picture: list[float], sound: list[float]
) -> None:
    await fill(renditions, "360p", picture)
    await fill(renditions, "audio", sound)
    with pytest.raises(OutOfStep):
        await renditions.finish()
    with pytest.raises(ObjectMissing):
        await objects.get(f"{FOLDER}/index.m3u8")


async def test_what_is_not_whole_is_refused(renditions: Renditions) -> None:
    await renditions.take(init("360p"))
    await renditions.take(part("360p", 0, 0, b"one"))
    with pytest.raises(OutOfStep):
        await renditions.take(segment("360p", 0, 4))
    with pytest.raises(OutOfStep):
        await renditions.take(segment("360p", 1, 0, gap=True))
    with pytest.raises(OutOfStep):
        await renditions.take(init("1080p"))
