"""What viewers miss where a source goes on in the middle of a GOP, with a real engine.

Its pictures show their numbers; the keyframes of the sources are 2 s and 10 s apart.
"""

import os
import signal
from itertools import groupby
from pathlib import Path

import pytest

from media.ladder import AUDIO_RENDITION
from media.ticks import VIDEO_SCALE
from storage.objects.disk import DiskObjects
from tests.support.engine.decoded_output import loudness
from tests.support.engine.numbered_films import numbered, numbers
from tests.support.engine.sources import Source, source_of
from tests.support.transcode.live_runs import (
    RUNG,
    STREAM,
    children,
    playlist,
    running,
    send,
    tracks_of,
)
from tests.support.waiting import until
from transcode.live import backlog

RATE = 25
PICTURES = 7 * RATE
QUIET = 0.02


@pytest.fixture(scope="module", params=[(2, 2), (10, 0)], ids=["2 s", "10 s"])
def film(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Source:
    """7 s with a keyframe every 2 s and B-frames, or with one keyframe only and none."""
    seconds, bframes = request.param
    gop = str(seconds * RATE)
    path = tmp_path_factory.mktemp("film") / "numbered.flv"
    coding = ["-c:v", "libx264", "-preset", "superfast", "-bf", str(bframes), "-g", gop]
    coding += ["-keyint_min", gop, "-sc_threshold", "0", "-c:a", "aac"]
    return source_of(numbered(path, *coding, seconds=PICTURES / RATE, size=(240, 136)))


def files(root: Path, rendition: str) -> list[bytes]:
    """Return one file for each init section that a rendition's playlist names, in order."""
    (folder,) = (root / "live" / STREAM).glob(f"*/{rendition}")
    joined: list[bytes] = []
    for init, group in groupby(playlist(root, rendition).segments, lambda each: each.map_uri):
        assert init is not None
        media = [(folder / each.uri).read_bytes() for each in group if not each.gap]
        joined.append((folder / init).read_bytes() + b"".join(media))
    return joined


def shown(root: Path) -> list[int]:
    return [number for file in files(root, RUNG) for _, number in numbers(file)]


def seconds_of_silence(root: Path) -> float:
    """Return how much of the sound between its first and its last is silent."""
    peaks = [peak for file in files(root, AUDIO_RENDITION) for _, peak in loudness(file)]
    heard = [index for index, peak in enumerate(peaks) if peak > QUIET]
    return (heard[-1] - heard[0] + 1 - len(heard)) * 1024 / 48_000


def listed(root: Path) -> float:
    if not any((root / "live" / STREAM).glob(f"*/{RUNG}/index.m3u8")):
        return 0.0
    return sum(each.duration for each in playlist(root).segments) / VIDEO_SCALE


def repeated(pictures: list[int]) -> int:
    return len(pictures) - len(set(pictures))


async def test_a_killed_engine_costs_no_picture(
    tmp_path: Path, film: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it had not published is made by the next engine."""
    # On a busy machine the packets would be too old to be shown by then.
    monkeypatch.setattr(backlog, "QUEUE_SECONDS", 60.0)
    with DiskObjects(tmp_path) as objects:
        async with running(objects) as run:
            run.begin(tracks_of(film))
            send(run, film, end=4_500)
            await until(lambda: run.playable, within=15)
            (pid,) = children()
            os.kill(pid, signal.SIGKILL)
            await until(lambda: run.metrics.deaths == 1, within=15)
            send(run, film, start=4_500)
            run.finish()
            run.end()
    pictures = shown(tmp_path)
    assert sorted(set(pictures)) == list(range(PICTURES))
    assert repeated(pictures) <= RATE // 2, "half a second is shown again at most"
    assert seconds_of_silence(tmp_path) < 0.15


async def test_a_stall_that_the_slate_covers_costs_no_picture(tmp_path: Path, film: Source) -> None:
    with DiskObjects(tmp_path) as objects:
        async with running(objects) as run:
            run.begin(tracks_of(film))
            send(run, film, end=4_500)
            run.slate(0.5)
            await until(lambda: listed(tmp_path) >= 4, within=15)
            run.begin(tracks_of(film), continues=True)
            send(run, film, start=4_500)
            run.finish()
            run.end()
    marks = [each.discontinuity for each in playlist(tmp_path).segments]
    pictures = [each for each, _ in groupby(shown(tmp_path)) if each < PICTURES]
    assert set(range(PICTURES)) <= set(pictures)
    # The slate, and a keyframe of a source whose own packets made the top rung.
    assert marks.count(True) <= 2


@pytest.mark.parametrize("new_clock", [False, True], ids=["sound", "clock"])
async def test_other_sound_and_another_clock_cost_nothing(
    tmp_path: Path, film: Source, *, new_clock: bool
) -> None:
    with DiskObjects(tmp_path) as objects:
        async with running(objects) as run:
            tracks = tracks_of(film)
            run.begin(tracks if new_clock else tracks[:1])
            send(run, film, end=2_700)
            run.begin(tracks, continues=True, new_clock=new_clock)
            send(run, film, start=2_700)
            run.finish()
            run.end()
    assert shown(tmp_path) == list(range(PICTURES))
    assert seconds_of_silence(tmp_path) == 0
    assert not any(each.discontinuity for each in playlist(tmp_path).segments)


async def test_after_an_overload_only_what_was_dropped_is_missing(
    tmp_path: Path, film: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DiskObjects(tmp_path) as objects:
        async with running(objects) as run:
            run.begin(tracks_of(film))
            send(run, film, end=2_500)
            with monkeypatch.context() as full:
                full.setattr(backlog, "QUEUE_BYTES", 0)
                send(run, film, start=2_500, end=3_000)
            assert run.backlog.dropping
            send(run, film, start=3_000)
            run.finish()
            run.end()
    dropped = [each for each in film.pictures if 2_500 <= each.dts < 3_000]
    missing = set(range(PICTURES)).difference(pictures := shown(tmp_path))
    assert len(missing) <= len(dropped)
    assert repeated(pictures) == 0
