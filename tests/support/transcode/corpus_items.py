"""The items of the corpus, and the encoder options that their files share."""

from typing import Final

import msgspec

from tests.support.transcode.corpus_clips import AAC, X264, Maker


class Item(msgspec.Struct, frozen=True):
    """A file and the expected result; `title` describes the file, `file` is its name.

    `size` is the top rung's, None for audio only. `own` and `kept` are True if the file's own video
    packets and audio packets are used. `first` is the time of the first flash and beep, in seconds
    (`heard` is the beep's if it differs); `flashes` is the least number of flashes (0: unchecked).
    `refused` and `warning` are parts of the sentences that the owner gets.
    """

    file: str
    title: str
    make: Maker
    size: tuple[int, int] | None = (320, 180)
    seconds: float = 3
    own: bool = False
    kept: bool = False
    sound: bool = True
    first: float = 0.4
    heard: float | None = None
    flashes: int = 3
    beeps: int = 3
    warning: str = ""
    refused: str = ""


def line_of(item: Item) -> str:
    """Return an item's line in the table of `docs/formats.md`."""
    if item.refused:
        return f"| {item.title} | `{item.file}` | refused: {item.refused} |"
    contents: list[str] = []
    if item.size is not None:
        contents.append(f"{item.size[0]}x{item.size[1]}{', its own packets' if item.own else ''}")
    if item.sound:
        contents.append("its own sound" if item.kept else "sound")
    outcome = "; ".join(contents) + (f". {item.warning}" if item.warning else "")
    return f"| {item.title} | `{item.file}` | {outcome} |"


FAST: Final = ("-deadline", "realtime", "-cpu-used", "8")
_HEVC: Final = ("-c:v", "libx265", "-preset", "ultrafast")
_QUIET: Final = "log-level=none:bframes=2"
MPEG2: Final = ("-c:v", "mpeg2video", "-bf", "2", "-q:v", "3")
PCM: Final = ("-c:a", "pcm_s16le")
OPUS: Final = ("-c:a", "libopus", "-ar", "48000")
PLAIN: Final = (*X264, "-bf", "2", *AAC)
INDEX_FIRST: Final = ("-movflags", "+faststart")


def x265(extra: str = "") -> tuple[str, ...]:
    return (*_HEVC, "-x265-params", f"{_QUIET}{extra}", *AAC)


def bright(transfer: str) -> tuple[str, ...]:
    tags = ("-color_primaries", "bt2020", "-color_trc", transfer, "-colorspace", "bt2020nc")
    return (*x265(), *tags, "-tag:v", "hvc1")


def interlaced(top: bool) -> str:
    return f"interlace=scan={'tff' if top else 'bff'}:lowpass=0"


MAPPED: Final = (
    "The picture is brighter (HDR) than every screen shows: it was mapped to the usual range."
)
DAMAGED: Final = "Some pictures are damaged and could not be decoded."
UNHEARD: Final = "Some of the sound is damaged and could not be decoded."
