"""What viewers get of a run whose source is replaced at a given picture, with a real engine.

The sources show one programme, whose pictures have numbers.
"""

from itertools import groupby
from pathlib import Path

import pytest

from media.hls.playlist import PlaylistSegment
from media.stream_events import StreamEvent, TopRungEncodedEvent
from media.ticks import VIDEO_SCALE
from storage.objects.disk import DiskObjects
from tests.support.engine.numbered_films import numbered, numbers
from tests.support.engine.sources import Source, source_of
from tests.support.transcode.live_runs import RUNG, STREAM, playlist, running, send, tracks_of
from tests.support.waiting import until
from tests.transcode.live.test_live_run_preroll import files
from transcode.live import backlog
from transcode.live.live_run import LiveRun

RATE = 30
PICTURES = 285


def film(folder: Path, gop: float) -> Source:
    path = folder / f"cut-{gop}.flv"
    every = str(round(gop * RATE))
    coding = ["-c:v", "libx264", "-preset", "superfast", "-bf", "0", "-g", every]
    coding += ["-keyint_min", every, "-sc_threshold", "0", "-c:a", "aac"]
    seconds = PICTURES / RATE
    return source_of(numbered(path, *coding, seconds=seconds, size=(240, 136), rate=str(RATE)))


def time(source: Source, number: int) -> int:
    return source.pictures[number].pts


def cut_to(run: LiveRun, source: Source, number: int) -> None:
    """Show a source from that picture on, with what leads up to it."""
    run.begin(tracks_of(source), splice=True, show_from=time(source, number))
    keys = [each.dts for each in source.pictures if each.key and each.pts <= time(source, number)]
    send(run, source, start=keys[-1])


def shown(root: Path) -> list[int]:
    return [number for file in files(root, RUNG) for _, number in numbers(file)]


def whole(root: Path) -> tuple[tuple[PlaylistSegment, ...], list[str | None]]:
    """Return the segments and their init sections, of a run that shows each picture once.

    There is no discontinuity.
    """
    assert shown(root) == list(range(PICTURES))
    segments = playlist(root).segments
    assert not any(each.discontinuity for each in segments)
    return segments, [uri for uri, _ in groupby(segments, lambda each: each.map_uri)]


def top_rung_is_encoded(events: list[StreamEvent]) -> bool:
    return any(isinstance(each, TopRungEncodedEvent) for each in events)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine packets would be too old to be shown when the engine has started."""
    monkeypatch.setattr(backlog, "QUEUE_SECONDS", 60.0)


async def test_keyframes_far_apart_cost_no_picture_and_no_discontinuity_at_a_switch(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("films")
    before, after = film(folder, 9.0), film(folder, 8.3)
    events: list[StreamEvent] = []
    with DiskObjects(tmp_path) as objects:
        async with running(objects, lambda _, event: events.append(event)) as run:
            run.begin(tracks_of(before))
            send(run, before, end=time(before, 170))
            await until(lambda: top_rung_is_encoded(events), within=15)
            cut_to(run, after, 170)
            run.finish()
            run.end()
    _, maps = whole(tmp_path)
    assert len(maps) == 2, "the encoder takes over, and the other's keyframe is late"


async def test_keyframes_that_are_regular_again_cost_no_picture_and_no_discontinuity(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("films") / "regular.flv"
    keys = ",".join(str(each / 2) for each in (0, *range(9, 2 * PICTURES // RATE)))
    coding = ["-c:v", "libx264", "-preset", "superfast", "-g", "999", "-sc_threshold", "0"]
    coding += ["-force_key_frames", keys, "-c:a", "aac"]
    film = source_of(numbered(path, *coding, seconds=PICTURES / RATE, size=(240, 136), rate="30"))
    events: list[StreamEvent] = []
    with DiskObjects(tmp_path) as objects:
        async with running(objects, lambda _, event: events.append(event)) as run:
            run.begin(tracks_of(film))
            send(run, film, end=4_500)
            await until(lambda: top_rung_is_encoded(events), within=15)
            send(run, film, start=4_500)
            run.finish()
            run.end()
    segments, maps = whole(tmp_path)
    assert len(maps) == 3, "the source's own packets, the encoder's, and the source's again"
    assert [round(each.duration / VIDEO_SCALE, 1) for each in segments] == [3.9, 2.0, 0.6, 2.0, 1.0]


async def test_keyframes_at_other_places_cost_no_picture_in_the_top_rung_either(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Its own packets make it, up to the cut and from the next keyframe on."""
    folder = tmp_path_factory.mktemp("films")
    before, after = film(folder, 2.1), film(folder, 2.0)
    with DiskObjects(tmp_path) as objects:
        async with running(objects) as run:
            run.begin(tracks_of(before))
            send(run, before, end=time(before, 170))
            cut_to(run, after, 170)
            run.finish()
            run.end()
    segments, maps = whole(tmp_path)
    (folder,) = (tmp_path / "live" / STREAM).glob(f"*/{RUNG}")
    first = segments[0].map_uri
    assert first is not None
    joined = [(folder / uri).read_bytes() for uri in (first, *(each.uri for each in segments))]
    assert [number for _, number in numbers(b"".join(joined))] == list(range(PICTURES)), (
        "players with FFmpeg keep the first init section"
    )
    assert len(maps) == len(set(maps)) == 3
    lengths = [round(each.duration / VIDEO_SCALE, 1) for each in segments]
    assert lengths[:5] == [2.1, 2.1, 1.5, 0.3, 2.0], "the bridge lasts up to picture 180"
