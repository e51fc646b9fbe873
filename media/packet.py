"""One coded access unit on its way from a source."""

import msgspec

from media.track import Track

__all__ = ["MediaPacket"]


class MediaPacket(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A coded picture or a coded run of sound samples.

    `dts` and `pts` are ticks of `track.scale`, unwrapped: they never jump by 2**32.
    `data` is as the container carries it: AVC with length prefixes (AVCC, not Annex B), AAC raw
    without ADTS. `key` says that the source calls it a keyframe; always true for sound.
    """

    track: Track
    dts: int
    pts: int
    key: bool
    data: bytes
