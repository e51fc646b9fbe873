"""What an engine of each kind may report; everything else is a fault that ends it.

A hostile file may control the engine that decodes it. What such an engine sends is decoded, and in
part kept, by the process that serves everyone, so its types, numbers and sizes are bounded here, in
one place for all callers. `transcode.protocol.report_reader` enforces it. Sizes are in bytes.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from media.hls.segment import EpochStart, GapStart, InitSection, Part, Segment, SegmentStart
from transcode.protocol.file_messages import MOST_SUBTITLES, Ready, SubtitleTrack, Surveyed
from transcode.protocol.messages import (
    MAX_FRAME,
    BytesRead,
    EngineReport,
    EpochFinished,
    Placed,
    Poster,
    Posters,
    Prepared,
    Previews,
    Probed,
    Progress,
    Refused,
    SoundMoved,
    Spliced,
    TakenOver,
    Trouble,
)
from transcode.protocol.watch_messages import Compared, Judged

_MIB: Final = 1 << 20
# The longest report by type. What is decoded of one takes up to eight times as much, if it is a
# list of small numbers.
_LONGEST: Final[Mapping[type[EngineReport], int]] = {
    # 10 MiB and one picture more (see `transcode.engine.output.segmenter`).
    Part: MAX_FRAME,
    # Real configurations of decoders are below 1 kB; lengths in them have 16 bits.
    InitSection: 1 << 16,
    # Noise in 3840 x 2160, the largest rung, is 8 MB; with all smaller rungs, 16 MB.
    Poster: 12 * _MIB,
    Posters: 24 * _MIB,
    # Four sheets of 1600 x 1600: 8 MB of noise.
    Previews: 12 * _MIB,
    # 2 Mi letters of four bytes at most, and 20 000 cues with 30 bytes around each.
    SubtitleTrack: 10 * _MIB,
    # A day is 1440 spans with 43 200 cuts, and the rungs of each span: 1.5 MB.
    Surveyed: 4 * _MIB,
}
# Facts and sentences: `Trouble` quotes 200 letters of a library, a name has some 10.
_LONGEST_OTHER: Final = 8 << 10

# Renditions have eight boxes and one sound. An epoch is announced once, and a file is one epoch.
_FEW: Final = 16
_FINAL: Final[Mapping[type[EngineReport], int | None]] = {Refused: 1}
_READING: Final[Mapping[type[EngineReport], int | None]] = {
    BytesRead: None,
    Trouble: None,
}
# None: bounded by `report_reader.OpenSegments`, because media are stored as they come.
_MEDIA: Final[Mapping[type[EngineReport], int | None]] = {
    InitSection: None,
    SegmentStart: None,
    Part: None,
    Segment: None,
}
_CONVERTING: Final[Mapping[type[EngineReport], int | None]] = {
    **_FINAL,
    **_READING,
    **_MEDIA,
    Prepared: _FEW,
    Progress: None,
    EpochFinished: _FEW,
    TakenOver: _FEW,
    SoundMoved: None,
    Placed: None,
}


class ReportBounds(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of one kind of engine.

    `most` is how many reports of each type it sends in its life, None if that has no bound; it
    sends no others. `kept` bounds the size of all its reports, for a kind whose caller keeps them.
    A `live` engine works for months, so its media are bounded by their rate as well.
    """

    most: Mapping[type[EngineReport], int | None]
    kept: int | None = None
    live: bool = False


REPORT_BOUNDS: Final[Mapping[str, ReportBounds]] = MappingProxyType(
    {
        "live": ReportBounds(
            most={
                **_MEDIA,
                GapStart: None,
                Prepared: None,
                EpochStart: None,
                Spliced: None,
                Placed: None,
                TakenOver: None,
                SoundMoved: None,
                EpochFinished: None,
                Progress: None,
                Trouble: None,
                Posters: None,
            },
            live=True,
        ),
        # Its figures are kept by the dozen, and it is asked for each of them.
        "watch": ReportBounds(most={Compared: None, Judged: None}, live=True),
        "probe": ReportBounds(most={**_FINAL, **_READING, Probed: 1}),
        "video": ReportBounds(most=_CONVERTING),
        "asset": ReportBounds(most={**_CONVERTING, Surveyed: 1, Ready: _FEW}),
        "span": ReportBounds(most=_CONVERTING),
        # One for each box of a ladder; all of them, of noise, are 16 MB.
        "still": ReportBounds(most={**_FINAL, Poster: 8}, kept=24 * _MIB),
        "poster": ReportBounds(most={**_FINAL, **_READING, Poster: 8, Previews: 1}, kept=32 * _MIB),
        "previews": ReportBounds(most={**_FINAL, Poster: 8, Previews: 1}, kept=32 * _MIB),
        # 4 Mi letters of four bytes, and 100 000 cues (see `transcode.engine.images.subtitles`).
        "subtitles": ReportBounds(
            most={**_FINAL, **_READING, SubtitleTrack: MOST_SUBTITLES}, kept=24 * _MIB
        ),
    }
)
"""By the engine's task. A kind that is not named here may report nothing."""


def longest_report(kind: type[EngineReport]) -> int:
    """Return the longest report of a type."""
    return _LONGEST.get(kind, _LONGEST_OTHER)
