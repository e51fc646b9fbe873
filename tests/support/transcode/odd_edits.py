"""Files of the corpus as editors and recorders leave them: configurations, palettes, edit lists."""

from pathlib import Path
from typing import Final

from tests.support.engine.edited_films import edited, joined_films
from tests.support.transcode.corpus_clips import AAC, X264, Maker, clip
from tests.support.transcode.corpus_items import MPEG2, PCM, PLAIN, Item, x265

_TINY: Final = (160, 90)
_MP3: Final = ("-c:a", "libmp3lame")
_PALETTE: Final = ("-c:v", "rawvideo", *PCM)
_BASELINE: Final = (*X264, "-profile:v", "baseline", "-bf", "0", *AAC)


def _joined(*makers: Maker) -> Maker:
    """Return a maker of a file in which a film follows another with its own configuration."""

    def make(path: Path) -> None:
        films = [path.with_name(f"part-{number}.mp4") for number in range(len(makers))]
        for maker, film in zip(makers, films, strict=True):
            maker(film)
        joined_films(path, *films)

    return make


def _edited(source: Maker, *edits: tuple[float, float | None]) -> Maker:
    """Return a maker of a film with an edit list."""

    def make(path: Path) -> None:
        whole = path.with_stem("whole")
        source(whole)
        edited(whole, *edits).rename(path)

    return make


# The flashes of both parts are a second apart, and so are those at the seam.
_PARTS: Final = ((1.52, 0.0), (1.48, 2.52))

ODD_EDITS: Final = (
    Item(
        "configurations.mp4",
        "two films in one track, each with its own configuration",
        _joined(clip(*PLAIN, size=_TINY), clip(*_BASELINE, size=_TINY)),
        size=_TINY,
        seconds=6,
        kept=True,
        flashes=6,
        beeps=6,
    ),
    Item(
        "configurations-hevc.mp4",
        "the same, HEVC",
        _joined(
            clip(*x265(), "-tag:v", "hvc1", *AAC, size=_TINY),
            clip(*x265(":keyint=25"), "-tag:v", "hvc1", *AAC, size=_TINY),
        ),
        size=_TINY,
        seconds=6,
        kept=True,
        flashes=6,
        beeps=6,
    ),
    Item(
        "configurations-mpeg4.mp4",
        "the same, MPEG-4",
        _joined(
            *(clip("-c:v", "mpeg4", "-g", str(gop), *AAC, size=_TINY) for gop in (25, 24)),
        ),
        size=_TINY,
        seconds=6,
        kept=True,
        flashes=6,
        beeps=6,
    ),
    Item(
        "size-changes.flv",
        "FLV whose picture changes from 160x90 to 320x180",
        _joined(clip(*PLAIN, size=_TINY), clip(*PLAIN)),
        size=_TINY,
        seconds=6,
        kept=True,
        flashes=6,
        beeps=6,
    ),
    Item(
        "aspect-changes.mp4",
        "pixels that are square, and then narrower",
        _joined(clip(*PLAIN, size=_TINY), clip(*PLAIN, size=_TINY, aspect="9/10")),
        size=_TINY,
        seconds=6,
        kept=True,
        flashes=6,
        beeps=6,
    ),
    Item(
        "rate-changes.flv",
        "FLV whose sound changes from 44.1 to 48 kHz",
        _joined(clip(*_BASELINE, size=_TINY), clip(*_BASELINE, size=_TINY, sound_rate=48_000)),
        size=_TINY,
        seconds=6,
        own=True,
        flashes=6,
        beeps=6,
    ),
    Item(
        "channels-7.mov",
        "PCM of seven channels, with positions of their own",
        clip(*X264, *PCM, size=_TINY, sound="6.1"),
        size=_TINY,
        own=True,
    ),
    Item(
        "palette.avi",
        "AVI with a palette of 256 colours",
        clip(*_PALETTE, size=_TINY, form="pal8"),
        size=_TINY,
    ),
    Item(
        "palette.mov",
        "MOV with a palette of 256 colours",
        clip(*_PALETTE, size=_TINY, form="pal8"),
        size=_TINY,
    ),
    Item(
        "animation-8-bit.mov",
        "QuickTime Animation, 8 bits",
        clip("-c:v", "qtrle", *PCM, size=_TINY, form="gray"),
        size=_TINY,
    ),
    Item(
        "b-frames.avi",
        "AVI, H.264 with B-frames, which AVI has no times for",
        clip(*X264, "-bf", "3", *_MP3, size=_TINY),
        size=_TINY,
    ),
    Item(
        "b-frames-packed.avi",
        "AVI, Xvid, two pictures packed into one",
        clip("-c:v", "libxvid", "-bf", "2", *_MP3, size=_TINY),
        size=_TINY,
        first=0.52,  # the encoder writes its delay of three pictures into the file
        heard=0.4,
    ),
    Item("b-frames-mpeg2.avi", "AVI, MPEG-2", clip(*MPEG2, *_MP3, size=_TINY), size=_TINY),
    Item(
        "parts.mp4",
        "an edit list of two parts, cut anywhere",
        _edited(clip(*PLAIN, size=_TINY, seconds=6), *_PARTS),
        size=_TINY,
    ),
    Item(
        "parts-hevc.mp4",
        "the same, HEVC",
        _edited(clip(*x265(":keyint=40"), *AAC, size=_TINY, seconds=6), *_PARTS),
        size=_TINY,
    ),
    Item(
        "waits.mp4",
        "an edit list that begins with a second of nothing",
        _edited(clip(*PLAIN, size=_TINY), (1, None), (2, 0)),
        size=_TINY,
        first=1.4,
        flashes=2,
        beeps=2,
    ),
)
