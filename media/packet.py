"""One coded access unit of a source."""

import msgspec

from media.track import Track

__all__ = ["MediaPacket"]


class MediaPacket(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A coded picture or a coded frame of audio samples.

    `dts` and `pts` are ticks of `track.scale`, unwrapped: they never jump by 2**32.
    `data` is in the container's form: AVC with length prefixes (AVCC, not Annex B), AAC raw
    without ADTS. `key`: the source marks it as a keyframe; always true for audio.
    """

    track: Track
    dts: int
    pts: int
    key: bool
    data: bytes
