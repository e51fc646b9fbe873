"""One coded access unit of a source."""

from typing import Final

import msgspec

from media.track import Track

# The memory that a packet takes besides its data: 163 bytes in a GOP buffer, 243 in the queue of an
# engine. A flood of empty packets must not fit into a bound that counts their data alone.
PACKET_OVERHEAD: Final = 256


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

    @property
    def memory_bytes(self) -> int:
        """The memory that the packet takes, in bytes."""
        return len(self.data) + PACKET_OVERHEAD
