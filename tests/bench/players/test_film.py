"""The films: two init sections on one timeline, whose pictures all decode."""

import io
import re
from itertools import groupby
from pathlib import Path

import av
import pytest

from bench.latency.clock import WRAP_MS, read
from bench.players.film import CHANGES, FPS, PACKINGS, SEAMS, SECONDS, make_films
from media.hls.m3u8 import parse
from media.hls.playlist import MediaPlaylist

pytestmark = [pytest.mark.e2e, pytest.mark.prove]

BEGAN = 1_700_000_000_123


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("films")
    films = make_films(folder, BEGAN)
    assert set(films) == {(packing, change) for packing in PACKINGS for change in CHANGES}
    assert all((folder / film).is_file() for film in films.values())
    return folder


def playlist(folder: Path, packing: str, change: str) -> MediaPlaylist:
    parsed = parse((folder / packing / f"{packing}-{change}.m3u8").read_text())
    assert isinstance(parsed, MediaPlaylist)
    return parsed


def decoded(media: bytes) -> list[tuple[int | None, float]]:
    """Return the clock and the time, in seconds, of every picture."""
    with av.open(io.BytesIO(media), "r", format="mp4") as container:
        return [
            (
                read(memoryview(plane), plane.line_size, frame.width, frame.height),
                float(frame.time or 0),
            )
            for frame in container.decode(video=0)
            for plane in frame.planes[:1]
        ]


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("change", CHANGES)
def test_every_picture_is_there_at_its_time(folder: Path, packing: str, change: str) -> None:
    shown: list[tuple[int | None, float]] = []
    segments = playlist(folder, packing, change).segments
    for init, group in groupby(segments, lambda segment: segment.map_uri):
        files = [folder / packing / name for name in (str(init), *[each.uri for each in group])]
        shown += decoded(b"".join(file.read_bytes() for file in files))
    clocks, times = zip(*shown, strict=True)
    wanted = [(BEGAN + number * 1000 // FPS) % WRAP_MS for number in range(SECONDS * FPS)]
    assert list(clocks) == wanted
    starts = [time - times[0] for time in times]
    assert starts == pytest.approx([number / FPS for number in range(SECONDS * FPS)], abs=1e-3)


@pytest.mark.parametrize("packing", PACKINGS)
def test_the_change_is_what_the_film_says(folder: Path, packing: str) -> None:
    marks = {
        change: [
            (each.map_uri, each.discontinuity)
            for each in playlist(folder, packing, change).segments
        ]
        for change in CHANGES
    }
    first, other = "init-a.mp4", "init-b.mp4"
    maps = [first, first, other, other, first, first]
    assert marks["none"] == [(first, False)] * 6
    assert marks["plain"] == [(each, False) for each in maps]
    assert marks["discontinuity"] == [
        (each, at in SEAMS) for at, each in zip(range(0, 12, 2), maps, strict=True)
    ]
    inits = [(folder / packing / name).read_bytes() for name in (first, other)]
    assert inits[0] != inits[1]


def test_the_sound_has_the_same_discontinuities(folder: Path) -> None:
    text = (folder / "discontinuity.m3u8").read_text()
    (uri,) = re.findall(r'TYPE=AUDIO.*URI="([^"]+)"', text)
    sound = parse((folder / uri).read_text())
    assert isinstance(sound, MediaPlaylist)
    pictures = playlist(folder, "ours", "discontinuity")
    assert [each.discontinuity for each in sound.segments] == [
        each.discontinuity for each in pictures.segments
    ]
