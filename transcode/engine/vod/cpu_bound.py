"""How much processor time an engine may use for an uploaded file, by what the file declares.

Without a bound a hostile file could keep a core busy for ever while its engine reports progress.
The bound follows from what the survey counted: pictures and their pixels, decoded and encoded. A
length is believed as far as there are packets or bytes for it. Pure; times are in seconds of CPU.
"""

from collections.abc import Iterable
from typing import Final

from media.ladder import Rendition

_FLOOR: Final = 300.0  # starting, opening, and what short files cost
# Seconds per picture and megapixel. 1080p takes 0.009 s (`bench.vod`, two slow cores); the rest is
# for slower machines, costly codecs and tone mapping.
_PER_MEGAPIXEL: Final = 0.16
_PER_SOUND_SECOND: Final = 0.25  # decoding and encoding take 0.012 s
# Reading 100 MB of MPEG-TS takes 0.5 s.
_BYTES_PER_CPU_SECOND: Final = 1_000_000
# What is decoded may be larger than the header says: video calls begin small and grow.
_LEAST_PIXELS: Final = 1280 * 720
# Frames a second: pictures that are shown for long are repeated, and cameras for slow motion take
# many.
_LEAST_RATE: Final = 30
_MOST_RATE: Final = 240
# What makes a length credible: a picture at least every 20 s, or sound of 16 kbit/s.
_LONGEST_PICTURE: Final = 20.0
_SOUND_BYTES: Final = 2000
_SEGMENT_SECONDS: Final = 2  # of silence, while a picture may stand for hours


def survey_seconds(file_bytes: int) -> float:
    """Return the seconds of CPU that reading all packets of a file may take."""
    return _FLOOR + file_bytes / _BYTES_PER_CPU_SECOND


def cpu_seconds(
    *,
    file_bytes: int,
    seconds: float | None = None,
    packets: int = 0,
    segments: int = 0,
    size: tuple[int, int] = (0, 0),
    rungs: Iterable[Rendition] = (),
) -> float:
    """Return the seconds of CPU for decoding `seconds` of a file and encoding them as `rungs`.

    `packets` are those of its picture, of `size`; 0 if it has none. In each of `segments` a picture
    that stands is shown once more. `seconds` is None if the length is not known.
    """
    credible = max(packets * _LONGEST_PICTURE, file_bytes / _SOUND_BYTES)
    declared = credible if seconds is None else min(seconds, credible)
    pictures = max(declared * _LEAST_RATE, min(packets, declared * _MOST_RATE)) if packets else 0
    pictures += segments
    decoded = max(size[0] * size[1], _LEAST_PIXELS)
    megapixels = (decoded + sum(rung.width * rung.height for rung in rungs)) / 1e6
    return (
        survey_seconds(file_bytes)
        + pictures * megapixels * _PER_MEGAPIXEL
        + (declared + _SEGMENT_SECONDS * segments) * _PER_SOUND_SECOND
    )
