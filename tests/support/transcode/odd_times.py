"""Files of the corpus with odd times: different track lengths, few keyframes, links."""

from pathlib import Path
from typing import Final

from tests.support.engine.sources import ffmpeg
from tests.support.transcode.corpus_bytes import (
    changed,
    element,
    elements,
    inserted,
    later_fragments,
    moved_block,
    moved_cluster,
    without_keyframes,
)
from tests.support.transcode.corpus_clips import AAC, X264, Maker, alone, clip, remuxed
from tests.support.transcode.corpus_items import MPEG2, PLAIN, Item

_TINY: Final = (160, 90)
_INFO: Final = 0x1549A966
# One keyframe, and B-frames: a decoder returns the keyframe after the following pictures.
_ONE_KEY: Final = (
    *("-c:v", "libx264", "-preset", "veryfast", "-g", "9999", "-keyint_min", "9999"),
    *("-sc_threshold", "0", *AAC),
)
_FRAGMENTED: Final = ("-movflags", "frag_keyframe+empty_moov+default_base_moof")
_VFR: Final = ("-vsync", "vfr")
_STANDS: Final = "select='lt(t,2)+gte(t,42.6)'"
_BEFORE: Final = ("-output_ts_offset", "-1.5", "-avoid_negative_ts", "disabled")
_LIVE: Final = clip(*PLAIN, "-live", "1", size=_TINY)


def _uid(number: int) -> bytes:
    return bytes((number,)) * 16


def _linked(mkv: bytes) -> bytes:
    """Return a Matroska file with links to the previous and the next file (RFC 9559, 17)."""
    links = (
        (0x73A4, _uid(1)),
        (0x3CB923, _uid(2)),
        (0x3C83AB, b"before.mkv"),
        (0x3EB923, _uid(3)),
        (0x3E83BB, b"after.mkv"),
    )
    return inserted(mkv, _INFO, b"".join(element(*link) for link in links))


def _ordered(mkv: bytes) -> bytes:
    """Return a Matroska file with ordered chapters, one of them in another file."""

    def chapter(number: int, begin: int, end: int, segment: int | None) -> bytes:
        times = ((0x91, begin), (0x92, end))
        parts = [element(key, (10**9 * time).to_bytes(8, "big")) for key, time in times]
        parts += [] if segment is None else [element(0x6E67, _uid(segment))]
        return element(0xB6, element(0x73C4, bytes((number,))) + b"".join(parts))

    chapters = chapter(1, 0, 1, None) + chapter(2, 0, 4, 9) + chapter(3, 1, 3, None)
    edition = element(0x45B9, element(0x45DD, b"\1") + element(0x45DB, b"\1") + chapters)
    info = next(each for each in elements(mkv) if each.id == _INFO)
    return mkv[: info.end] + element(0x1043A770, edition) + mkv[info.end :]


def _cut_before_its_keyframe(path: Path) -> None:
    """Make an MP4 whose edit list omits its only keyframe."""
    whole = path.with_name("whole.mp4")
    clip(*_ONE_KEY, size=_TINY, seconds=4)(whole)
    ffmpeg("-ss", "0.7", "-i", whole, "-c", "copy", "-y", path)


_JOINED: Final = "The times in the file leap: what lies before and after was joined."
_STRAYS: Final = "Some times in the file are damaged: the pictures there were left out."
# A cluster about every 0.25 s.
_CLUSTERS: Final = clip(*PLAIN, "-cluster_time_limit", "400", size=_TINY)


def _stray_cluster(mkv: bytes) -> bytes:
    """Move a cluster between 1.05 and 1.3 s, which has neither a flash nor a beep."""
    return moved_cluster(mkv, 4, 18_000)


def _stray_picture(mkv: bytes) -> bytes:
    return moved_block(mkv, 1, 45, 18_000)


def _stray_sound(mkv: bytes) -> bytes:
    return moved_block(mkv, 2, 80, 18_000)


def _twice(film: bytes) -> bytes:
    return film + film


def _in_turn(*makers: Maker) -> Maker:
    """Return a maker of films put together byte by byte."""

    def make(path: Path) -> None:
        whole = b""
        for number, maker in enumerate(makers):
            part = path.with_stem(f"part-{number}")
            maker(part)
            whole += part.read_bytes()
        path.write_bytes(whole)

    return make


def _no_sound_in_it(path: Path) -> None:
    """Make an MP4 with an empty audio track."""
    whole = path.with_name("whole.mp4")
    clip(*PLAIN, size=_TINY)(whole)
    ffmpeg("-i", whole, "-c:v", "copy", "-af", "atrim=end_sample=0", *AAC, "-y", path)


def _fragments(begins: int) -> Maker:
    """Return a maker of fragments of MP4 whose times begin at `begins` seconds."""
    return changed(clip(*PLAIN, *_FRAGMENTED, size=_TINY), lambda mp4: later_fragments(mp4, begins))


