"""Pieces put together: one playlist that names all of them, or a reason why there is none."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from media.hls.m3u8 import parse, render
from media.hls.playlist import MediaPlaylist
from media.ladder import Rendition
from storage.catalog.records.transcoding import MadeSubtitles
from storage.objects.base import ObjectMissing
from storage.objects.disk import DiskObjects
from transcode.vod.playlists import store_playlists, vod_playlists, write_playlists
from transcode.vod.rendition_store import MadePiece, MadeRendition, MadeSegment, OutOfStep

SECOND = 90_000
RUNG = Rendition(name="360p", width=640, height=360, rate=800_000)
HASH = "Ab3dEf6hIj9l"


def made(
    name: str, first: int, lengths: Sequence[float], *, digest: str = "same", size: int = 100_000
) -> MadeRendition:
    segments = tuple(
        MadeSegment(first + index, size, round(seconds * SECOND), 50)
        for index, seconds in enumerate(lengths)
    )
    codecs = "mp4a.40.2" if name == "audio" else "avc1.64001E"
    return MadeRendition(
        name=name,
        codecs=codecs,
        size=size * len(lengths),
        inits={0: digest},
        segments=segments,
    )


def piece(folder: str, *renditions: MadeRendition) -> MadePiece:
    return MadePiece(folder=folder, renditions=renditions)


SOUND = piece("1-1", made("audio", 0, [2, 2, 2, 0.6], size=32_000))
FIRST, SECOND_HALF = (
    piece("1-s1-1-1", made("360p", 0, [2, 2])),
    piece("1-s1-2-4", made("360p", 2, [2, 0.6])),
)


def test_stretches_follow_each_other_under_one_init_section() -> None:
    playlists = vod_playlists("1-3", (RUNG,), [SOUND, SECOND_HALF, FIRST])
    playlist = playlists.media["360p"]
    assert [each.uri for each in playlist.segments] == [
        "../../1-s1-1-1/360p/0.m4s",
        "../../1-s1-1-1/360p/1.m4s",
        "../../1-s1-2-4/360p/2.m4s",
        "../../1-s1-2-4/360p/3.m4s",
    ]
    assert {each.map_uri for each in playlist.segments} == {"../../1-s1-1-1/360p/init-0.mp4"}
    assert (playlists.discontinuities, playlists.length) == (frozenset(), round(6.6 * SECOND))
    assert "DISCONTINUITY" not in render(playlist)
    assert playlists.sizes == {"360p": 400_000, "audio": 128_000}


def test_files_in_the_same_folder_are_named_without_it() -> None:
    playlists = vod_playlists("1-1", (), [SOUND])
    assert playlists.media["audio"].segments[0].uri == "0.m4s"
    assert playlists.media["audio"].segments[0].map_uri == "init-0.mp4"


def test_another_init_section_makes_a_seam_in_all_renditions() -> None:
    other = piece("1-s1-2-1", made("360p", 2, [2, 0.6], digest="another"))
    playlists = vod_playlists("1-3", (RUNG,), [SOUND, FIRST, other])
    assert playlists.discontinuities == {2}
    for playlist in playlists.media.values():
        assert [each.discontinuity for each in playlist.segments] == [False, False, True, False]
    assert playlists.media["360p"].segments[3].map_uri == "../../1-s1-2-1/360p/init-0.mp4"


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([SOUND, FIRST], id="a stretch is missing"),
        pytest.param([SOUND], id="a rendition is missing"),
        pytest.param([FIRST, SECOND_HALF], id="the sound is missing"),
        pytest.param([SOUND, FIRST, FIRST, SECOND_HALF], id="a stretch twice"),
    ],
)
def test_pieces_that_do_not_fit_together_are_refused(pieces: list[MadePiece]) -> None:
    with pytest.raises(OutOfStep):
        vod_playlists("1-3", (RUNG,), pieces)


def test_a_video_without_sound_has_no_audio_rendition() -> None:
    playlists = vod_playlists("1-3", (RUNG,), [FIRST, SECOND_HALF], audible=False)
    text = render(playlists.multivariant)
    assert list(playlists.media) == ["360p"]
    assert "AUDIO" not in text
    assert 'CODECS="avc1.64001E"' in text


def test_the_bandwidth_is_the_peak_by_the_playlists_own_target_duration() -> None:
    """RFC 8216, 4.1: sets of 0.5 to 1.5 target durations, of 1 to 3 s here."""
    picture, sound = made("360p", 0, [2, 1, 2]), made("audio", 0, [2, 1, 2], size=1_000)
    playlists = vod_playlists("1-1", (RUNG,), [piece("1-1", picture, sound)])
    (variant,) = playlists.multivariant.variants
    assert playlists.media["360p"].target == 2
    assert variant.bandwidth == 8 * 101_000  # of the middle segment alone


def test_the_frame_rate_is_that_of_the_fastest_segments() -> None:
    """A held picture at the end or missing pictures do not change the rate."""
    segments = (
        MadeSegment(0, 1_000, 2 * SECOND, 50),
        MadeSegment(1, 1_000, 2 * SECOND, 20),
        MadeSegment(2, 1_000, SECOND // 10, 9),
    )
    picture = msgspec.structs.replace(made("360p", 0, [2]), segments=segments)
    playlists = vod_playlists("1-1", (RUNG,), [piece("1-1", picture)], audible=False)
    assert playlists.multivariant.variants[0].frame_rate == 25_000


def test_subtitles_count_towards_the_bit_rates() -> None:
    plain = vod_playlists("1-3", (RUNG,), [SOUND, FIRST, SECOND_HALF]).multivariant.variants[0]
    playlists = vod_playlists("1-3", (RUNG,), [SOUND, FIRST, SECOND_HALF], subtitles=WORDS)
    more = playlists.multivariant.variants[0].bandwidth - plain.bandwidth
    assert 8 * 100 / 6.6 <= more < 8 * 100 / 6.6 + 1


def test_sound_of_one_channel_is_announced_so() -> None:
    playlists = vod_playlists("1-3", (RUNG,), [SOUND, FIRST, SECOND_HALF], channels=1)
    assert 'CHANNELS="1"' in render(playlists.multivariant)


async def test_playlists_are_written_and_the_one_that_names_them_last(tmp_path: Path) -> None:
    playlists = vod_playlists("1-3", (RUNG,), [SOUND, FIRST, SECOND_HALF])
    with DiskObjects(tmp_path) as objects:
        sizes = await store_playlists(objects, HASH, "1-3", playlists)
        text = (await objects.get(f"videos/{HASH}/1-3/360p/index.m3u8")).decode()
        playlist = parse(text)
        assert isinstance(playlist, MediaPlaylist)
        assert (playlist.target, playlist.ended, playlist.whole) == (2, True, True)
        variants = (await objects.get(f"videos/{HASH}/1-3/index.m3u8")).decode()
        assert "1-3/360p/index.m3u8" in variants
        assert 'URI="1-3/audio/index.m3u8"' in variants
        assert sizes == {
            "360p": len(text),
            "audio": len(await objects.get(f"videos/{HASH}/1-3/audio/index.m3u8")),
            "": len(variants),
        }
        with pytest.raises(ObjectMissing):
            await objects.get(f"videos/{HASH}/1-1/index.m3u8")


WORDS = tuple(
    MadeSubtitles(folder="1-1", rendition=f"words{number}", title=title, language=language,
                  forced=False, size=100)
    for number, title, language in ((1, "Deutsch", "de"), (2, "Subtitles", ""))
)  # fmt: skip


def test_subtitles_of_before_they_were_cut_are_one_segment_as_long_as_the_film() -> None:
    playlists = vod_playlists("1-3", (RUNG,), [SOUND, FIRST, SECOND_HALF], subtitles=WORDS)
    playlist = playlists.media["words1"]
    (segment,) = playlist.segments
    assert (segment.uri, segment.duration) == ("../../1-1/words1/0.vtt", playlists.length)
    assert (playlist.target, playlist.whole, segment.map_uri) == (7, True, None)
    variants = playlists.multivariant
    assert [each.uri for each in variants.subtitles] == [
        "1-3/words1/index.m3u8",
        "1-3/words2/index.m3u8",
    ]
    assert {each.subtitles for each in variants.variants} == {"subtitles"}
    assert {each.group for each in variants.subtitles} == {"subtitles"}


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        pytest.param(3, [3.0, 3.0, 1.0], id="as long as the video"),
        pytest.param(1, [7.0], id="of a video that seemed shorter"),
        pytest.param(5, [3.0, 3.0, 1.0], id="of a video that seemed longer"),
    ],
)
def test_segments_of_subtitles_are_as_long_as_the_film_together(
    segments: int, expected: list[float]
) -> None:
    words = msgspec.structs.replace(WORDS[0], segments=segments, segment_ms=3_000, peak=5_000)
    playlists = vod_playlists("1-1", (RUNG,), [SOUND, FIRST, SECOND_HALF], subtitles=(words,))
    listed = playlists.media["words1"].segments
    assert [each.uri for each in listed] == [f"{n}.vtt" for n in range(1, len(expected) + 1)]
    assert sum(each.duration for each in listed) == playlists.length
    assert [each.duration / 90_000 for each in listed] == pytest.approx(expected, abs=0.6)
    plain = vod_playlists("1-1", (RUNG,), [SOUND, FIRST, SECOND_HALF])
    (variant,), (mute,) = playlists.multivariant.variants, plain.multivariant.variants
    assert variant.bandwidth == mute.bandwidth + 5_000


def test_subtitles_in_the_same_folder_are_named_without_it() -> None:
    playlists = vod_playlists("1-1", (RUNG,), [SOUND, FIRST, SECOND_HALF], subtitles=WORDS)
    assert playlists.media["words2"].segments[0].uri == "0.vtt"


def test_sound_alone_has_no_subtitles() -> None:
    playlists = vod_playlists("1-1", (), [SOUND], subtitles=WORDS)
    assert set(playlists.media) == {"audio"}
    assert playlists.multivariant.subtitles == ()
    assert playlists.multivariant.variants[0].subtitles is None


async def test_the_event_loop_is_not_blocked_while_the_playlists_of_a_long_video_are_written(
    tmp_path: Path,
) -> None:
    """Twelve hours in four sizes: the loop may be blocked for less than a fifth of the work."""
    rungs = tuple(
        Rendition(name=f"{height}p", width=2 * height, height=height, rate=800_000)
        for height in (1080, 720, 480, 360)
    )
    names = (*(rung.name for rung in rungs), "audio")
    long = piece("1-1", *(made(name, 0, [2.0] * 21_600) for name in names))
    # In CPU time of the thread, which other processes of a busy machine do not lengthen.
    began = time.thread_time()
    vod_playlists("1-1", rungs, (long,))
    elapsed = time.thread_time() - began
    gaps: list[float] = []

    async def measure_gaps() -> None:
        before = time.thread_time()
        while True:
            await asyncio.sleep(0.001)
            now = time.thread_time()
            gaps.append(now - before)
            before = now

    with DiskObjects(tmp_path) as objects:
        async with asyncio.TaskGroup() as tasks:
            measuring = tasks.create_task(measure_gaps())
            await asyncio.sleep(0)
            written = write_playlists(
                objects, HASH, "1-1", rungs, (long,), audible=True, channels=2
            )
            _, sizes = await written
            measuring.cancel()
    assert sizes["1080p"] > 500_000
    assert max(gaps) < elapsed / 5
