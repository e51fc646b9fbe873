"""Recordings: real segments of a real engine, in a catalog and on a disk."""

from pathlib import Path

from media.hls.m3u8 import render
from media.hls.playlist import MediaPlaylist, MultivariantPlaylist, PlaylistSegment, Variant
from media.ladder import Ladder, Rendition
from storage.catalog.records.common import Change
from storage.catalog.records.videos import WholeVideo
from storage.catalog.videos.recordings import MadeRecording, RecordedRung
from tests.support.engine.engine_process import ORIGIN, EngineOutput, begin, orders, run
from tests.support.engine.sources import ffmpeg, source_of
from tests.support.transcode.transcode_fixture import VodFixture, now_us
from transcode.protocol.messages import EngineOrder

MEDIA = "1-1"
RUNG = "240p"
STEP = 2  # seconds of each segment, and of each shade of `staircase`
_LADDER = Ladder((Rendition(name=RUNG, width=320, height=180, rate=300_000),))


def staircase(path: Path, *, steps: int, first: int = 0, rate: int = 25) -> Path:
    """Make an FLV whose brightness increases by 20 with each segment."""
    picture = (
        f"color=black:s=320x180:r={rate}:d={STEP * steps},"
        f"geq=lum='30+20*({first}+floor(T/{STEP}))':cb=128:cr=128"
    )
    coding = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-bf", "2")
    gop = str(rate * STEP)
    ffmpeg(
        *("-f", "lavfi", "-i", picture, *coding, "-g", gop, "-keyint_min", gop),
        *("-sc_threshold", "0", "-threads", "1", "-f", "flv", "-y", path),
    )
    return path


def record(folder: Path, *epochs: int) -> EngineOutput:
    """Run an engine; each epoch has so many steps, and its own init section."""
    batches: list[list[EngineOrder]] = []
    so_far = 0
    for number, steps in enumerate(epochs):
        source = source_of(
            staircase(folder / f"{number}.flv", steps=steps, first=so_far, rate=25 + 5 * number)
        )
        order = begin(
            source,
            ladder=_LADDER,
            epoch=number,
            start=ORIGIN + so_far * STEP * 90_000,
            sequence=so_far,
            discontinuity=number > 0,
            reuse=False,
        )
        batches.append(orders(source, order))
        so_far += steps
    return run(*batches)


async def add_recording(
    vod: VodFixture,
    made: EngineOutput | None,
    *,
    gaps: frozenset[int],
    posters: str | None = "poster-1-1",
) -> WholeVideo:
    """Add a recording of an engine's output; without it, an audio-only one.

    Segments in `gaps` are gaps of its playlist; `posters` is the folder of its poster, if any.
    """
    catalog, objects = vod.catalog, vod.objects
    now = now_us()
    stream = (await catalog.streams.add(1, "Morning", Change(now))).key.hash
    row = await catalog.recordings.begin(stream, "20260131T120000123", 30, now)
    assert row is not None
    folder = f"videos/{row.hash}/{MEDIA}"
    variants: tuple[Variant, ...] = ()
    length_us = 10_000_000
    rungs: tuple[RecordedRung, ...] = ()
    if made is not None:
        for init in made.inits(RUNG):
            await objects.put(f"{folder}/{RUNG}/init-{init.number}.mp4", init.data)
        listed: list[PlaylistSegment] = []
        for each in made.segments(RUNG):
            gap = each.sequence in gaps
            if not gap:
                await objects.put(f"{folder}/{RUNG}/{each.sequence}.m4s", made.data(each))
            listed.append(
                PlaylistSegment(
                    uri=f"{each.sequence}.m4s",
                    duration=each.duration,
                    map_uri=None if gap else f"init-{each.init}.mp4",
                    discontinuity=each.discontinuity,
                    gap=gap,
                )
            )
        playlist = MediaPlaylist(segments=tuple(listed), ended=True, whole=True)
        await objects.put(f"{folder}/{RUNG}/index.m3u8", render(playlist).encode())
        length_us = playlist.duration * 100 // 9
        uri = f"{MEDIA}/{RUNG}/index.m3u8"
        variants = (Variant(uri=uri, bandwidth=300_000, width=320, height=180),)
        rungs = (RecordedRung(number=7, width=320, height=180, size=1000),)
    index = render(MultivariantPlaylist(variants=variants)).encode()
    await objects.put(f"{folder}/index.m3u8", index)
    if posters is not None:
        await objects.put(f"videos/{row.hash}/{posters}/{RUNG}.jpg", b"the stream's")
    made_recording = MadeRecording(
        media=MEDIA,
        size=5000,
        length_us=length_us,
        width=320,
        height=180,
        rungs=rungs,
        posters=posters,
        poster_labels=(RUNG,) if posters else (),
    )
    video = await catalog.recordings.finish(row, made_recording, now, str.lower)
    assert video is not None
    return await vod.whole_video(video)