def _longer_track(path: Path) -> None:
    """Make an MP4 with a second track of sound that is three times as long."""
    whole, longer = path.with_name("whole.mp4"), path.with_name("longer.m4a")
    clip(*PLAIN, size=_TINY)(whole)
    alone(*AAC, seconds=9)(longer)
    ffmpeg("-i", whole, "-i", longer, "-map", "0", "-map", "1", "-c", "copy", "-y", path)


def _before_zero(ending: str) -> Maker:
    return remuxed(clip(*_ONE_KEY, size=_TINY), ending, *_BEFORE)


ODD_TIMES: Final = (
    Item(
        "sound-longer-mpeg4.mkv",
        "sound that is a second longer than a picture in MPEG-4",
        clip("-c:v", "mpeg4", "-bf", "2", *AAC, size=_TINY, heard=4),
        size=_TINY,
        seconds=4,
        kept=True,
        beeps=4,
    ),
    Item(
        "sound-much-longer.mp4",
        "sound that is six seconds longer than the picture",
        clip(*PLAIN, size=_TINY, heard=9),
        size=_TINY,
        seconds=9,
        kept=True,
        beeps=9,
    ),
    Item(
        "slides-15.mp4",
        "slides of 15 s, silent",
        clip(*PLAIN, size=_TINY, seconds=45, rate="1/15", sound=None),
        size=_TINY,
        seconds=45,
        sound=False,
        flashes=0,
        beeps=0,
    ),
    Item(
        "slides-30.mkv",
        "slides of 30 s, with music",
        clip(*PLAIN, size=_TINY, seconds=60, rate="1/30"),
        size=_TINY,
        seconds=60,
        kept=True,
        flashes=0,
        beeps=60,
    ),
    Item(
        "slides-3.mp4",
        "slides of 3 s, a keyframe each",
        clip(*X264, "-g", "1", size=_TINY, seconds=12, rate="1/3", sound=None),
        size=_TINY,
        seconds=12,
        own=True,
        sound=False,
        flashes=0,
        beeps=0,
    ),
    Item(
        "screen-still.mov",
        "a screen on which nothing moves for 40 s: no picture is written meanwhile",
        clip(*PLAIN, *_VFR, size=_TINY, seconds=43, filters=_STANDS),
        size=_TINY,
        seconds=43,
        kept=True,
        flashes=2,
        beeps=43,
    ),
    Item(
        "screen-still.mkv",
        "the same, MKV, silent",
        clip(*PLAIN, *_VFR, size=_TINY, seconds=43, sound=None, filters=_STANDS),
        size=_TINY,
        seconds=43,
        sound=False,
        flashes=2,
        beeps=0,
    ),
    Item(
        "screen-still.ts",
        "the same, MPEG-TS, whose clock may begin anew anywhere",
        clip(*PLAIN, "-bf", "0", *_VFR, size=_TINY, seconds=43, sound=None, filters=_STANDS),
        size=_TINY,
        seconds=2.4,
        sound=False,
        flashes=2,
        beeps=0,
        warning=_JOINED,
    ),
    Item(
        "first-picture.mp4",
        "a first picture of 14 s",
        clip(*PLAIN, *_VFR, size=_TINY, seconds=15, filters="select='eq(n,0)+gte(t,14.6)'"),
        size=_TINY,
        seconds=15,
        kept=True,
        flashes=0,
        beeps=15,
    ),
    Item(
        "hours.mp4",
        "fragments whose times begin at 11 h",
        _fragments(40_000),
        size=_TINY,
        own=True,
    ),
    Item(
        "epoch.mp4",
        "fragments whose times count from 1970",
        _fragments(1_764_360_000),
        size=_TINY,
        own=True,
    ),
    Item(
        "longer-track.mp4",
        "a second track of sound that is longer",
        _longer_track,
        size=_TINY,
        own=True,
        kept=True,
    ),
    Item(
        "rate-falls.mp4",
        "a frame rate that falls from 60 to 10 and to 5",
        clip(
            *(*PLAIN, "-vsync", "vfr"),
            size=_TINY,
            rate="60",
            filters="select='if(lt(t,1),1,if(lt(t,2),not(mod(n-3,6)),not(mod(n-3,12))))'",
        ),
        size=_TINY,
        own=True,
        kept=True,
    ),
    Item(
        "one-keyframe.mp4",
        "one keyframe in 12 s",
        clip(*_ONE_KEY, size=_TINY, seconds=12, rate="30"),
        size=_TINY,
        seconds=12,
        kept=True,
        flashes=12,
        beeps=12,
    ),
    Item(
        "one-keyframe.ts",
        "the same, MPEG-TS",
        clip(*_ONE_KEY, size=_TINY, seconds=12, rate="30"),
        size=_TINY,
        seconds=12,
        flashes=12,
        beeps=12,
    ),
    Item(
        "keyframe-left-out.mp4",
        "an edit list that leaves out the only keyframe",
        _cut_before_its_keyframe,
        size=_TINY,
        seconds=3.3,
        first=0.7,
        kept=True,
    ),
    Item(
        "before-zero.ts",
        "MPEG-TS whose times begin below zero",
        _before_zero("ts"),
        size=_TINY,
    ),
    Item(
        "before-zero.mkv",
        "MKV without sound whose times begin below zero, which Matroska cannot hold",
        remuxed(clip(*PLAIN, "-bf", "0", size=_TINY, sound=None), "mkv", *_BEFORE),
        size=_TINY,
        sound=False,
        beeps=0,
    ),
    Item(
        "late-start.mkv",
        "MKV whose times begin after two days",
        remuxed(clip(*PLAIN, size=_TINY), "mkv", "-output_ts_offset", "200000"),
        size=_TINY,
        own=True,
        kept=True,
    ),
    Item(
        "stray-cluster.mkv",
        "MKV, a cluster of which claims to be 18 s later",
        changed(_CLUSTERS, _stray_cluster),
        size=_TINY,
        warning=_STRAYS,
    ),
    Item(
        "stray-picture.mkv",
        "MKV, a picture of which claims to be 18 s later",
        changed(_CLUSTERS, _stray_picture),
        size=_TINY,
        kept=True,
        warning=_STRAYS,
    ),
    Item(
        "stray-sound.mkv",
        "MKV, a packet of sound of which claims to be 18 s later",
        changed(_CLUSTERS, _stray_sound),
        size=_TINY,
        own=True,
    ),
    Item(
        "twice.ts",
        "MPEG-TS, two recordings in one file, the clock of the second begins again",
        changed(clip(*PLAIN, size=_TINY), _twice),
        size=_TINY,
        seconds=6.1,
        flashes=6,
        beeps=6,
        warning=_JOINED,
    ),
    Item(
        "twice.mpg",
        "the same, MPEG-PS",
        changed(clip(*MPEG2, "-c:a", "mp2", size=_TINY), _twice),
        size=_TINY,
        seconds=6.1,
        flashes=6,
        beeps=6,
        warning=_JOINED,
    ),
    Item(
        "slides-then-film.ts",
        "the same, MPEG-TS, slides of 15 s with music and then a film",
        _in_turn(
            clip(*PLAIN, size=_TINY, seconds=30, rate="1/15"),
            clip(*PLAIN, size=_TINY),
        ),
        size=_TINY,
        seconds=33,
        first=30.4,
        heard=0.4,
        beeps=33,
        warning=_JOINED,
    ),
    Item(
        "silent-then-sound.ts",
        "the same, a part without sound first",
        _in_turn(clip(*X264, size=_TINY, sound=None), clip(*PLAIN, size=_TINY)),
        size=_TINY,
        seconds=6,
        heard=3.4,
        flashes=6,
        warning=_JOINED,
    ),
    Item(
        "twice.flv",
        "FLV, two files in one",
        changed(clip(*PLAIN, size=_TINY), _twice),
        size=_TINY,
        own=True,
        kept=True,
        warning="The file is several FLV files in one: all or much of what follows the first was"
        " left out.",
    ),
    Item(
        "twice-fragmented.mp4",
        "the same, fragments of MP4",
        changed(clip(*PLAIN, *_FRAGMENTED, size=_TINY), _twice),
        size=_TINY,
        seconds=6.1,
        flashes=6,
        beeps=6,
        warning=_JOINED,
    ),
    Item(
        "twice.mp4",
        "two whole films of MP4 in one file",
        changed(clip(*PLAIN, size=_TINY), _twice),
        size=_TINY,
        own=True,
        kept=True,
        warning="The file is several, one after the other: only the first was used.",
    ),
    Item(
        "no-keyframes.mkv",
        "MKV that flags no keyframe",
        changed(clip("-c:v", "mpeg4", *AAC, size=_TINY), without_keyframes),
        size=_TINY,
        kept=True,
    ),
    Item(
        "empty-sound.mp4",
        "a track of sound that is empty",
        _no_sound_in_it,
        size=_TINY,
        own=True,
        sound=False,
        beeps=0,
    ),
    Item(
        "linked.mkv",
        "MKV that names the files before and after it",
        changed(_LIVE, _linked),
        size=_TINY,
        own=True,
        kept=True,
    ),
    Item(
        "ordered-chapters.mkv",
        "MKV with ordered chapters, one of them in another file",
        changed(_LIVE, _ordered),
        size=_TINY,
        own=True,
        kept=True,
    ),
)
